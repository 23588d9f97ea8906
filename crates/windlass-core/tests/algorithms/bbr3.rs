//! BBR v3, over a path that answers once a round trip.

use crate::{MSS, bbr::round_of_33, sample, start};
use windlass_core::{
    AlgorithmState,
    abi::{self, wl_sample},
};

pub const RTT_US: u32 = 40_000;
pub const BDP_SEGS: u32 = 200;
/// A bandwidth-delay product in a round trip, in bytes per second.
const RATE_BYTES_PS: u64 = BDP_SEGS as u64 * MSS as u64 * 25;

const ACKS: usize = 20;

/// A bottleneck of 200 segments a round trip, with a buffer, and a sender that always has data. Each round trip has twenty
/// ACKs, of as much each.
pub struct Path {
    pub flow: AlgorithmState,
    buffer_segs: u32,
    /// What the bottleneck delivers in a round trip.
    pub bottleneck_segs: u32,
    pub round: u32,
    pub queue_segs: u32,
    delivered_bytes: u32,
    /// When the ACKs of the last round had come.
    prior_delivered_bytes: [u32; ACKS],
    pub lost_segs: u32,
    was_in_recovery: bool,
}

impl Path {
    pub fn new(buffer_segs: u32) -> Path {
        Path {
            flow: start("bbr3"),
            buffer_segs,
            bottleneck_segs: BDP_SEGS,
            round: 0,
            queue_segs: 0,
            delivered_bytes: 0,
            prior_delivered_bytes: [0; ACKS],
            lost_segs: 0,
            was_in_recovery: false,
        }
    }

    pub fn cwnd_segs(&self) -> u32 {
        self.flow.decision.cwnd_bytes / MSS
    }

    fn delivered_segs(&self) -> u32 {
        self.delivered_bytes / MSS
    }

    /// In thousandths of the bottleneck's rate.
    pub fn pacing_permille(&self) -> u64 {
        self.flow.decision.pacing_bytes_ps * 1000 / RATE_BYTES_PS
    }

    /// A round trip in which `chance_segs` are lost by chance; `change` may say otherwise what its ACKs tell.
    pub fn round(&mut self, chance_segs: u32, change: impl Fn(&mut wl_sample)) {
        let paced_segs = (self.flow.decision.pacing_bytes_ps / 25 / u64::from(MSS)) as u32;
        let inflight_segs = self.cwnd_segs().min(self.queue_segs + paced_segs);
        let lost_segs = (chance_segs + inflight_segs.saturating_sub(self.bottleneck_segs + self.buffer_segs))
            .min(inflight_segs);
        let delivered_segs = (inflight_segs - lost_segs).min(self.bottleneck_segs);
        self.queue_segs = inflight_segs - lost_segs - delivered_segs;
        self.lost_segs += lost_segs;
        let is_in_recovery = lost_segs > 0;
        let is_cwnd_limited = (inflight_segs == self.cwnd_segs()).into();
        let rtt_us = RTT_US + self.queue_segs * RTT_US / self.bottleneck_segs;
        for ack in 0..ACKS {
            let newly_delivered_bytes = delivered_segs * MSS / ACKS as u32;
            self.delivered_bytes += newly_delivered_bytes;
            let prior_delivered_bytes = self.prior_delivered_bytes[ack];
            self.prior_delivered_bytes[ack] = self.delivered_bytes;
            let lost_bytes = if ack == 0 { lost_segs * MSS } else { 0 };
            let mut sample = wl_sample {
                newly_delivered_bytes,
                acked_bytes: newly_delivered_bytes,
                lost_bytes,
                rate_delivered_bytes: self.delivered_bytes - prior_delivered_bytes,
                rate_interval_us: RTT_US,
                delivered_bytes: self.delivered_bytes,
                prior_delivered_bytes,
                rtt_us,
                srtt_us: rtt_us,
                inflight_before_bytes: inflight_segs * MSS,
                inflight_bytes: inflight_segs * MSS - lost_bytes - newly_delivered_bytes,
                is_in_recovery: is_in_recovery.into(),
                is_cwnd_limited,
                ..sample(self.round * RTT_US + (ack as u32 + 1) * RTT_US / ACKS as u32)
            };
            change(&mut sample);
            if lost_bytes > 0 && !self.was_in_recovery {
                self.flow.on_congestion(&sample, abi::WL_CONGESTION_LOSS);
            }
            self.flow.on_ack(&sample);
        }
        self.round += 1;
        self.was_in_recovery = is_in_recovery;
    }

