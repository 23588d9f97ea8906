//! The BPF and the native build of the core give the same answer to the bit.

mod flow;
mod recorded;
mod vectors;

use libbpf_rs::{MapCore, MapFlags, ObjectBuilder, ProgramInput};
use vectors::{
    WL_PARITY_ACK as ACK, WL_PARITY_CBRT as CBRT, WL_PARITY_ECN as ECN, WL_PARITY_GROUP_ASK as GROUP_ASK,
    WL_PARITY_GROUP_COLLECT as GROUP_COLLECT, WL_PARITY_GROUP_INIT as GROUP_INIT,
    WL_PARITY_GROUP_LEAVE as GROUP_LEAVE, WL_PARITY_GROUP_REGISTER as GROUP_REGISTER,
    WL_PARITY_GROUP_REPORT_OF as GROUP_REPORT_OF, WL_PARITY_GROUP_RESUME as GROUP_RESUME,
    WL_PARITY_GROUP_TAKE_REPLY as GROUP_TAKE_REPLY, WL_PARITY_GROUP_TENANT as GROUP_TENANT,
    WL_PARITY_GROUP_UPDATE as GROUP_UPDATE, WL_PARITY_IDLE as IDLE, WL_PARITY_INIT as INIT,
    WL_PARITY_LOSS as LOSS, WL_PARITY_RWND as RWND, WL_PARITY_TIMEOUT as TIMEOUT, WL_PARITY_TIMER as TIMER,
    wl_parity as Vector, wl_parity_group as GroupVector,
};
use windlass_core::{
    Algorithm, AlgorithmState, GroupRule,
    abi::{
        self, wl_alg_params, wl_alg_state, wl_decision, wl_group_config, wl_group_report, wl_member,
        wl_sample, wl_tenant,
    },
};

static OBJECT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/parity.bpf.o"));
const VECTORS: u32 = 20_000;

impl GroupVector {
    /// The same call, natively.
    fn run_natively(&mut self) {
        let t = if self.has_tenant == 0 { std::ptr::null_mut() } else { &raw mut self.tenant };
        let (g, m, e, r) = (&mut self.group, &mut self.member, &mut self.report, &mut self.reply);
        let (s, d) = (&self.sample, &mut self.decision);
        // SAFETY: all pointers are to fields of self and distinct; a tenant may be NULL.
        unsafe {
            match self.call {
                GROUP_INIT => self.result = abi::wln_group_init(g, &self.config),
                GROUP_REGISTER => self.result = abi::wln_group_register(g, t, m, e, r),
                GROUP_UPDATE => self.result = abi::wln_group_update(g, t, m, e, r),
                GROUP_ASK => self.result = abi::wln_group_ask(g, t, m, r),
                GROUP_LEAVE => self.result = abi::wln_group_leave(g, t, m),
                GROUP_COLLECT => self.result = abi::wln_group_collect(g, t, m, self.argument),
                GROUP_RESUME => self.result = abi::wln_group_resume(g, t, m, self.argument, r),
                GROUP_REPORT_OF => abi::wln_group_report_of(m, s, d, self.argument, e),
                GROUP_TAKE_REPLY => abi::wln_group_take_reply(m, r, d),
                _ => abi::wln_tenant_set_weight(g, &mut self.tenant, self.argument),
            }
        }
    }
}

struct Bpf {
    object: libbpf_rs::Object,
}

impl Bpf {
    fn load() -> Bpf {
        Bpf::load_from(OBJECT)
    }

    fn load_from(object: &[u8]) -> Bpf {
        let object = ObjectBuilder::default()
            .open_memory(object)
            .unwrap()
            .load()
            .expect("the verifier takes the core");
        Bpf { object }
    }

    /// Sets the only entry of an array.
    fn set(&self, map: &str, bytes: &[u8]) {
        let map = self.object.maps().find(|m| m.name() == map).unwrap();
        map.update(&0u32.to_ne_bytes(), bytes, MapFlags::ANY).unwrap();
    }

    /// The only entry of an array.
    fn value(&self, map: &str) -> Vec<u8> {
        let map = self.object.maps().find(|m| m.name() == map).unwrap();
        map.lookup(&0u32.to_ne_bytes(), MapFlags::ANY).unwrap().unwrap()
    }

