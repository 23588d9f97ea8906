//! The guest's verifier takes every program. What one kernel proves within its limits another may give up on: the table shows
//! how near each program comes.

use crate::guest::{Guest, Image};
use serde_json::Value;
use windlass_lab::netns::{self, Netns};

/// Where the verifier gives up.
const VERIFIED_INSNS_MAX: u64 = 1_000_000;

#[test]
fn the_verifier_takes_every_program() {
    let Some((image, _turn)) = Image::get_or_skip("the_verifier_takes_every_program") else { return };
    let host = Netns::create(netns::next_run(), "verifier").expect("a namespace");
    let mut guest = Guest::boot(image, &host, None);
    let kernel = guest.run("uname -r");
    // its status is about what the guest lacks besides
    let doctor = guest.run("windlass doctor --json || true");
    let doctor: Value = serde_json::from_str(&doctor).expect("JSON");
    let checks = doctor["checks"].as_array().expect("a list");
    println!("{:>10} {:>10}  program (Linux {kernel})", "insns", "verified");
    for name in ["programs", "native"] {
        let check = checks.iter().find(|c| c["name"] == name).expect("a check of this name");
        let programs = check["programs"].as_array().unwrap_or_else(|| panic!("not taken: {check}"));
        for program in programs {
            let verified_insns = program["verified_insns"].as_u64().expect("a number");
            let name = program["name"].as_str().expect("a name");
            println!("{:>10} {verified_insns:>10}  {name}", program["insns"].as_u64().expect("a number"));
            assert!(verified_insns > 0 && verified_insns < VERIFIED_INSNS_MAX, "{program}");
        }
    }
}
