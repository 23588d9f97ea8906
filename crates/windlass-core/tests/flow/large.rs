//! More in flight than 64 MiB, while sequence numbers wrap.

use super::{MSS, ack};
use windlass_core::{Flow, abi};

/// One super-packet.
const PACKET: u32 = 44 * MSS;
const PACKETS: u32 = 1200;
/// The first segment of each hundredth packet is lost.
const EACH: u32 = 100;

fn catch_up(f: &mut Flow, now_us: u32) {
    while f.is_behind() {
        f.go_on(now_us);
    }
}

#[test]
fn large_windows_are_recorded_reported_and_repaired_where_sequence_numbers_wrap() {
    const { assert!(PACKETS * PACKET > 64 << 20) };
    for base in [0, 0u32.wrapping_sub(40 << 20), 0u32.wrapping_sub(1)] {
        let at = |offset: u32| base.wrapping_add(offset);
        let mut f = Flow::new(base, MSS, abi::WL_FLOW_SACK | abi::WL_FLOW_PACED_JUDGED);
        f.state_mut().decision.cwnd_bytes = abi::WL_CWND_MAX_BYTES;
        for i in 1..=PACKETS {
            assert_ne!(f.data_kind(at((i - 1) * PACKET), PACKET), abi::WL_DATA_TOO_MUCH);
            f.send(at(i * PACKET), i);
        }
        let end = PACKETS * PACKET;
        for i in 0..PACKETS / EACH {
            let hole = i * EACH * PACKET;
            let block = (at(hole + MSS), at((hole + EACH * PACKET).min(end)));
            f.ack(&ack(base, 100_000 + i, &[block]));
            catch_up(&mut f, 100_000 + i);
        }
        let holes = PACKETS / EACH;
        assert_eq!(f.state().sacked_bytes, end - holes * MSS);
        for i in 0..holes {
            f.detect(200_000 + i);
        }
        let mut repaired = Vec::new();
        while let Some((seq, len)) = f.next_repair() {
            f.repaired(seq, 210_000);
            repaired.push((seq, len));
        }
        let expected: Vec<_> = (0..holes).map(|i| (at(i * EACH * PACKET), MSS)).collect();
        assert_eq!(repaired, expected, "{base}");
        f.ack(&ack(at(end), 310_000, &[]));
        catch_up(&mut f, 310_000);
        let s = f.state();
        assert_eq!((s.una, s.una_seg, s.delivered_bytes), (at(end), at(end), end));
        assert_eq!((s.sacked_bytes, s.sacked_records, s.lost_bytes, s.resent_bytes), (0, 0, 0, 0));
        assert_eq!((s.lost_head, s.resent_head, s.overflow_records), (abi::WL_NO_SLOT, abi::WL_NO_SLOT, 0));
    }
}