    fn run(&mut self, v: &mut Vector) {
        self.run_on("wl_vector", "wl_parity_run", v);
    }

    fn run_group(&mut self, v: &mut GroupVector) {
        self.run_on("wl_group_vector", "wl_parity_group_run", v);
    }

    /// V is plain data without padding, as the value of that map.
    fn run_on<V: Copy>(&mut self, map: &str, program: &str, v: &mut V) {
        // SAFETY: plain data without padding; the slice lives for the call.
        let bytes = unsafe { std::slice::from_raw_parts((&raw const *v).cast::<u8>(), size_of::<V>()) };
        self.set(map, bytes);
        let program = self.object.progs_mut().find(|p| p.name() == program).unwrap();
        let out = program.test_run(ProgramInput::default()).unwrap();
        assert_eq!(out.return_value, 0);
        let back = self.value(map);
        assert_eq!(back.len(), size_of::<V>());
        // SAFETY: of the right length, and any bytes are a valid V.
        *v = unsafe { std::ptr::read_unaligned(back.as_ptr().cast()) };
    }
}

struct Random(u64);

impl Random {
    fn below(&mut self, n: u32) -> u32 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 32) as u32 % n
    }
}

/// Any numbers, whether or not they go together.
fn sample(r: &mut Random, now_us: u32, delivered: u32, newly: u32) -> wl_sample {
    let lost_bytes = if r.below(50) == 0 { r.below(20_000) } else { 0 };
    wl_sample {
        now_us,
        mss_bytes: 536 + r.below(1000),
        acked_bytes: newly,
        newly_delivered_bytes: newly,
        lost_bytes,
        lost_before_bytes: r.below(2) * r.below(lost_bytes + 1),
        ce_bytes: if r.below(4) == 0 { r.below(newly + 1) } else { 0 },
        rtt_us: r.below(300_000),
        srtt_us: 1000 + r.below(300_000),
        min_rtt_us: r.below(300_000),
        handshake_rtt_us: r.below(300_000),
        departs_in_us: r.below(20_000),
        near_rtt_us: r.below(4) * r.below(2000),
        rate_delivered_bytes: r.below(1 << 20),
        rate_interval_us: r.below(300_000),
        delivered_bytes: delivered,
        prior_delivered_bytes: delivered.wrapping_sub(r.below(1 << 20)),
        inflight_before_bytes: r.below(1 << 22),
        inflight_bytes: r.below(1 << 22),
        since_delivery_us: r.below(4) * r.below(500_000),
        round_count: delivered >> 16,
        events: r.below(256) & r.below(256) & r.below(256),
        random: r.below(u32::MAX),
        is_app_limited: (r.below(8) == 0).into(),
        is_cwnd_limited: (r.below(4) != 0).into(),
        is_in_recovery: (r.below(8) == 0).into(),
        is_ack_delayed: (r.below(8) == 0).into(),
    }
}

/// The numbers of one ACK on a path of 20 Mbit/s and 40 ms, where a segment in a hundred is lost and a queue comes and goes:
/// what depends on many rounds that go together is not reached by any numbers.
fn sample_of_path(r: &mut Random, before: &wl_sample, cwnd_bytes: u32) -> wl_sample {
    const MSS: u32 = 1448;
    const BDP: u32 = 69 * MSS;
    let newly = MSS * (1 + r.below(3));
    let delivered_bytes = before.delivered_bytes.wrapping_add(newly);
    let inflight = cwnd_bytes.clamp(MSS, 2 * BDP);
    let rtt_us = 40_000 + inflight.saturating_sub(BDP) * 2 / 5 + r.below(200);
    let rate_delivered_bytes = inflight.min(BDP);
    let is_round_start = delivered_bytes / BDP != before.delivered_bytes / BDP;
    wl_sample {
        now_us: before.now_us.wrapping_add(newly * 2 / 5),
        mss_bytes: MSS,
        acked_bytes: newly,
        newly_delivered_bytes: newly,
        lost_bytes: if r.below(100) == 0 { MSS } else { 0 },
        rtt_us,
        srtt_us: 40_000,
        min_rtt_us: 40_000,
        rate_delivered_bytes,
        rate_interval_us: 40_000,
        delivered_bytes,
        prior_delivered_bytes: delivered_bytes.wrapping_sub(rate_delivered_bytes),
        inflight_before_bytes: inflight,
        inflight_bytes: inflight - newly.min(inflight),
        round_count: before.round_count + u32::from(is_round_start),
        events: if is_round_start { abi::WL_EV_ROUND_START } else { 0 },
        random: r.below(u32::MAX),
        is_cwnd_limited: 1,
        is_in_recovery: (before.lost_bytes > 0 || (before.is_in_recovery != 0 && r.below(60) != 0)).into(),
        ..wl_sample::default()
    }
}