    /// Goes on until pacing leaves `permille`, for `most` rounds at most.
    pub fn stay_within(&mut self, permille: std::ops::Range<u64>, most: u32) {
        for _ in 0..most {
            if permille.contains(&self.pacing_permille()) {
                self.round(0, |_| ());
            }
        }
    }

    pub fn settle(&mut self) {
        while self.flow.decision.ssthresh_bytes == abi::WL_CWND_MAX_BYTES || self.pacing_permille() < 950 {
            self.round(0, |_| ());
            assert!(self.round < 40, "it never left its startup and drained");
        }
    }
}

/// Draft, section 5.3.1: the pipe is full when three rounds in a row bring less than a quarter more, and the fourth of four
/// equal ones is the third of them. Samples of a sender that was short of data prove nothing.
#[test]
fn bbr3s_startup_ends_after_three_rounds_without_growth() {
    for (is_app_limited, ends_after) in [(0, Some(4)), (1, None)] {
        let mut flow = start("bbr3");
        let mut ended = None;
        for round in 1..20u32 {
            flow.on_ack(&wl_sample { is_app_limited, ..round_of_33(round) });
            if ended.is_none() && flow.decision.ssthresh_bytes < abi::WL_CWND_MAX_BYTES {
                ended = Some(round);
            }
        }
        assert_eq!(ended, ends_after, "app limited: {is_app_limited}");
    }
}

/// Draft, section 5.3.1.3: six ACKs of a round in recovery that report more than a fiftieth lost, in all, end
/// STARTUP. Fewer ACKs, or less lost, do not.
#[test]
fn bbr3s_startup_ends_where_too_much_is_lost() {
    for (acks_with_loss, lost_bytes, ends) in [(8, 2 * MSS, true), (5, 4 * MSS, false), (8, MSS / 4, false)] {
        let mut flow = start("bbr3");
        let (mut delivered_segs, mut prior_segs) = (0, [0; 10]);
        // twice as fast each round, so that there is no plateau; the first losses are those of the last round but one
        for ack in 0..40u32 {
            let segs = 10 << (ack / 10);
            delivered_segs += segs;
            let prior = std::mem::replace(&mut prior_segs[(ack % 10) as usize], delivered_segs);
            let has_loss = ack >= 20 && ack - 20 < acks_with_loss;
            let news = wl_sample {
                newly_delivered_bytes: segs * MSS,
                lost_bytes: if has_loss { lost_bytes } else { 0 },
                rate_delivered_bytes: (delivered_segs - prior) * MSS,
                rate_interval_us: RTT_US,
                delivered_bytes: delivered_segs * MSS,
                prior_delivered_bytes: prior * MSS,
                rtt_us: RTT_US,
                srtt_us: RTT_US,
                inflight_before_bytes: 20 * segs * MSS,
                inflight_bytes: 19 * segs * MSS,
                is_in_recovery: (ack >= 20).into(),
                ..sample((ack + 1) * RTT_US / 10)
            };
            if ack == 20 {
                flow.on_congestion(&news, abi::WL_CONGESTION_LOSS);
            }
            flow.on_ack(&news);
        }
        let is_over = flow.decision.ssthresh_bytes < abi::WL_CWND_MAX_BYTES;
        assert_eq!(is_over, ends, "{acks_with_loss} ACKs with {lost_bytes} bytes lost each");
    }
}

/// It fills the path and leaves no standing queue; over 40 s it probes and drains, and hardly loses anything even where there
/// is no room for a probe.
#[test]
fn bbr3_fills_the_path_without_overrunning_it() {
    for buffer_segs in [0, 20, 200, 800] {
        let mut path = Path::new(buffer_segs);
        path.settle();
        let (began, lost_before) = (path.delivered_segs(), path.lost_segs);
        for _ in 0..1000 {
            path.round(0, |_| ());
        }
        let delivered_segs = path.delivered_segs() - began;
        let lost_segs = path.lost_segs - lost_before;
        assert!(delivered_segs > 1000 * BDP_SEGS * 88 / 100, "{buffer_segs}: {delivered_segs} delivered");
        assert!(lost_segs < delivered_segs / 50, "{buffer_segs}: {lost_segs} of {delivered_segs} lost");
    }
}

