//! Links by the kernel's own emulators: netem loses and delays, tbf below it has the rate and the buffer. What our emulator
//! does and they do not: packets are lost and delayed before the bottleneck rather than behind it, random losses have
//! no seed, and the queue is not measured.

use crate::netns::Netns;
use anyhow::{Context, Result, anyhow, bail};
use serde_json::Value;
use windlass_scenario::{Buffer, Link, LinkStats, Scenario};

/// netem's own queue holds what is under way: it must never be what drops.
const UNDER_WAY_PACKETS: &str = "1000000";
/// A buffer without limit.
const UNLIMITED_BYTES: u64 = 1 << 30;
/// What tbf may send at once: what is due within the latency of a timer, and never less than two packets.
const BURST_S: f64 = 100e-6;
const BURST_LEAST_PACKETS: u64 = 2;

/// Whether netem can play all links of the scenario; else which it cannot, and the cure.
pub(crate) fn check(scenario: &Scenario) -> Result<()> {
    for index in 0..scenario.links.len() {
        for port in [false, true].map(|backward| scenario.port(index, backward)) {
            let [a, b] = &port.between;
            let cannot = |key: &str, what: &str| {
                Err(anyhow!(
                    "link {a} - {b}: {key}: {what}: leave it out, or run it without --emulator netem"
                ))
            };
            if port.ecn.is_some() {
                return cannot("ecn", "netem does not mark by the length of a queue");
            }
            if port.discipline.is_some() {
                return cannot("discipline", "tbf's queue is first in, first out");
            }
            let impairments = [
                ("policer", port.policer.is_some()),
                ("outages", !port.outages.is_empty()),
                ("rate_steps", !port.rate_steps.is_empty()),
                ("rate_trace", port.rate_trace.is_some()),
                ("ack_filter", port.ack_filter),
            ];
            if let Some((key, _)) = impairments.iter().find(|(_, is_given)| *is_given) {
                return cannot(key, "netem's links are the same all the time");
            }
            if port.jitter().0 > 0.0 && !port.reorder {
                return cannot("jitter", "netem's reorders packets; set `reorder = true` if it may");
            }
        }
    }
    Ok(())
}

/// Keeps the device from taking several packets for one, which would be lost and queue as one.
pub(crate) fn send_single_packets(host: &Netns, device: &str) -> Result<()> {
    host.run(&["ip", "link", "set", device, "gso_max_segs", "1"]).map(|_| ())
}

/// Has the device treat what it sends as that direction of the link does.
pub(crate) fn shape(host: &Netns, device: &str, port: &Link, backward: bool) -> Result<()> {
    for (kind, words) in qdiscs(port, backward) {
        let line = format!("tc qdisc add dev {device} {words}");
        let out = host
            .command("tc")
            .args(line.split_whitespace().skip(1))
            .output()
            .context("`tc`: is it installed?")?;
        if !out.status.success() {
            let said = String::from_utf8_lossy(&out.stderr);
            let why = said.lines().next().unwrap_or_default().trim_end_matches('.');
            bail!(
                "--emulator netem: `{line}`: {why}: does this kernel have it (modprobe sch_{kind})? Ours works everywhere: \
                 leave --emulator out"
            );
        }
    }
    Ok(())
}

/// The queueing disciplines of a direction, outermost first: kind, and the arguments for `tc`.
fn qdiscs(port: &Link, backward: bool) -> Vec<(&'static str, String)> {
    let mut netem = format!("root handle 1: netem limit {UNDER_WAY_PACKETS}");
    let (delay_us, jitter_us) = (port.delay.0 * 1e6, port.jitter().0 * 1e6);
    if jitter_us > 0.0 {
        // netem's is to both sides, ours adds
        netem += &format!(" delay {:.3}us {:.3}us", delay_us + jitter_us / 2.0, jitter_us / 2.0);
    } else if delay_us > 0.0 {
        netem += &format!(" delay {delay_us:.3}us");
    }
    let loss = if backward { port.loss_back } else { port.loss };
    match port.bursts.filter(|_| !backward) {
        Some(g) => {
            let words = [g.to_bad, g.to_good, g.loss_bad, g.loss_good].map(|f| format!("{}%", f.0 * 100.0));
            netem += &format!(" loss gemodel {}", words.join(" "));
        }
        None if loss.0 > 0.0 => netem += &format!(" loss {}%", loss.0 * 100.0),
        None => {}
    }
    let mut all = vec![("netem", netem)];
    if let Some(rate) = port.rate {
        let burst = ((rate.0 / 8.0 * BURST_S) as u64).max(BURST_LEAST_PACKETS * port.packet_bytes);
        let buffer = port.buffer.map(|b| port.resolve(b));
        let limit = if let Some(Buffer::Bytes(n)) = buffer { n } else { UNLIMITED_BYTES };
        all.push(("tbf", format!("parent 1:1 handle 2: tbf rate {}bit burst {burst} limit {limit}", rate.0)));
        if let Some(Buffer::Packets(n)) = buffer {
            all.push(("fifo", format!("parent 2:1 handle 3: pfifo limit {n}")));
        }
    }
    all
}

