//! `windlass bench isolation`: what an attack on a server, or in its name, takes from other connections behind the same interface.
//!
//! A victim downloads for a few seconds, by a connection that begins beside the attack: (a) without box and attack, (b) without the
//! box beside the attack, (c) behind the box, (d) behind the box beside the attack, one after the other, several times. There are
//! four victims at a time: over a lossy and a clean path, of another server than the attacked one and of that one itself. What (d)
//! keeps of (c), and of (b), is judged at the worse path. Forged segments take their part of the victim's link whatever they carry: of
//! attacks that forge, (c) has as many segments beside it, of connections that do not exist. Where the attack takes its part without a box, as generator, router and
//! servers are on the same processors, (b) beside (a) shows it on the clean path, and (d) is judged by what is left.

mod download;
mod judge;
mod network;

use crate::{progress::Progress, report::Outcome, settings::Settings};
use anyhow::{Context, Result, ensure};
use download::{Download, Downloaded};
use judge::{Rates, Victim, judge, rows, table, victims};
use network::{Client, Network};
use std::{fs::File, net::SocketAddrV4, thread, time::Duration};
use windlass_lab::{
    attacks::{Attack, Running, Stage, Tally},
    files, netns,
};

/// More than the fastest path carries in the longest turn.
const FILE_BYTES: u64 = 64 << 20;
/// Own ports of the victims' first connections; each turn has other ones.
const PORT_FIRST: u16 = 30_000;
/// Turns of a round: (a) to (d).
const TURNS: usize = 4;

/// From a victim's own port to that of a connection that does not exist.
const DECOY: u16 = 10_000;

/// What is beside downloads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Beside {
    Nothing,
    /// As many segments as the attack forges, of connections that do not exist.
    Decoys,
    Attack,
}

/// Of each download.
const TIME: Duration = Duration::from_secs(2);

/// Rounds of each attack.
fn rounds(is_quick: bool) -> usize {
    if is_quick { 1 } else { 3 }
}

/// One attack, and the network that it is made in.
struct Bench<'a> {
    settings: &'a Settings,
    progress: &'a Progress,
    attack: Attack,
    network: Network,
    name: String,
    file: File,
    /// Turns so far.
    turns: u16,
}

impl Bench<'_> {
    /// Downloads of all clients at once, with how the attack went that was made beside them.
    fn turn(&mut self, beside: Beside) -> Result<(Vec<Downloaded>, Option<Tally>)> {
        self.settings.check_stopped()?;
        self.turns += 1;
        let port = PORT_FIRST + self.turns;
        let mut attack = match beside {
            Beside::Nothing => None,
            Beside::Decoys => Some(self.start_attack(port + DECOY)?),
            Beside::Attack => Some(self.start_attack(port)?),
        };
        if let Some(attack) = &mut attack {
            attack.wait_until_ready(Some(self.settings.cancel))?;
        }
        let (name, file, cancel) = (self.name.as_str(), &self.file, self.settings.cancel);
        let downloads = self.network.clients.iter().map(|client| {
            let from = SocketAddrV4::new(client.address, port);
            Download { client: &client.host, from, server: client.server(), name, file, time: TIME, cancel }
        });
        let downloaded = thread::scope(|scope| {
            let running: Vec<_> = downloads.map(|download| scope.spawn(move || download.run())).collect();
            running.into_iter().map(|r| r.join().expect("a download does not panic")).collect::<Result<_>>()
        })?;
        self.settings.check_stopped()?;
        let tally = attack.map(Running::finish).transpose()?;
        self.progress.add(format!(
            "{} {}",
            self.attack.name(),
            if beside == Beside::Attack { "attacked" } else { "alone" }
        ));
        Ok((downloaded, tally))
    }

    fn start_attack(&self, port: u16) -> Result<Running> {
        let victim = |client: &Client| windlass_lab::attacks::Victim {
            server: client.server(),
            client: SocketAddrV4::new(client.address, port),
        };
        let stage = Stage {
            target: self.network.attacked(),
            file: files::endless()?,
            first_address: self.network.first_address(),
            victims: self.network.clients.iter().map(victim).collect(),
            seed: u64::from(port),
        };
        let neighbour = self.attack.is_neighbour();
        let at = if neighbour { self.network.neighbour() } else { self.network.attacker() };
        Running::start(self.attack, &stage, &at)
    }

    /// (a) to (d), of each victim; returns how the attack went in (b) and in (d).
    fn round(&mut self, victims: &mut [Victim]) -> Result<[Option<Tally>; 2]> {
        let (alone, _) = self.turn(Beside::Nothing)?;
        let (attacked, unboxed_tally) = self.turn(Beside::Attack)?;
        let windlass = self.network.attach(self.settings)?;
        let (boxed, _) = self.turn(if self.attack.forges() { Beside::Decoys } else { Beside::Nothing })?;
        let (both, boxed_tally) = self.turn(Beside::Attack)?;
        windlass.release()?;
        for (index, victim) in victims.iter_mut().enumerate() {
            let turns = [&alone, &attacked, &boxed, &both].map(|turn| turn[index]);
            let [alone, attacked, boxed, both] = turns.map(|d| d.mbps());
            victim.runs.push(Rates { alone, attacked, boxed, both });
            victim.wrong += turns.iter().filter(|d| !d.is_intact).count();
        }
        Ok([unboxed_tally, boxed_tally])
    }
}