/// What homes and policies give algorithms, in turn: in every other one constants, of which some are beyond their bounds.
fn params(algorithm: Algorithm, turn: u32) -> wl_alg_params {
    let flags = [
        0,
        abi::WL_ALG_CANNOT_WAKE | abi::WL_ALG_CANNOT_DELAY | abi::WL_ALG_SENDS_BURSTS,
        abi::WL_ALG_SYNCHRONOUS | abi::WL_ALG_PROBES_AT_ONCE,
        abi::WL_ALG_AS_LINUX | abi::WL_ALG_SENDS_BURSTS,
    ];
    wl_alg_params {
        bottleneck_bytes_ps: 125_000_000 * u64::from(turn % 2),
        buffer_bytes: 150_000,
        threshold_permille: 300,
        gain_shift: (turn % 3 * 2) as u8,
        flags: flags[turn as usize] as u8,
        tunables: if turn % 2 == 1 { constants(algorithm, turn) } else { Default::default() },
    }
}

fn constants(algorithm: Algorithm, turn: u32) -> [u16; abi::WL_TUNABLES as usize] {
    let mut r = Random(0x9e37_79b9_7f4a_7c15 ^ u64::from(algorithm.id()) << 8 ^ u64::from(turn));
    let mut set = [0; abi::WL_TUNABLES as usize];
    for (set, t) in set.iter_mut().zip(algorithm.tunables()) {
        let within = u32::from(t.least) + r.below(u32::from(t.most - t.least) + 1) + 1;
        *set = [within, 0, r.below(1 << 16)][r.below(3) as usize] as u16;
    }
    set
}

const TURNS: u32 = 4;

/// A flow in both builds.
struct Pair {
    native: AlgorithmState,
    v: Vector,
}

impl Pair {
    fn begin(bpf: &mut Bpf, algorithm: Algorithm, params: wl_alg_params, first: wl_sample) -> Pair {
        let mut v = Vector {
            call: INIT,
            algorithm: algorithm.id(),
            argument: 0,
            result: 0,
            state: wl_alg_state::default(),
            decision: wl_decision::default(),
            sample: first,
            params,
        };
        bpf.run(&mut v);
        Pair { native: AlgorithmState::with_params(algorithm, &params, &first), v }
    }

    /// Calls one hook in both. `argument` is of [`IDLE`]: us.
    fn call(&mut self, bpf: &mut Bpf, call: u32, sample: wl_sample, argument: u32) {
        (self.v.call, self.v.sample, self.v.argument) = (call, sample, argument);
        match call {
            LOSS => self.native.on_congestion(&sample, abi::WL_CONGESTION_LOSS),
            TIMER => {
                self.v.decision.has_wake = 0;
                self.native.on_timer(&sample);
            }
            ECN => self.native.on_congestion(&sample, abi::WL_CONGESTION_ECN),
            TIMEOUT => self.native.on_timeout(&sample),
            IDLE => self.native.on_send_after_idle(&sample, argument),
            _ => self.native.on_ack(&sample),
        }
        bpf.run(&mut self.v);
    }

    fn check(&self, place: &str) {
        assert_eq!((self.v.state, self.v.decision), (self.native.state, self.native.decision), "{place}");
    }
}