/// After DOWN it cruises for two to three seconds, or for as many rounds as Reno would need, 63 at most.
#[test]
fn bbr3_probes_every_two_to_three_seconds() {
    let mut path = Path::new(800);
    path.settle();
    let mut probes = Vec::new();
    let mut was_up = false;
    for _ in 0..2000 {
        path.round(0, |_| ());
        let is_up = path.pacing_permille() > 1150;
        if is_up && !was_up {
            probes.push(path.round);
        }
        was_up = is_up;
    }
    assert!(probes.len() > 20, "{probes:?}");
    for pair in probes.windows(2) {
        // a probe, its drain and PROBE_RTT come on top of the wait, of which a random round may be missing
        assert!((49..=90).contains(&(pair[1] - pair[0])), "{probes:?}");
    }
}

/// Goes on until a probe, and lets each of its rounds lose ten segments until that was too much; `change` may say otherwise what its
/// ACKs tell.
pub fn lose_in_a_probe(path: &mut Path, change: impl Fn(&mut wl_sample)) {
    path.stay_within(0..1150, 300);
    let lost_segs = path.lost_segs;
    while path.pacing_permille() > 1150 {
        path.round(10, &change);
    }
    assert!(path.lost_segs > lost_segs, "it never probed");
}

/// Draft, section 5.3.3.6: the probe after one that was too much ends at the bound which that has left, and is followed at once,
/// after a round that fills the path, by a bolder one: while the bound holds it back, that rises by 1, 2, 4, 8 segments in
/// the rounds of the probe.
#[test]
fn bbr3_probes_with_care_and_then_twice_as_boldly_each_round() {
    let mut path = Path::new(800);
    path.settle();
    lose_in_a_probe(&mut path, |_| ());
    let bound = path.cwnd_segs();
    path.stay_within(0..1150, 300);
    let began = path.round;
    path.stay_within(1150..2000, 30);
    assert!(path.round - began <= 2, "a careful probe of {} rounds", path.round - began);
    assert!(path.cwnd_segs() <= bound + 2, "{} segments, {bound} were the bound", path.cwnd_segs());
    let ended = path.round;
    path.stay_within(0..1150, 300);
    assert!(path.round - ended <= 3, "the bolder one came {} rounds later", path.round - ended);
    let mut growth = Vec::new();
    while path.pacing_permille() > 1150 && growth.len() < 5 {
        let before = path.cwnd_segs();
        path.round(0, |_| ());
        growth.push(path.cwnd_segs() - before);
    }
    // its rounds begin a little later than those of the path, so that each of these has something of two
    assert!(growth.len() == 5 && growth[0] <= 2, "{growth:?}");
    for pair in growth[1..].windows(2) {
        assert!((pair[0] * 3 / 2..=pair[0] * 5 / 2).contains(&pair[1]), "{growth:?}");
    }
}

/// One in two hundred lost by chance, within what the path may lose, costs less than a quarter, where a cut for each would cost
/// nearly all.
#[test]
fn bbr3_keeps_most_of_its_rate_with_losses_within_its_bound() {
    let (mut clean, mut lossy) = (Path::new(200), Path::new(200));
    for path in [&mut clean, &mut lossy] {
        path.settle();
    }
    let began = (clean.delivered_segs(), lossy.delivered_segs());
    for round in 0..1000 {
        clean.round(0, |_| ());
        // two of 200, every other round
        lossy.round(2 * (round % 2), |_| ());
    }
    let share = f64::from(lossy.delivered_segs() - began.1) / f64::from(clean.delivered_segs() - began.0);
    assert!(share > 0.75, "{share}");
}

/// What is lost while nothing is probed, by another flow's arrival, cuts the rate to what is still delivered.
#[test]
fn bbr3_yields_to_losses_while_it_cruises() {
    let mut path = Path::new(200);
    path.settle();
    path.stay_within(0..1001, 3);
    let before = path.cwnd_segs();
    for _ in 0..6 {
        path.round(60, |_| ());
    }
    assert!(path.pacing_permille() < 800, "{}", path.pacing_permille());
    assert!(path.cwnd_segs() < before * 8 / 10, "{} of {before}", path.cwnd_segs());
}

