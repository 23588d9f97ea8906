//! Queue disciplines of the simulator and the emulator beside the kernel's own of the same names, below the same bulk flows: how
//! long the queue is, and how many packets are dropped.

use crate::guest::{Guest, Image};
use serde_json::Value;
use std::{fs, process::Command};
use windlass_lab::netns::{self, Netns};
use windlass_tests::windlass_path;

/// server -- guest -- client, in namespaces of the guest: the discipline is below a token bucket of 10 Mbit/s on v2, and ACKs take 40
/// ms. Full packets come one by one, and each counts with its Ethernet header, as in scenarios.
const NETWORK: [&str; 13] = [
    "ip netns add server && ip netns add client",
    "ip link add v1 type veth peer name eth0 netns server",
    "ip link add v2 type veth peer name eth0 netns client",
    "ip addr add 10.80.1.1/24 dev v1 && ip link set v1 up",
    "ip addr add 10.80.2.1/24 dev v2 && ip link set v2 up",
    "ip -n server addr add 10.80.1.2/24 dev eth0 && ip -n server link set eth0 gso_max_segs 1 up",
    "ip -n client addr add 10.80.2.2/24 dev eth0 && ip -n client link set eth0 up",
    "ip -n server route add default via 10.80.1.1",
    "ip -n client route add default via 10.80.2.1",
    "echo 1 >/proc/sys/net/ipv4/ip_forward",
    "ip netns exec server sh -c 'echo cubic >/proc/sys/net/ipv4/tcp_congestion_control'",
    "ip netns exec client tc qdisc add dev eth0 root netem delay 40ms limit 10000",
    "dd if=/dev/zero of=/srv/payload bs=1M count=60 2>/dev/null && ip netns exec server nginx -c /etc/nginx.conf",
];

/// From the beginning of the flows: their start is over, and until then both homes are measured.
const FROM_S: u32 = 10;
const TO_S: u32 = 70;
/// Of the bound: queue and drops.
const MOST: f64 = 0.15;
/// Runs of a discipline.
const RUNS_LEAST: usize = 3;
const RUNS_MOST: usize = 12;

/// A discipline in the kernel's words and in ours; `red`'s weight is what the kernel made of its burst.
const DISCIPLINES: [(&str, &str); 4] = [
    ("codel limit 1000", "\"codel\""),
    ("fq_codel limit 1000", "\"fq-codel\""),
    ("pie limit 1000", "\"pie\""),
    (
        "red limit 1514000 min 30280 max 90840 avpkt 1514 burst 34 bandwidth 10mbit probability 0.1",
        "{ kind = \"red\", min = \"30280 B\", max = \"90840 B\", probability = \"10 %\", weight = \"WEIGHT %\" }",
    ),
];

/// What a queue did between the two times.
#[derive(Clone, Copy, Debug)]
struct Seen {
    /// Packets in the mean, with what is being sent.
    queue_packets: f64,
    drops: f64,
    /// Packets that came.
    packets: f64,
}

/// Packets are known by addresses and the number in the IP header: of each that left how long it had been there; those that never
/// left were dropped.
const AWK: &str = r#"
	FNR == 1 { file++ }
	/ IP / { at = $1; match($0, /id [0-9]+/); id = substr($0, RSTART, RLENGTH); next }
	{ key = id " " $1 " " $3 }
	file == 1 { if (!begin) begin = at; came[key] = at; next }
	key in came { if (came[key] >= begin + FROM && came[key] < begin + TO) { sum += at - came[key]; left++ } delete came[key] }
	END { for (key in came) if (came[key] >= begin + FROM && came[key] < begin + TO - 1) drops++
	printf "%.6f %d %d\n", sum / (TO - FROM), drops, left + drops }
"#;

/// Four bulk flows through the kernel's discipline.
fn real(guest: &mut Guest, discipline: &str) -> Seen {
    guest.run("tc qdisc del dev v2 root 2>/dev/null || true");
    guest.run("tc qdisc add dev v2 root handle 1: tbf rate 10mbit burst 1600 limit 3000000");
    guest.run(&format!("tc qdisc add dev v2 parent 1:1 handle 2: {discipline}"));
    for (device, file, said) in [("v1", "came", 4), ("v2", "left", 5)] {
        guest.run(&format!(
            "rm -f /run/said && mkfifo /run/said; tcpdump -Z root -i {device} -n -q -s 64 -B 8192 -w /run/{file} \
             'src host 10.80.1.2 and tcp' 2>/run/said & captures=\"$captures $!\"; exec {said}</run/said"
        ));
        let listening = guest.run(&format!("read -r first <&{said}; echo $first"));
        assert!(listening.contains("listening"), "{listening}");
    }
    let curl = format!("ip netns exec client curl -s -m {TO_S} -o /dev/null http://10.80.1.2/payload");
    guest.run(&format!("for flow in 1 2 3 4; do {curl} & flows=\"$flows $!\"; done"));
    // in steps, as the virtual machine answers within some minutes
    for flow in 1..=4 {
        guest.run(&format!("set -- $flows; wait ${flow} || true"));
    }
    guest.run("flows=; kill -INT $captures; cat <&4; cat <&5; wait $captures || true; captures=");
    for file in ["came", "left"] {
        guest.run(&format!("tcpdump -Z root -r /run/{file} -n -v -tt 2>/dev/null >/run/{file}.txt"));
    }
    let printed =
        guest.run(&format!("awk -v FROM={FROM_S} -v TO={TO_S} -f /run/awk /run/came.txt /run/left.txt"));
    println!("{}", guest.run("tc -s -d qdisc show dev v2"));
    guest.run("rm -f /run/came* /run/left*");
    let numbers: Vec<f64> = printed.split_whitespace().map(|n| n.parse().expect("a number")).collect();
    Seen { queue_packets: numbers[0], drops: numbers[1], packets: numbers[2] }
}

