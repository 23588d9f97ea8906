//! Rates that were recorded, in mahimahi's format: a text file with a time in milliseconds on each line, from 0 on and never going
//! back; several lines may have the same. At each of these times the link can send one full packet of 1514 bytes, or as many
//! smaller ones as these bytes are, of what waits then; what is not used is lost. A larger packet takes as many as it needs. After the
//! last time the trace begins again, so that this is the length of a round.
//!
//! ```text
//! 0            at 0 and 3 ms one packet, at 7 ms two,
//! 3            then at 7 + 0, 7 + 3, 7 + 7 ms ...
//! 7
//! 7
//! ```

use crate::{Rate, read_file};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::{path::Path, sync::Arc};

/// What one time of a trace lets pass.
const OPPORTUNITY_BYTES: u64 = 1514;
const MS_NS: u64 = 1_000_000;
/// The longest trace: a day.
const LONGEST_MS: u64 = 86_400_000;

/// A trace, by the name of its file as the scenario has it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RateTrace {
    file: String,
    /// Empty: it has not been read yet.
    times_ms: Arc<[u32]>,
}

impl<'de> Deserialize<'de> for RateTrace {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        String::deserialize(d).map(|file| RateTrace { file, times_ms: Arc::default() })
    }
}

impl Serialize for RateTrace {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        s.serialize_str(&self.file)
    }
}

impl RateTrace {
    /// Reads its file, whose name counts from `folder`, that of the scenario.
    pub(crate) fn load(&mut self, folder: &Path) -> Result<(), String> {
        let path = folder.join(&self.file);
        let text = read_file(&path).map_err(|e| format!("{} cannot be read: {e}", path.display()))?;
        self.times_ms = parse(&text).map_err(|what| format!("{}{what}", path.display()))?.into();
        Ok(())
    }

    /// The mean rate of full packets.
    pub fn mean_rate(&self) -> Rate {
        let bits = 8.0 * OPPORTUNITY_BYTES as f64 * self.times_ms.len() as f64;
        Rate(bits / (self.round_ns() as f64 / 1e9))
    }

    fn round_ns(&self) -> u64 {
        u64::from(self.times_ms.last().copied().unwrap_or(1)) * MS_NS
    }
}

/// The times of a trace; an error begins with the line.
fn parse(text: &str) -> Result<Vec<u32>, String> {
    let mut times_ms: Vec<u32> = Vec::new();
    for (line, number) in text.lines().zip(1..) {
        if line.trim().is_empty() {
            continue;
        }
        let wrong = |what: &str| format!(":{number}: \"{}\": {what}", line.trim());
        let time_ms = line.trim().parse::<u64>().ok().filter(|ms| *ms <= LONGEST_MS);
        let time_ms =
            time_ms.ok_or_else(|| wrong("a line is a whole number of milliseconds, a day at most"))? as u32;
        if times_ms.last().is_some_and(|last| *last > time_ms) {
            return Err(wrong("times must not go back; sort the lines"));
        }
        times_ms.push(time_ms);
    }
    match times_ms.last() {
        None => Err(": no times; each line is one, in milliseconds".into()),
        Some(0) => Err(
            ": all times are 0, so that it would repeat without end; its last time is the length of a round"
                .into(),
        ),
        Some(_) => Ok(times_ms),
    }
}

/// A trace in the course of a run. Times count from its beginning.
#[derive(Clone, Debug)]
pub(crate) struct TraceClock {
    trace: RateTrace,
    /// The opportunity that is used next ...
    next: usize,
    /// ... in a round that began then.
    round_began_ns: u64,
    /// What is left of it.
    left_bytes: u64,
    /// Time that a byte takes in the mean.
    byte_ns: f64,
}

impl TraceClock {
    pub fn new(trace: &RateTrace) -> TraceClock {
        let byte_ns = 8e9 / trace.mean_rate().0;
        TraceClock {
            trace: trace.clone(),
            next: 0,
            round_began_ns: 0,
            left_bytes: OPPORTUNITY_BYTES,
            byte_ns,
        }
    }

    fn next_ns(&self) -> u64 {
        self.round_began_ns + u64::from(self.trace.times_ms[self.next]) * MS_NS
    }

    fn go_on(&mut self) {
        self.left_bytes = OPPORTUNITY_BYTES;
        self.next += 1;
        if self.next == self.trace.times_ms.len() {
            self.next = 0;
            self.round_began_ns += self.trace.round_ns();
        }
    }

    /// When a packet has been sent that waits from `from_ns` on, behind all before it.
    pub fn departure_ns(&mut self, from_ns: u64, bytes: u64) -> u64 {
        if self.next_ns() < from_ns {
            self.skip_until(from_ns);
        }
        let mut bytes = bytes;
        while bytes > self.left_bytes {
            bytes -= self.left_bytes;
            self.go_on();
        }
        self.left_bytes -= bytes;
        self.next_ns()
    }

    /// Leaves out what lies before a time.
    fn skip_until(&mut self, from_ns: u64) {
        let round_ns = self.trace.round_ns();
        let rounds = (from_ns - self.round_began_ns).saturating_sub(round_ns) / round_ns;
        if rounds > 0 {
            self.round_began_ns += rounds * round_ns;
            self.next = 0;
        }
        while self.next_ns() < from_ns {
            self.go_on();
        }
        self.left_bytes = OPPORTUNITY_BYTES;
    }