/// Draft, section 5.3.4: half a bandwidth-delay product for 200 ms and a round, every five seconds of data without a pause, not
/// more often; and the window is what it was.
#[test]
fn bbr3_measures_the_round_trip_every_five_seconds_with_half_a_window() {
    let mut path = Path::new(800);
    path.settle();
    path.stay_within(0..1150, 300);
    path.stay_within(950..2000, 30);
    path.stay_within(0..950, 30);
    let window = path.cwnd_segs();
    let mut low = Vec::new();
    for _ in 0..1500 {
        // a queue of others: no round trip is the shortest, so that each window of five seconds ends with a PROBE_RTT
        path.round(0, |ack| {
            ack.rtt_us += 1000;
            ack.srtt_us += 1000;
        });
        if path.cwnd_segs() <= BDP_SEGS * 53 / 100 {
            low.push(path.round);
        }
    }
    assert!(low.len() > 60, "{low:?}");
    let begins: Vec<_> = low.windows(2).filter(|pair| pair[1] > pair[0] + 1).map(|pair| pair[1]).collect();
    assert!(begins.len() >= 8, "{begins:?}");
    for pair in begins.windows(2) {
        let us = (pair[1] - pair[0]) * RTT_US;
        assert!((5_000_000..=5_700_000).contains(&us), "{us} us between two");
    }
    let longest = low.chunk_by(|a, b| a + 1 == *b).map(<[u32]>::len).max().unwrap();
    assert!((6..=9).contains(&longest), "{longest} rounds of 40 ms");
    while path.cwnd_segs() <= BDP_SEGS * 53 / 100 {
        path.round(0, |_| ());
    }
    assert!(path.cwnd_segs() * 10 >= window * 9, "{} of {window}", path.cwnd_segs());
}

/// A reduction that was not needed is as if it had not been: no bound is below what it was.
#[test]
fn bbr3_takes_its_bounds_back_with_a_spurious_loss() {
    let mut path = Path::new(200);
    path.settle();
    path.stay_within(0..1001, 3);
    let (window, rate) = (path.cwnd_segs(), path.pacing_permille());
    for _ in 0..4 {
        path.round(50, |_| ());
    }
    assert!(path.pacing_permille() < rate * 9 / 10);
    path.round(0, |ack| ack.events |= abi::WL_EV_UNDO);
    for _ in 0..3 {
        path.round(0, |_| ());
    }
    assert!(path.pacing_permille() * 100 > rate * 90, "{} of {rate}", path.pacing_permille());
    assert!(path.cwnd_segs() * 10 > window * 8, "{} of {window}", path.cwnd_segs());
}

/// ... and what it ended goes on: the startup, or a probe after the path was filled again. What ended by itself stays ended.
#[test]
fn bbr3_takes_up_what_a_spurious_loss_has_ended() {
    let undone = |path: &mut Path| {
        path.flow.on_ack(&wl_sample { events: abi::WL_EV_UNDO, ..sample(path.round * RTT_US) });
        path.pacing_permille()
    };
    let mut probing = Path::new(800);
    probing.settle();
    lose_in_a_probe(&mut probing, |_| ());
    assert!((980..1000).contains(&undone(&mut probing)), "the path is filled again");
    probing.stay_within(0..1150, 5);
    assert!(probing.pacing_permille() > 1150, "the probe is made again");
    let mut settled = Path::new(800);
    settled.settle();
    settled.stay_within(0..1001, 3);
    settled.round(1, |_| ());
    assert!(undone(&mut settled) <= 1000, "the startup had ended by itself");
}

/// An undo without a loss that this algorithm has seen (it took the flow over in mid-recovery) does not begin a new startup.
#[test]
fn bbr3_does_not_start_again_for_another_algorithms_loss() {
    let mut path = Path::new(800);
    path.settle();
    let before = path.pacing_permille();
    path.round(0, |ack| ack.events |= abi::WL_EV_UNDO);
    assert!(path.pacing_permille() <= before.max(1250), "{}", path.pacing_permille());
}