/// What the attack sent without and with the box, in a few words.
fn summary(tallies: [Option<Tally>; 2]) -> String {
    let [Some(unboxed), Some(boxed)] = tallies else { return String::new() };
    let [unboxed_ps, boxed_ps] = [unboxed, boxed].map(|tally| tally.sent as f64 / tally.seconds.max(1e-9));
    let packets = format!("{unboxed_ps:.0} packets/s without the box, {boxed_ps:.0} behind it");
    match boxed.established {
        0 => packets,
        connections => format!("{connections} connections, {packets}"),
    }
}

fn measure(attack: Attack, settings: &Settings, progress: &Progress) -> Result<(Vec<Victim>, String)> {
    let name = files::file_of(FILE_BYTES)?;
    let path = files::folder().join(&name);
    let file = File::open(&path).with_context(|| path.display().to_string())?;
    let network = Network::create(attack.connections())?;
    let mut bench = Bench { settings, progress, attack, network, name, file, turns: 0 };
    let (mut victims, mut tallies) = (victims(), [None; 2]);
    for _ in 0..rounds(settings.quick) {
        tallies = bench.round(&mut victims)?;
    }
    Ok((victims, summary(tallies)))
}

/// Makes the attacks whose name begins with `only` beside victims, and judges what these keep. Stopped by Ctrl-C, it returns what
/// has finished.
///
/// # Errors
/// A name that no attack has, a missing tool or privilege.
pub fn bench_isolation(only: &str, settings: &Settings) -> Result<Outcome> {
    let attacks: Vec<Attack> = Attack::ALL.into_iter().filter(|a| a.name().starts_with(only)).collect();
    let names = || Attack::ALL.map(Attack::name).join(", ");
    ensure!(!attacks.is_empty(), "--only {only}: no attack begins so; there are {}", names());
    netns::check_root()?;
    let progress =
        Progress::new("isolation", attacks.len() * rounds(settings.quick) * TURNS, 0, settings.quiet);
    let (mut verdicts, mut filled) = (Vec::new(), Vec::new());
    for attack in attacks {
        let measured = measure(attack, settings, &progress);
        // a terminal's Ctrl-C reaches servers and box as well: what fails then has not failed of itself
        if settings.check_stopped().is_err() {
            break;
        }
        let (victims, tally) = measured.with_context(|| attack.name())?;
        for verdict in judge(attack.name(), &victims, &tally) {
            if !settings.quiet {
                progress.say(&verdict.to_string());
            }
            verdicts.push(verdict);
        }
        filled.extend(rows(attack.name(), &victims));
    }
    progress.finish();
    let title = "what victims beside an attack keep of their rate, behind the box and without it".into();
    Ok(Outcome { name: "isolation".into(), title, verdicts, tables: vec![table(filled)], runs: Vec::new() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_summary_of_an_attack_has_its_connections_and_rates() {
        let tally = |sent, established| Some(Tally { sent, seconds: 2.0, established, ..Tally::default() });
        let packets = "500 packets/s without the box, 250 behind it";
        assert_eq!(summary([tally(1000, 0), tally(500, 0)]), packets);
        assert_eq!(summary([tally(1000, 9), tally(500, 7)]), format!("7 connections, {packets}"));
        assert_eq!(summary([None; 2]), "");
    }

    #[test]
    fn the_fastest_path_does_not_come_to_the_end_of_the_file() {
        assert!(100e6 / 8.0 * TIME.as_secs_f64() < FILE_BYTES as f64);
    }
}