/// Calls hooks of every algorithm on a flow whose state is carried from vector to vector.
#[test]
fn algorithms_agree_to_the_bit() {
    if !windlass_tests::is_root_or_skip("algorithms_agree_to_the_bit") {
        return;
    }
    let mut bpf = Bpf::load();
    for (algorithm, turn) in Algorithm::all().flat_map(|a| (0..TURNS).map(move |turn| (a, turn))) {
        let mut r = Random(0x9e37_79b9_7f4a_7c15 ^ u64::from(algorithm.id()) ^ u64::from(turn) << 8);
        let (mut now_us, mut delivered) = (r.below(u32::MAX), 0u32);
        let first = sample(&mut r, now_us, delivered, 0);
        let mut pair = Pair::begin(&mut bpf, algorithm, params(algorithm, turn), first);
        for i in 0..VECTORS / TURNS {
            pair.check(&format!("{algorithm:?}, turn {turn}, vector {i}"));
            // half of the time a path, half of the time anything
            let is_wild = i / 1000 % 2 == 1;
            let sample = if is_wild {
                let (elapsed_us, newly) = (r.below(20_000), r.below(50_000));
                sample(&mut r, now_us.wrapping_add(elapsed_us), delivered.wrapping_add(newly), newly)
            } else {
                sample_of_path(&mut r, &pair.v.sample, pair.v.decision.cwnd_bytes)
            };
            (now_us, delivered) = (sample.now_us, sample.delivered_bytes);
            let argument = r.below(2_000_000);
            let call = match r.below(100) {
                0 => LOSS,
                1 if is_wild && r.below(10) == 0 => TIMEOUT,
                2 if is_wild => IDLE,
                3 if is_wild => ECN,
                4..10 if pair.v.decision.has_wake != 0 => TIMER,
                _ => ACK,
            };
            pair.call(&mut bpf, call, sample, argument);
        }
    }
}

/// The samples of a real download, for every algorithm in every kind of home.
#[test]
fn algorithms_agree_on_what_was_recorded() {
    if !windlass_tests::is_root_or_skip("algorithms_agree_on_what_was_recorded") {
        return;
    }
    let samples = recorded::samples();
    let losses = samples.iter().filter(|s| s.events & abi::WL_EV_RECOVERY_ENTER != 0).count();
    assert!(losses >= 5 && samples.len() >= 500, "{losses} losses, {} samples", samples.len());
    let mut bpf = Bpf::load();
    for (algorithm, turn) in Algorithm::all().flat_map(|a| (0..TURNS).map(move |turn| (a, turn))) {
        let mut pair = Pair::begin(&mut bpf, algorithm, params(algorithm, turn), samples[0]);
        for (i, sample) in samples.iter().enumerate() {
            if sample.events & abi::WL_EV_RECOVERY_ENTER != 0 {
                pair.call(&mut bpf, LOSS, *sample, 0);
            }
            pair.call(&mut bpf, ACK, *sample, 0);
            pair.check(&format!("{algorithm:?}, turn {turn}, ACK {i}"));
        }
        assert_ne!(pair.v.decision.cwnd_bytes, 0, "{algorithm:?} has decided");
    }
}

#[test]
fn window_fields_and_roots_agree_to_the_bit() {
    if !windlass_tests::is_root_or_skip("window_fields_and_roots_agree_to_the_bit") {
        return;
    }
    let mut bpf = Bpf::load();
    let mut r = Random(7);
    for _ in 0..2000 {
        let sample = sample(&mut r, 0, 0, 0);
        let mut v = Vector {
            call: RWND,
            algorithm: 0,
            argument: r.below(1 << 20),
            result: 0,
            state: wl_alg_state::default(),
            decision: wl_decision::default(),
            sample,
            params: wl_alg_params::default(),
        };
        bpf.run(&mut v);
        // SAFETY: pure function.
        let field =
            unsafe { abi::wln_rwnd_field(sample.rtt_us, (v.argument & 15) as u8, sample.srtt_us & 0xffff) };
        assert_eq!(v.result, field);
        v.call = CBRT;
        bpf.run(&mut v);
        // SAFETY: pure function.
        let root = unsafe { abi::wln_cbrt(u64::from(sample.rtt_us) << 20 | u64::from(v.argument)) };
        assert_eq!(v.result, root);
    }
}