/// A pause is no reason to begin with half a window, and not to pace faster than the path.
#[test]
fn bbr3_resumes_at_the_measured_bandwidth() {
    let mut path = Path::new(200);
    path.settle();
    let window = path.cwnd_segs();
    let now_us = 60_000_000;
    path.flow.on_send_after_idle(&wl_sample { is_app_limited: 1, ..sample(now_us) }, 50_000_000);
    assert!((950..=1000).contains(&path.pacing_permille()), "{}", path.pacing_permille());
    path.round(0, |ack| {
        ack.now_us = now_us + RTT_US;
        ack.is_ack_delayed = 1;
        ack.is_app_limited = 1;
        ack.newly_delivered_bytes = 244;
    });
    assert!(path.cwnd_segs() * 10 > window * 8, "{} of {window}", path.cwnd_segs());
}

/// RFC 5681: one segment leaves after a timeout, and what the path is known to carry is not forgotten. A box reports
/// losses with the next ACK, the kernel does not.
#[test]
fn bbr3_comes_back_from_a_timeout() {
    for is_told in [false, true] {
        comes_back_from_a_timeout(is_told);
    }
}

fn comes_back_from_a_timeout(is_told: bool) {
    let mut path = Path::new(200);
    path.settle();
    let lost_bytes = if is_told { BDP_SEGS * MSS } else { 0 };
    let inflight_before_bytes = BDP_SEGS * MSS;
    let timeout =
        wl_sample { lost_bytes, inflight_before_bytes, is_in_recovery: 1, ..sample(path.round * RTT_US) };
    path.flow.on_timeout(&timeout);
    if is_told {
        path.flow.on_ack(&wl_sample { events: abi::WL_EV_TIMEOUT, ..timeout });
    }
    assert!(path.cwnd_segs() <= 4, "{}", path.cwnd_segs());
    path.was_in_recovery = true;
    for _ in 0..20 {
        path.round(0, |_| ());
    }
    assert!(path.cwnd_segs() > BDP_SEGS * 8 / 10, "{}", path.cwnd_segs());
}

/// However much is lost, and for however long, four segments may be in flight: with less a delayed ACK would stall the flow.
#[test]
fn bbr3_keeps_four_segments_whatever_is_lost() {
    let mut path = Path::new(200);
    path.settle();
    for _ in 0..60 {
        let most_segs = path.cwnd_segs().min(BDP_SEGS);
        path.round(most_segs.saturating_sub(1), |_| ());
        assert!(path.cwnd_segs() >= 4, "{} in round {}", path.cwnd_segs(), path.round);
    }
}

/// A timeout leaves a segment or two of the window; where the recovery ends with the next ACK, the window is what it was.
#[test]
fn bbr3_goes_back_to_its_window_after_a_recovery() {
    let mut path = Path::new(200);
    path.settle();
    let before = path.cwnd_segs();
    let now = wl_sample { inflight_before_bytes: BDP_SEGS * MSS, ..sample(path.round * RTT_US) };
    path.flow.on_timeout(&now);
    assert_eq!(path.cwnd_segs(), 1);
    let delivered_bytes = path.delivered_bytes + MSS;
    path.flow.on_ack(&wl_sample { newly_delivered_bytes: MSS, delivered_bytes, srtt_us: RTT_US, ..now });
    assert!(path.cwnd_segs() >= before * 9 / 10, "{} of {before}", path.cwnd_segs());
}

/// What a probe has lost while the sender was short of data shows how much was lost, and not how much the path holds.
#[test]
fn bbr3_is_bounded_by_no_probe_of_a_sender_short_of_data() {
    for is_app_limited in [0, 1] {
        let mut path = Path::new(800);
        path.settle();
        lose_in_a_probe(&mut path, |ack| ack.is_app_limited = is_app_limited);
        let is_bounded = path.cwnd_segs() <= BDP_SEGS * 13 / 10;
        assert_eq!(is_bounded, is_app_limited == 0, "{}", path.cwnd_segs());
    }
}

