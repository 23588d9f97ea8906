//! The programs of one build in the place of another's, over the same maps: flows go on and notice nothing.
//!
//! Each program is replaced in one step, so that no packet goes without, and one after the other: what one build's programs and
//! another's do at the same time to the same maps is what one build's programs do on several CPUs.

use crate::{
    Error, Result,
    attach::{FROM_SENDER, Side, TO_SENDER, attach_filter, replace_linked},
    clock,
    error::bpf,
    libbpf_words::silence_libbpf,
    object::{pinned_map, raise_limits},
    persist::{
        own_programs::OwnPrograms,
        pin_dir::{CLOCK_LINK, LINKS_OF_IFACE, PinDir, pinned_as},
    },
};
use libbpf_rs::{MapCore, Object, ObjectBuilder};
use std::{os::fd::AsFd, path::Path};

/// Loads the programs of this object, to go on with the maps that are pinned in `dir`. Fills no list and writes no rule: all that is
/// in the maps stays.
pub(crate) fn load_onto(object: &[u8], dir: &Path) -> Result<Object> {
    silence_libbpf();
    raise_limits();
    let mut open = ObjectBuilder::default().open_memory(object).map_err(Error::Load)?;
    for mut map in open.maps_mut() {
        let name = map.name().to_string_lossy().into_owned();
        let Some(file) = pinned_as(&name) else { continue };
        let pinned = pinned_map(&dir.join(file))?;
        // libbpf takes whatever it is given
        let is_alike = pinned.map_type() == map.map_type()
            && pinned.key_size() == map.key_size()
            && pinned.value_size() == map.value_size();
        if !is_alike {
            return Err(Error::OtherVersion(dir.into()));
        }
        map.reuse_fd(pinned.as_fd()).map_err(bpf(format!("going on with {file}")))?;
    }
    open.load().map_err(Error::Load)
}

/// Puts these programs in the place of those on interface `ifindex` and on its clock's device, whose index is `clock_ifindex`;
/// none: it is gone. With the lock of "pins" held.
pub(crate) fn replace_programs(
    programs: &OwnPrograms,
    pins: &PinDir,
    ifindex: u32,
    clock_ifindex: Option<u32>,
) -> Result<()> {
    let dir = pins.dir();
    let [link1, link2] = LINKS_OF_IFACE;
    let is_linked = dir.join(link1).exists();
    let places = [
        (clock::PROGRAM, CLOCK_LINK, clock_ifindex, Side::Ingress),
        (FROM_SENDER, link1, Some(ifindex), Side::Ingress),
        (TO_SENDER, link2, Some(ifindex), Side::Egress),
    ];
    for (name, link, ifindex, side) in places {
        if is_linked {
            replace_linked(&dir.join(link), programs.get(name))?;
        } else if let Some(ifindex) = ifindex {
            attach_filter(programs.get(name), name, ifindex, side)?;
        }
    }
    // what is attached later, and what flows leave with, is of the same build
    programs.pin_in(&dir)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::image::OBJECT;

    /// What one build's programs write and are not to find empty in the next one's.
    #[test]
    fn whatever_programs_write_is_pinned_but_for_working_memory() {
        let open = ObjectBuilder::default().open_memory(OBJECT).unwrap();
        for map in open.maps() {
            let name = map.name().to_string_lossy();
            let is_of_build = name.ends_with(".rodata") || name == "wl_scratch";
            assert!(pinned_as(&name).is_some() != is_of_build, "{name}");
        }
    }
}
