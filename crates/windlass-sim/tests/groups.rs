//! Groups in virtual time: flows of hosts, and flows of the box, that share one window.

use windlass_scenario::{RunReport, Scenario};
use windlass_sim::{Config, RunOptions, run};

const SLOW: &str = "10 Mbit/s";

/// Servers with so many flows each behind one bottleneck of 100 ms.
struct Bench<'a> {
    rate: &'a str,
    flows: &'a [usize],
    /// Of each server's flows, when they are in a group.
    weights: &'a [i64],
    /// `[[group]]` "uplink" with these keys; empty: no group.
    group: &'a str,
    is_boxed: bool,
    seconds: u32,
}

impl Bench<'_> {
    fn run(&self) -> RunReport {
        let mut text = format!("name = \"groups\"\ntime_limit = \"{} s\"\n", self.seconds);
        if !self.group.is_empty() {
            text += &format!("[[group]]\nname = \"uplink\"\n{}\n", self.group);
        }
        let link = |a: &str, b: &str, keys: &str| format!("[[link]]\nbetween = [\"{a}\", \"{b}\"]\n{keys}\n");
        for host in ["switch", "box", "router", "client"] {
            text += &format!("[[host]]\nname = \"{host}\"\n");
        }
        text += &link("switch", "box", "");
        let rate = self.rate;
        text += &link("box", "router", &format!("rate = \"{rate}\"\ndelay = \"50 ms\"\nbuffer = \"1 BDP\""));
        text += &link("router", "client", "");
        for (server, flows) in self.flows.iter().enumerate() {
            text +=
                &format!("[[host]]\nname = \"vm{server}\"\n{}", link(&format!("vm{server}"), "switch", ""));
            for flow in 0..*flows {
                text += &format!(
                    "[[flow]]\nfrom = \"vm{server}\"\nto = \"client\"\nsize = \"1 GB\"\nstart = \"{} ms\"\n\
                     algorithm = \"reno\"\n",
                    10 * server + 37 * flow % 1000
                );
                if !self.group.is_empty() {
                    text += &format!("weight = {}\n", self.weights[server]);
                }
                if !self.group.is_empty() && !self.is_boxed {
                    text += "group = \"uplink\"\n";
                }
            }
        }
        if self.is_boxed {
            text += "[windlass]\nat = \"box\"\nfacing = \"switch\"\nalgorithm = \"reno\"\n";
            text += if self.group.is_empty() { "" } else { "group = \"uplink\"\n" };
        }
        // it is to be the group that limits a flow, not the send buffer of its host
        let config = Config { snd_buffer_bytes: 32 << 20, ..Config::default() };
        run(&Scenario::parse("groups", &text).unwrap(), &RunOptions { config, ..RunOptions::default() })
            .unwrap()
            .report
    }

    /// Payload of each server's flows together.
    fn bytes(&self) -> Vec<f64> {
        let report = self.run();
        let mut flows = report.flows.iter().map(|f| f.bytes as f64);
        self.flows.iter().map(|n| flows.by_ref().take(*n).sum()).collect()
    }
}

fn jain(x: &[f64]) -> f64 {
    let (sum, squares) = (x.iter().sum::<f64>(), x.iter().map(|x| x * x).sum::<f64>());
    sum * sum / (squares * x.len() as f64)
}

const PER_SERVER: &str = "rule = \"ccc\"\nper = \"server\"";

#[test]
fn a_tenant_gets_its_share_whatever_the_number_of_its_flows() {
    for is_boxed in [false, true] {
        let bench =
            |group| Bench { rate: SLOW, flows: &[1, 4], weights: &[1, 1], group, is_boxed, seconds: 60 };
        let (alone, coupled) = (bench("").bytes(), bench(PER_SERVER).bytes());
        println!("boxed {is_boxed}: alone {:.3}, coupled {:.4}", jain(&alone), jain(&coupled));
        // left alone, the four get three times as much as the one, or more
        assert!(jain(&alone) < 0.85, "{alone:?}");
        assert!(jain(&coupled) > 0.99, "{coupled:?}");
        let sum = |bytes: &[f64]| bytes.iter().sum::<f64>();
        assert!(sum(&coupled) > 0.97 * sum(&alone), "{alone:?} {coupled:?}");
    }
}