    /// For how long a packet keeps the link busy, in the mean.
    pub fn busy_ns(&self, bytes: u64) -> u64 {
        (bytes as f64 * self.byte_ns) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Link, LinkModel, Scenario, Verdict};

    fn trace(text: &str) -> RateTrace {
        RateTrace { file: "t".into(), times_ms: parse(text).unwrap().into() }
    }

    /// When packets that come at these times leave, in ms.
    fn out_ms(text: &str, packets: &[(u64, u64)]) -> Vec<u64> {
        let trace = trace(text);
        let rate = Some(trace.mean_rate());
        let link = Link { rate, rate_trace: Some(trace), ..Link::cable(["a".into(), "b".into()]) };
        let mut model = LinkModel::new(&link, false, 1);
        // times count from the first packet
        let first_ns = 5_000_000_000;
        let mut out = |&(at_ms, bytes)| match model.offer(first_ns + at_ms * MS_NS, bytes, false) {
            Verdict::Deliver { at_ns, .. } => (at_ns - first_ns) / MS_NS,
            other => panic!("{other:?}"),
        };
        packets.iter().map(&mut out).collect()
    }

    #[test]
    fn a_trace_sends_a_full_packet_at_each_of_its_times() {
        let full = [(0, 1514); 7];
        assert_eq!(out_ms("0\n3\n7\n7\n", &full), [0, 3, 7, 7, 7, 10, 14]);
        // what nothing waits for is lost
        assert_eq!(out_ms("0\n3\n7\n7\n", &[(0, 1514), (4, 1514), (8, 1514), (100, 1514)]), [0, 7, 10, 101]);
    }

    /// Three of 500 bytes fit into one time, and the fourth begins in the rest of it; one of 4000 bytes takes three.
    #[test]
    fn a_trace_lets_as_many_bytes_pass_as_a_full_packet_has() {
        assert_eq!(out_ms("1\n2\n3\n", &[(0, 500); 5]), [1, 1, 1, 2, 2]);
        assert_eq!(out_ms("1\n2\n3\n", &[(0, 4000), (0, 500)]), [3, 3]);
    }

    #[test]
    fn a_trace_has_a_mean_rate_and_times_are_found_after_a_long_pause() {
        let t = trace("5\n10\n");
        assert_eq!(t.mean_rate(), Rate(2.0 * 1514.0 * 8.0 / 0.01));
        let mut clock = TraceClock::new(&t);
        assert_eq!(clock.departure_ns(86_400_000 * MS_NS + 1, 1514), 86_400_005 * MS_NS);
        let link =
            Link { rate: Some(t.mean_rate()), rate_trace: Some(t), ..Link::cable(["a".into(), "b".into()]) };
        let mut model = LinkModel::new(&link, false, 1);
        for _ in 0..100 {
            model.offer(0, 1514, false);
        }
        let stats = model.finish();
        assert!((stats.utilisation - 1.0).abs() < 0.01, "{stats:?}");
        assert_eq!(stats.queued_ns, (1..=100).map(|n| n * 5 * MS_NS).sum::<u64>());
    }

    #[test]
    fn mistakes_of_traces_name_file_line_and_cure() {
        let folder = std::env::temp_dir().join(format!("windlass-trace-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let scenario = |keys: &str| {
            let text = format!(
                "name = \"t\"\n[[host]]\nname = \"a\"\n[[host]]\nname = \"b\"\n[[link]]\nbetween = [\"a\", \"b\"]\n{keys}\n"
            );
            Scenario::parse(folder.join("s.toml").to_str().unwrap(), &text)
        };
        std::fs::write(folder.join("fine"), "10\n").unwrap();
        std::fs::write(folder.join("slow"), "20\n").unwrap();
        let both = scenario(
            "rate_trace = \"fine\"\nrate_trace_back = \"slow\"\nbuffer = \"1 BDP\"\ndelay = \"1 s\"",
        );
        let both = both.unwrap_or_else(|e| panic!("{e}"));
        let rates = [false, true].map(|backward| both.port(0, backward).rate);
        assert_eq!(rates, [Some(Rate(1_211_200.0)), Some(Rate(605_600.0))]);
        let error = |keys: &str| {
            let e = scenario(keys).expect_err(keys);
            assert_eq!(e.line, 8, "{e}");
            e.what
        };
        let what = error("rate_trace = \"none\"");
        assert!(what.starts_with("rate_trace: ") && what.contains("none cannot be read"), "{what}");
        for (text, part) in [
            ("1\nx\n", "bad:2: \"x\": a line"),
            ("2\n1\n", "bad:2: \"1\": times"),
            ("", "no times"),
            ("0\n0\n", "all times are 0"),
        ] {
            std::fs::write(folder.join("bad"), text).unwrap();
            let what = error("rate_trace = \"bad\"");
            assert!(what.starts_with("rate_trace: ") && what.contains(part), "{what}");
        }
        assert!(error("rate = \"1 Mbit/s\"\nrate_trace = \"fine\"").starts_with("rate: rate_trace has it"));
        assert!(error("rate_trace_back = \"fine\"").starts_with("rate_trace_back: "));
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
