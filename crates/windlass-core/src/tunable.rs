//! Constants of algorithms that may be set by name.

use crate::abi::{self, wl_tunable_unit, wln_tunable};
use std::ffi::{CStr, c_char};

/// What values of a constant are written in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// A plain number.
    Number,
    /// A length of time.
    Seconds,
    /// A part of a whole.
    Share,
}

/// A constant of an algorithm, as its list in `core/alg/` declares it. Values are counted in parts, `scale` of which are one
/// unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tunable {
    /// Name in scenarios and policies.
    pub name: &'static str,
    /// What it is for.
    pub meaning: &'static str,
    /// What its values are written in.
    pub unit: Unit,
    /// Parts of one unit.
    pub scale: u32,
    /// The value, in parts, that is in force where none is set.
    pub default: u16,
    /// The smallest value, in parts.
    pub least: u16,
    /// The largest value, in parts.
    pub most: u16,
}

impl Tunable {
    pub(crate) fn of(entry: &'static wln_tunable) -> Tunable {
        // SAFETY: entries of the list have strings, which are static and ASCII.
        let text = |p: *const c_char| unsafe { CStr::from_ptr(p) }.to_str().expect("ASCII");
        Tunable {
            name: text(entry.name),
            meaning: text(entry.meaning),
            unit: Unit::of(entry.unit),
            scale: entry.scale,
            default: entry.value,
            least: entry.least,
            most: entry.most,
        }
    }

    /// The value of that many units in parts, to the nearest; none: it is out of bounds.
    pub fn parts(&self, units: f64) -> Option<u16> {
        let parts = (units * f64::from(self.scale)).round();
        (f64::from(self.least)..=f64::from(self.most)).contains(&parts).then_some(parts as u16)
    }

    /// The same in units.
    pub fn units(&self, parts: u16) -> f64 {
        f64::from(parts) / f64::from(self.scale)
    }
}

impl Unit {
    fn of(unit: wl_tunable_unit) -> Unit {
        match unit {
            abi::WL_UNIT_SECONDS => Unit::Seconds,
            abi::WL_UNIT_SHARE => Unit::Share,
            _ => Unit::Number,
        }
    }
}