/// What a group receives, of every kind: growth, loss, recovery, timeouts, lies.
fn group_report(r: &mut Random, now_us: u32, member: &wl_member) -> wl_group_report {
    let cwnd = match r.below(10) {
        0 => r.below(u32::MAX),
        1 | 2 => member.cwnd_bytes / 2,
        _ => member.cwnd_bytes.saturating_add(r.below(3000)),
    };
    let state = [abi::WL_MEMBER_AVOIDANCE, abi::WL_MEMBER_SLOW_START, abi::WL_MEMBER_RECOVERY, 3];
    let state = state[[0, 0, 0, 0, 1, 1, 1, 2, 2, 3][r.below(10) as usize]];
    wl_group_report {
        now_us,
        mss_bytes: 536 + r.below(1000),
        weight: r.below(6),
        cwnd_bytes: if member.id == 0 { 1 + r.below(1 << 20) } else { cwnd },
        ssthresh_bytes: if r.below(2) == 0 { abi::WL_CWND_MAX_BYTES } else { r.below(1 << 22) },
        srtt_us: r.below(100_000),
        acked_bytes: r.below(30_000),
        acks: r.below(10),
        inflight_bytes: r.below(1 << 22),
        desired_bytes: if r.below(3) == 0 { r.below(1 << 18) } else { 0 },
        state: state as u8,
        is_timeout: (state == abi::WL_MEMBER_SLOW_START && r.below(4) == 0).into(),
        is_cwnd_limited: (r.below(4) != 0).into(),
        is_undo: (r.below(8) == 0).into(),
    }
}

/// Groups of eight flows, some of two tenants, live through every kind of event.
#[test]
fn group_rules_agree_to_the_bit() {
    if !windlass_tests::is_root_or_skip("group_rules_agree_to_the_bit") {
        return;
    }
    let mut bpf = Bpf::load();
    // each with any others, and groups that are like so many flows, or like as many as they have members
    let all_flags = abi::WL_GROUP_JOIN_ADDS | abi::WL_GROUP_NO_ACK_CLOCK | abi::WL_GROUP_IDLE_GROWS;
    for (rule, flags) in GroupRule::all().flat_map(|rule| (0..=all_flags).map(move |flags| (rule, flags))) {
        let mut r = Random(0x9e37_79b9_7f4a_7c15 ^ u64::from(rule.id()) ^ u64::from(flags) << 8);
        let mut now_us = r.below(u32::MAX);
        let mut members = [wl_member::default(); 8];
        let mut tenants = [wl_tenant::default(); 2];
        let mut v = GroupVector {
            call: GROUP_INIT,
            config: wl_group_config {
                rule: rule.id(),
                max_members: 7,
                flags,
                aggressiveness_q8: if r.below(2) == 0 { 700 } else { 0 },
                idle_us: 1_000_000,
            },
            ..GroupVector::default()
        };
        for i in 0..VECTORS / (all_flags + 1) {
            let mut native = v;
            native.run_natively();
            bpf.run_group(&mut v);
            assert_eq!(v, native, "{rule:?}, flags {flags}, vector {i}");
            let (who, tenant) = ((v.argument % 8) as usize, v.argument % 8 % 3);
            if i > 0 {
                members[who] = v.member;
            }
            if v.has_tenant != 0 || v.call == GROUP_TENANT {
                tenants[(tenant & 1) as usize] = v.tenant;
            }
            now_us = now_us.wrapping_add(r.below(20_000));
            // `argument` names the member; a third of them have no tenant
            v.argument = now_us & !7 | r.below(8);
            let (who, tenant) = ((v.argument % 8) as usize, v.argument % 8 % 3);
            v.has_tenant = u32::from(tenant != 2);
            v.member = members[who];
            v.tenant = tenants[(tenant & 1) as usize];
            v.call = match r.below(100) {
                0..3 => GROUP_LEAVE,
                3..6 => GROUP_COLLECT,
                6..20 => GROUP_ASK,
                21..27 => GROUP_RESUME,
                27..33 => GROUP_REPORT_OF,
                33..39 => GROUP_TAKE_REPLY,
                20 if v.has_tenant != 0 => GROUP_TENANT,
                _ if v.member.id == 0 => GROUP_REGISTER,
                _ => GROUP_UPDATE,
            };
            v.report = group_report(&mut r, now_us, &v.member);
            // of a pause: what the member's own algorithm has left of its window, or more
            v.reply.cwnd_bytes = r.below(2) * r.below(v.member.cwnd_bytes.saturating_mul(2).max(1));
            v.reply.is_change = r.below(2);
            v.sample = sample(&mut r, now_us, 0, 1448);
            v.decision.cwnd_bytes = v.report.cwnd_bytes;
            v.decision.ssthresh_bytes = v.report.ssthresh_bytes;
        }
    }
}
