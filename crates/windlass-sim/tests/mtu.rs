//! Packets of other sizes than 1500 bytes: how many there are, what queues hold of them, and the box among them.

use windlass_scenario::{RunReport, Scenario};
use windlass_sim::{RunOptions, run};

fn report(text: &str) -> RunReport {
    let scenario = Scenario::parse("t", text).unwrap_or_else(|e| panic!("{e}"));
    run(&scenario, &RunOptions::default()).unwrap().report
}

/// A transfer of 10 MB over 100 Mbit/s and 10 ms, with these keys of the link.
fn transfer(mtu: &str, link: &str, more: &str) -> RunReport {
    report(&format!(
        "name = \"t\"\n[tcp]\nmtu = \"{mtu}\"\n[[host]]\nname = \"server\"\n[[host]]\nname = \"box\"\n[[host]]\n\
         name = \"client\"\n[[link]]\nbetween = [\"server\", \"box\"]\n[[link]]\nbetween = [\"box\", \"client\"]\n\
         rate = \"100 Mbit/s\"\ndelay = \"5 ms\"\n{link}\n[[flow]]\nfrom = \"server\"\nto = \"client\"\nsize = \"10 MB\"\nalgorithm = \"reno\"\n{more}\n"
    ))
}

/// 10 MB and the head are 1118 segments of 8948 bytes or 6907 of 1448; the handshake, FIN and the head's own segment come on top.
#[test]
fn a_larger_mtu_takes_fewer_packets() {
    for (mtu, segs) in [("9000 B", 1118), ("1500 B", 6907), ("1280 B", 8144)] {
        let report = transfer(mtu, "", "");
        assert!(report.is_complete(), "{mtu}: {report}");
        let packets = report.links[0].stats.packets;
        assert!((segs..segs + 12).contains(&packets), "{mtu}: {packets} of {segs}");
    }
}

/// A queue of 8 packets holds as many of 9014 bytes as of 1514, one in bytes only so many as are these.
#[test]
fn queues_in_packets_and_in_bytes_hold_what_they_should() {
    for (mtu, packet_bytes) in [("9000 B", 9014), ("1500 B", 1514)] {
        let in_packets = transfer(mtu, "buffer = \"8 packets\"", "").links[0].stats.clone();
        assert!(in_packets.drops_tail > 0, "{mtu}: {in_packets:?}");
        assert_eq!(in_packets.queue_max_packets, 8, "{mtu}");
        assert!(
            (7 * packet_bytes..=8 * packet_bytes).contains(&in_packets.queue_max_bytes),
            "{mtu}: {in_packets:?}"
        );
        let in_bytes = transfer(mtu, "buffer = \"72112 B\"", "").links[0].stats.clone();
        assert!(in_bytes.drops_tail > 0 && in_bytes.queue_max_bytes <= 72_112, "{mtu}: {in_bytes:?}");
        assert!(in_bytes.queue_max_bytes > 72_112 - packet_bytes, "{mtu}: {in_bytes:?}");
        assert!(in_bytes.queue_max_packets <= 72_112 / packet_bytes + 2, "{mtu}: {in_bytes:?}");
    }
}

/// A box controls and repairs a flow of jumbo frames as any other.
#[test]
fn a_box_repairs_segments_of_8948_bytes() {
    let boxed = "[windlass]\nat = \"box\"\nfacing = \"server\"\nalgorithm = \"bbr\"";
    let report = transfer("9000 B", "loss = \"1 %\"\nbuffer = \"2 BDP\"", boxed);
    assert!(report.is_success(), "{report}");
    assert!(report.counter("repaired_segs") > 0, "{:?}", report.windlass);
    assert!(report.flows[0].goodput_bps > 70e6, "{report}");
    assert_eq!(report.sender_timeouts, 0, "{report}");
}
