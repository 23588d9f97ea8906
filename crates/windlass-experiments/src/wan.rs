//! Experiments over one WAN: a server, a box and a client in a row, one transfer. Their points give rate, round-trip
//! time, loss, buffer and size; their variants have fixed names.

use crate::job::{Condition, Home, Job};
use anyhow::{Result, bail};
use serde::Deserialize;
use windlass_scenario::{
    Buffer, Bytes, Flow, Fraction, Host, Link, Mode, Parameters, Rate, Scenario, Span, Tcp, Windlass,
};

/// One condition: a network and a transfer.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Point {
    /// Its name, unique.
    pub name: String,
    /// Rate of the bottleneck.
    pub rate: Rate,
    /// Round-trip propagation delay.
    pub rtt: Span,
    /// Random loss towards the client.
    #[serde(default)]
    pub loss: Fraction,
    /// Buffer of the bottleneck.
    pub buffer: Buffer,
    /// Size of the transfer.
    pub size: Bytes,
    /// Runs of each variant in full mode.
    pub runs: u32,
    /// ... and in quick mode; 0: the point is left out.
    pub quick_runs: u32,
    /// Only these variants; empty: all of the experiment.
    #[serde(default)]
    pub variants: Vec<String>,
    /// Smaller size for quick mode.
    pub quick_size: Option<Bytes>,
}

/// The sender, and what is in between.
fn variant(name: &str) -> Result<(&'static str, Option<Windlass>)> {
    let windlass = |mode| Windlass {
        at: "box".into(),
        facing: "server".into(),
        algorithm: "bbr".into(),
        mode,
        group: None,
    };
    Ok(match name {
        "cubic" => ("cubic", None),
        "bbr" => ("bbr", None),
        "reno" => ("reno", None),
        "native-reno" => ("wl_reno", None),
        "native-cubic" => ("wl_cubic", None),
        "native-kcubic" => ("wl_kcubic", None),
        "native-bbr" => ("wl_bbr", None),
        "windlass" => ("cubic", Some(windlass(Mode::Transparent))),
        "cubic-watched" => ("cubic", Some(windlass(Mode::Watch))),
        "bbr-watched" => ("bbr", Some(windlass(Mode::Watch))),
        "bbr-behind-box" => ("bbr", Some(windlass(Mode::Transparent))),
        other => {
            bail!(
                "unknown variant \"{other}\"; known: reno, cubic, bbr, native-reno, native-cubic, native-kcubic, native-bbr, windlass, \
                 cubic-watched, bbr-watched, bbr-behind-box"
            )
        }
    })
}

impl Point {
    /// The scenario of one run.
    pub fn scenario(&self, variant_name: &str, seed: u64, size: Bytes) -> Result<Scenario> {
        let (algorithm, windlass) = variant(variant_name)?;
        let host = |name: &str| Host { name: name.into() };
        let cable = Link::cable(["server".into(), "box".into()]);
        let wan = Link {
            between: ["box".into(), "client".into()],
            rate: Some(self.rate),
            delay: Span(self.rtt.0 / 2.0),
            buffer: Some(self.buffer),
            loss: self.loss,
            ..cable.clone()
        };
        let flow = Flow { algorithm: algorithm.into(), ..Flow::transfer("server", "client", size) };
        // a lossy CUBIC transfer takes long; the wait is bounded
        let expected_s = size.0 * 8.0 / self.rate.0 + 10.0 * self.rtt.0;
        Ok(Scenario {
            name: format!("{}/{variant_name}", self.name),
            seed,
            time_limit: Span((expected_s * 100.0).clamp(60.0, 900.0)),
            hosts: vec![host("server"), host("box"), host("client")],
            switches: Vec::new(),
            links: vec![cable, wan],
            groups: Vec::new(),
            flows: vec![flow],
            tcp: Tcp::default(),
            windlass,
            parameters: Parameters::default(),
        })
    }

    /// The runs of one mode; `variants` are those of the experiment.
    pub fn condition(&self, variants: &[String], quick: bool, needs_samples: bool) -> Result<Condition> {
        let variants = if self.variants.is_empty() { variants } else { &self.variants };
        let size = self.quick_size.filter(|_| quick).unwrap_or(self.size);
        let runs = if quick { self.quick_runs } else { self.runs };
        let mut jobs = Vec::new();
        for seed in 1..=u64::from(runs) {
            for name in variants {
                jobs.push(Job {
                    point: self.name.clone(),
                    variant: name.clone(),
                    on: Home::Lab,
                    bdp_bytes: self.rate.0 / 8.0 * self.rtt.0,
                    needs_samples,
                    interval: None,
                    scenario: self.scenario(name, seed, size)?,
                });
            }
        }
        Ok(Condition {
            name: self.name.clone(),
            point: self.name.clone(),
            x: None,
            line: String::new(),
            jobs,
        })
    }
}