/// With room for two segments for each of its flows: two are the smallest window, and 500 flows have 1000 together.
#[test]
fn a_tenant_with_500_flows_gets_no_more_than_one_with_a_single_flow() {
    for is_boxed in [false, true] {
        let bench = |group| Bench {
            rate: "400 Mbit/s",
            flows: &[1, 500],
            weights: &[1, 1],
            group,
            is_boxed,
            seconds: 12,
        };
        let (alone, coupled) = (bench("").bytes(), bench(PER_SERVER).bytes());
        let ratio = |bytes: &[f64]| bytes[1] / bytes[0];
        println!("boxed {is_boxed}: 1:{:.0} alone, 1:{:.2} coupled", ratio(&alone), ratio(&coupled));
        assert!(ratio(&alone) > 10.0, "{alone:?}");
        assert!(ratio(&coupled) < 3.0, "{coupled:?}");
    }
}

#[test]
fn weights_divide_the_window() {
    for flows in [[1, 1], [3, 1], [4, 4]] {
        for weight in [2, 4] {
            let bytes = Bench {
                rate: SLOW,
                flows: &flows,
                weights: &[1, weight],
                group: PER_SERVER,
                is_boxed: false,
                seconds: 60,
            }
            .bytes();
            let ratio = bytes[1] / bytes[0];
            assert!((ratio / weight as f64 - 1.0).abs() < 0.05, "{flows:?} 1:{weight} is {ratio:.3}");
        }
    }
}

/// The link sees one flow's growth and one flow's reductions. Not counted: the start, which overshoots alike.
#[test]
fn coupled_flows_lose_less() {
    for is_boxed in [false, true] {
        let drops = |group, seconds| {
            let report = Bench { rate: SLOW, flows: &[4], weights: &[1], group, is_boxed, seconds }.run();
            report.links.iter().find(|l| l.name == "box > router").unwrap().stats.drops_tail
        };
        let late = |group| drops(group, 600) - drops(group, 300);
        let (alone, coupled) = (late(""), late("rule = \"ccc\""));
        println!("boxed {is_boxed}: {alone} drops alone, {coupled} coupled");
        assert!(coupled * 4 < alone, "boxed {is_boxed}: {alone} {coupled}");
    }
}

#[test]
fn every_rule_runs_in_both_homes() {
    for rule in ["ccc", "lisa", "cm", "etcp", "efcm", "multcp", "fse", "fse-conservative"] {
        for is_boxed in [false, true] {
            let group = format!("rule = \"{rule}\"");
            let bytes =
                Bench { rate: SLOW, flows: &[2, 1], weights: &[1, 1], group: &group, is_boxed, seconds: 60 }
                    .bytes();
            let used = bytes.iter().sum::<f64>() * 8.0 / 60.0 / 10e6;
            assert!(used > 0.85, "{rule}, boxed {is_boxed}: {used}");
        }
    }
}

/// A flow that finds no room is on its own, and loses nothing by it.
#[test]
fn flows_beyond_the_configured_number_go_on_by_themselves() {
    let group = "rule = \"ccc\"\nmax_members = 2";
    let bytes =
        Bench { rate: SLOW, flows: &[1, 1, 1], weights: &[1, 1, 1], group, is_boxed: false, seconds: 60 }
            .bytes();
    // the pair is one flow to the link, and the third another
    assert!((bytes[0] / bytes[1] - 1.0).abs() < 0.05, "{bytes:?}");
    assert!(bytes[2] > 1.3 * bytes[0], "{bytes:?}");
}