/// What happened to what the device sent so far.
pub(crate) fn stats(host: &Netns, device: &str) -> Result<LinkStats> {
    let out = host.run(&["tc", "-s", "-j", "qdisc", "show", "dev", device])?;
    let shown: Value = serde_json::from_slice(&out.stdout).context("what `tc` says in JSON")?;
    parsed(&shown).with_context(|| format!("no netem on {device}"))
}

/// From what `tc -s -j qdisc show` prints; none: there is no netem.
fn parsed(shown: &Value) -> Option<LinkStats> {
    let of = |kind: &str| shown.as_array()?.iter().find(|q| q["kind"] == kind);
    let netem = of("netem")?;
    let count = |qdisc: &Value, name: &str| qdisc[name].as_u64().unwrap_or(0);
    // netem's drops are those of what is below it, too
    let drops_tail = of("tbf").map_or(0, |tbf| count(tbf, "drops"));
    let drops = count(netem, "drops");
    Some(LinkStats {
        packets: count(netem, "packets") + count(netem, "qlen") + drops,
        bytes: count(netem, "bytes"),
        drops_tail,
        drops_random: drops.saturating_sub(drops_tail),
        ..LinkStats::default()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn scenario(link: &str) -> Scenario {
        let text = format!(
            "name = \"t\"\nhost = [{{ name = \"a\" }}, {{ name = \"b\" }}]\n[[link]]\nbetween = [\"a\", \"b\"]\n{link}\n\
             [[flow]]\nfrom = \"a\"\nto = \"b\"\nsize = \"1 MB\"\n"
        );
        Scenario::parse("t.toml", &text).expect("a sound scenario")
    }

    fn words(link: &str, backward: bool) -> Vec<String> {
        qdiscs(&scenario(link).port(0, backward), backward).into_iter().map(|(_, words)| words).collect()
    }

    #[test]
    fn a_link_is_netem_above_tbf() {
        let wan = "rate = \"20 Mbit/s\"\ndelay = \"20 ms\"\nbuffer = \"1 BDP\"\nloss = \"1 %\"";
        assert_eq!(
            words(wan, false),
            [
                "root handle 1: netem limit 1000000 delay 20000.000us loss 1%",
                "parent 1:1 handle 2: tbf rate 20000000bit burst 3028 limit 100000"
            ]
        );
        assert!(!words(wan, true)[0].contains("loss"), "there is loss forward only");
        let packets = words("rate = \"1 Gbit/s\"\nbuffer = \"100 packets\"", false);
        assert!(packets[1].contains("burst 12500") && packets[2].ends_with("pfifo limit 100"), "{packets:?}");
        // our jitter is from 0 to so much, netem's from -so much
        let jitter = words("delay = \"10 ms\"\njitter = \"4 ms\"\nreorder = true", false);
        assert_eq!(jitter, ["root handle 1: netem limit 1000000 delay 12000.000us 2000.000us"]);
        let bursts = "bursts = { to_bad = \"1 %\", to_good = \"10 %\", loss_bad = \"50 %\" }";
        assert!(
            words(bursts, false)[0].ends_with("loss gemodel 1% 10% 50% 0%"),
            "{:?}",
            words(bursts, false)
        );
    }

    #[test]
    fn what_netem_cannot_do_is_refused() {
        for (link, key) in [
            ("rate = \"1 Mbit/s\"\necn = \"5 packets\"", "ecn"),
            ("rate = \"1 Mbit/s\"\ndiscipline = \"codel\"", "discipline"),
            ("delay = \"1 ms\"\njitter = \"1 ms\"", "jitter"),
        ] {
            let said = check(&scenario(link)).expect_err(key).to_string();
            assert!(said.contains(&format!("link a - b: {key}")) && said.contains("--emulator"), "{said}");
        }
        check(&scenario("loss = \"1 %\"")).unwrap();
    }

    #[test]
    fn drops_are_distinguished() {
        let shown = json!([
            { "kind": "netem", "handle": "1:", "bytes": 1_000, "packets": 10, "drops": 5, "qlen": 1 },
            { "kind": "tbf", "handle": "2:", "bytes": 1_000, "packets": 10, "drops": 3, "qlen": 1 },
        ]);
        let stats = parsed(&shown).unwrap();
        assert_eq!((stats.packets, stats.drops_tail, stats.drops_random), (16, 3, 2));
        assert_eq!(parsed(&json!([{ "kind": "noqueue" }])), None);
    }
}