/// However little was in flight when what was lost was sent: the bound is what a cut would leave at least.
#[test]
fn bbr3_is_bounded_to_seven_tenths_by_a_probe_at_the_most() {
    let mut path = Path::new(800);
    path.settle();
    lose_in_a_probe(&mut path, |ack| ack.rate_delivered_bytes = 20 * MSS);
    let segs = path.cwnd_segs();
    assert!((BDP_SEGS * 69 / 100..=BDP_SEGS * 75 / 100).contains(&segs), "{segs}");
}

/// What else is lost of the flight that was too much is reported when the probe is over, and lowers its bound no further.
#[test]
fn bbr3_is_bounded_by_a_probe_once() {
    let mut path = Path::new(800);
    path.settle();
    lose_in_a_probe(&mut path, |ack| {
        if ack.lost_bytes == 0 {
            (ack.lost_bytes, ack.rate_delivered_bytes) = (5 * MSS, 20 * MSS);
        }
    });
    assert!(path.cwnd_segs() >= BDP_SEGS, "{}", path.cwnd_segs());
}

/// A probe may lose a little without being less of a probe: one segment in fifty is what the path may lose.
#[test]
fn bbr3_probes_on_where_little_is_lost() {
    let mut path = Path::new(800);
    path.settle();
    lose_in_a_probe(&mut path, |_| ());
    // a careful one, and one that goes on for as long as there is more
    path.stay_within(0..1150, 300);
    path.stay_within(1150..2000, 30);
    path.stay_within(0..1150, 300);
    for _ in 0..4 {
        // no faster than before, so that a cut would show
        path.round(1, |ack| ack.rate_delivered_bytes = ack.rate_delivered_bytes * 6 / 10);
    }
    assert!(path.pacing_permille() > 1150, "{}", path.pacing_permille());
}

/// A flow of a path of 33 segments that has drained it, and the ACK of a round or of less, with three segments left in flight.
pub fn drained() -> (AlgorithmState, impl Fn(u32, bool) -> wl_sample) {
    let mut flow = start("bbr3");
    for round in 1..20u32 {
        flow.on_ack(&round_of_33(round));
    }
    let low = |now_us, is_round_over| {
        let of = round_of_33(20);
        wl_sample {
            now_us,
            newly_delivered_bytes: MSS,
            inflight_bytes: 3 * MSS,
            rtt_us: 41_000,
            prior_delivered_bytes: if is_round_over { of.delivered_bytes } else { 0 },
            ..of
        }
    };
    (flow, low)
}

/// Where a round trip is longer than 200 ms PROBE_RTT lasts for one, each time.
#[test]
fn bbr3_stays_in_probe_rtt_for_a_round_trip_each_time() {
    let (mut flow, low) = drained();
    for begins_us in [12_000_000, 24_000_000u32] {
        let mut is_low_at = |after_us: u32, is_round_over| {
            flow.on_ack(&low(begins_us + after_us, is_round_over));
            flow.decision.cwnd_bytes < 20 * MSS
        };
        assert!(is_low_at(0, false));
        assert!(is_low_at(201_000, false), "{begins_us}");
        assert!(is_low_at(290_000, false), "{begins_us}");
        assert!(!is_low_at(300_000, true), "{begins_us}");
    }
}

/// What is lost in PROBE_RTT is forgotten with it: so little was delivered there that the bounds mean nothing.
#[test]
fn bbr3_forgets_what_it_has_lost_in_probe_rtt() {
    let (mut flow, low) = drained();
    let lossy = |now_us, is_round_over| wl_sample {
        lost_bytes: MSS,
        rate_delivered_bytes: 4 * MSS,
        ..low(now_us, is_round_over)
    };
    flow.on_ack(&low(12_000_000, false));
    let before = flow.decision.pacing_bytes_ps;
    flow.on_ack(&lossy(12_050_000, true));
    flow.on_ack(&lossy(12_100_000, true));
    assert!(flow.decision.pacing_bytes_ps < before * 8 / 10, "{} of {before}", flow.decision.pacing_bytes_ps);
    flow.on_ack(&low(12_300_000, true));
    flow.on_ack(&low(12_310_000, true));
    assert!(flow.decision.cwnd_bytes > 20 * MSS, "PROBE_RTT is over");
    assert!(flow.decision.pacing_bytes_ps >= before, "{} of {before}", flow.decision.pacing_bytes_ps);
}