/// The mean of these runs, and the larger of its standard errors of queue and drops, as a share of it.
fn mean_of(all: &[Seen]) -> (Seen, f64) {
    let runs = all.len() as f64;
    let mean = |of: fn(&Seen) -> f64| all.iter().map(of).sum::<f64>() / runs;
    let error = |of: fn(&Seen) -> f64| {
        let squares: f64 = all.iter().map(|s| (of(s) - mean(of)).powi(2)).sum();
        (squares / (runs - 1.0) / runs).sqrt() / mean(of)
    };
    let seen = Seen {
        queue_packets: mean(|s| s.queue_packets),
        drops: mean(|s| s.drops),
        packets: mean(|s| s.packets),
    };
    (seen, error(|s| s.queue_packets).max(error(|s| s.drops)))
}

/// As many runs as it takes for a mean that is known to a third of the bound: codel's queue is 4.8 to 7.5 packets in single ones.
fn means(mut run: impl FnMut(u32) -> Seen) -> Seen {
    let mut all = Vec::new();
    loop {
        all.push(run(all.len() as u32 + 1));
        let (mean, error) = mean_of(&all);
        if all.len() >= RUNS_LEAST && error <= MOST / 3.0 || all.len() == RUNS_MOST {
            println!("{} runs, error {error:.3}: {all:.1?}", all.len());
            return mean;
        }
    }
}

/// The same, simulated with this seed.
fn simulated(discipline: &str, seed: u32) -> Seen {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("s.toml");
    let text = format!(
        "name = \"disciplines\"\nseed = {seed}\ntime_limit = \"{TO_S} s\"\nhost = [{{ name = \"server\" }}, {{ name = \"guest\" }}, \
         {{ name = \"client\" }}]\n[[link]]\nbetween = [\"server\", \"guest\"]\n[[link]]\nbetween = [\"guest\", \"client\"]\n\
         rate = \"10 Mbit/s\"\ndelay = \"20 ms\"\nbuffer = \"1000 packets\"\ndiscipline = {discipline}\n[tcp]\noffload = false\n\
         [[flow]]\nfrom = \"server\"\nto = \"client\"\nsize = \"unlimited\"\ncount = 4\nalgorithm = \"cubic\"\n"
    );
    fs::write(&file, text).expect("room");
    let trace = folder.path().join("trace");
    let out = Command::new(windlass_path())
        .args(["run", "--on", "sim", "--json", "--interval", "2 ms", "--trace"])
        .args([&trace, &file])
        .output()
        .expect("windlass runs");
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    let report: Value = serde_json::from_slice(&out.stdout).expect("JSON");
    assert!(report.is_object());
    let table = fs::read_to_string(trace.join("links.csv")).expect("links");
    let rows: Vec<Vec<f64>> = (table.lines().filter(|l| l.contains("guest > client")))
        .map(|l| l.split(',').map(|cell| cell.parse().unwrap_or(f64::NAN)).collect())
        .filter(|row: &Vec<f64>| (f64::from(FROM_S)..f64::from(TO_S)).contains(&row[0]))
        .collect();
    let drops = |row: &[f64]| row[3];
    let (first, last) = (rows.first().expect("rows"), rows.last().expect("rows"));
    let seconds = last[0] - first[0];
    Seen {
        queue_packets: rows.iter().map(|row| row[2]).sum::<f64>() / rows.len() as f64,
        drops: drops(last) - drops(first),
        packets: 10e6 / 8.0 / 1514.0 * seconds,
    }
}

/// The weight that the kernel made of red's burst, in per cent: it prints "ewma 6" for 2^-6.
fn weight_percent(guest: &mut Guest) -> f64 {
    let printed = guest.run("tc -s -d qdisc show dev v2");
    let words: Vec<&str> = printed.split_whitespace().collect();
    let at = words.iter().position(|w| *w == "ewma").expect("red's weight");
    100.0 / 2f64.powi(words[at + 1].parse().expect("a number"))
}

#[test]
#[ignore = "long: `make test-long` runs it"]
fn queues_and_drops_are_those_of_the_kernels_disciplines() {
    let test = "queues_and_drops_are_those_of_the_kernels_disciplines";
    let Some((image, _turn)) = Image::get_or_skip(test) else { return };
    let host = Netns::create(netns::next_run(), "queues").expect("a namespace");
    let mut guest = Guest::boot_in_own_time(image, &host);
    for line in NETWORK {
        guest.run(line);
    }
    guest.write("/run/awk", AWK);
    let mut fails = Vec::new();
    for (kernels, ours) in DISCIPLINES {
        let name = kernels.split(' ').next().expect("a name");
        let real = means(|_| real(&mut guest, kernels));
        let ours = match name {
            "red" => ours.replace("WEIGHT", &weight_percent(&mut guest).to_string()),
            _ => ours.to_string(),
        };
        let simulated = means(|seed| simulated(&ours, seed));
        let queue = simulated.queue_packets / real.queue_packets;
        let drops = (simulated.drops / simulated.packets) / (real.drops / real.packets);
        println!(
            "{name}: simulated {simulated:.1?}, real {real:.1?}: queue {queue:.2}, share of drops {drops:.2}"
        );
        if (queue - 1.0).abs() > MOST || (drops - 1.0).abs() > MOST {
            fails.push(name);
        }
    }
    assert_eq!(fails, [""; 0], "further apart than {MOST}");
}
