//! The BPF and the native build of the core give the same answer to the bit.

use libbpf_rs::{MapCore, MapFlags, ObjectBuilder, ProgramInput};
use windlass_core::{
    Algorithm, AlgorithmState,
    abi::{self, wl_alg_state, wl_decision, wl_sample},
};

static OBJECT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/parity.bpf.o"));
const VECTORS: u32 = 20_000;

/// As struct wl_parity in bpf/parity.h.
#[repr(C)]
#[derive(Clone, Copy)]
struct Vector {
    call: u32,
    algorithm: u32,
    argument: u32,
    result: u32,
    state: wl_alg_state,
    decision: wl_decision,
    sample: wl_sample,
    reserved: u32,
}

const INIT: u32 = 0;
const ACK: u32 = 1;
const LOSS: u32 = 2;
const TIMEOUT: u32 = 3;
const IDLE: u32 = 4;
const RWND: u32 = 5;
const CBRT: u32 = 6;

struct Bpf {
    object: libbpf_rs::Object,
}

impl Bpf {
    fn load() -> Bpf {
        let object = ObjectBuilder::default()
            .open_memory(OBJECT)
            .unwrap()
            .load()
            .expect("the verifier takes the core");
        Bpf { object }
    }

    fn run(&mut self, v: &mut Vector) {
        let map = self.object.maps().find(|m| m.name() == "wl_vector").unwrap();
        // SAFETY: Vector is plain data without padding; the slice lives for the call.
        let bytes = unsafe { std::slice::from_raw_parts((&raw const *v).cast::<u8>(), size_of::<Vector>()) };
        map.update(&0u32.to_ne_bytes(), bytes, MapFlags::ANY).unwrap();
        let program = self.object.progs_mut().next().unwrap();
        let out = program.test_run(ProgramInput::default()).unwrap();
        assert_eq!(out.return_value, 0);
        let map = self.object.maps().find(|m| m.name() == "wl_vector").unwrap();
        let back = map.lookup(&0u32.to_ne_bytes(), MapFlags::ANY).unwrap().unwrap();
        assert_eq!(back.len(), size_of::<Vector>());
        // SAFETY: of the right length, and any bytes are a valid Vector.
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

fn sample(r: &mut Random, now_us: u32, delivered: u32, newly: u32) -> wl_sample {
    wl_sample {
        now_us,
        mss_bytes: 536 + r.below(1000),
        acked_bytes: newly,
        newly_delivered_bytes: newly,
        lost_bytes: if r.below(50) == 0 { r.below(20_000) } else { 0 },
        rtt_us: r.below(300_000),
        srtt_us: 1000 + r.below(300_000),
        min_rtt_us: r.below(300_000),
        rate_delivered_bytes: r.below(1 << 20),
        rate_interval_us: r.below(300_000),
        delivered_bytes: delivered,
        prior_delivered_bytes: delivered.wrapping_sub(r.below(1 << 20)),
        inflight_before_bytes: r.below(1 << 22),
        inflight_bytes: r.below(1 << 22),
        round_count: delivered >> 16,
        random: r.below(u32::MAX),
        is_app_limited: (r.below(8) == 0).into(),
        is_cwnd_limited: (r.below(4) != 0).into(),
        is_in_recovery: (r.below(8) == 0).into(),
        is_ack_delayed: (r.below(8) == 0).into(),
        ..wl_sample::default()
    }
}

/// Calls hooks of every algorithm on a flow whose state is carried from vector to vector.
#[test]
fn algorithms_agree_to_the_bit() {
    if !windlass_tests::is_root_or_skip("algorithms_agree_to_the_bit") {
        return;
    }
    let mut bpf = Bpf::load();
    for algorithm in Algorithm::all() {
        let mut r = Random(0x9e37_79b9_7f4a_7c15 ^ u64::from(algorithm.id()));
        let (mut now_us, mut delivered) = (r.below(u32::MAX), 0u32);
        let first = sample(&mut r, now_us, delivered, 0);
        let mut native = AlgorithmState::new(algorithm, &first);
        let mut v = Vector {
            call: INIT,
            algorithm: algorithm.id(),
            argument: 0,
            result: 0,
            state: wl_alg_state::default(),
            decision: wl_decision::default(),
            sample: first,
            reserved: 0,
        };
        bpf.run(&mut v);
        for i in 0..VECTORS {
            assert_eq!((v.state, v.decision), (native.state, native.decision), "{algorithm:?}, vector {i}");
            now_us = now_us.wrapping_add(r.below(20_000));
            let newly = r.below(50_000);
            delivered = delivered.wrapping_add(newly);
            v.sample = sample(&mut r, now_us, delivered, newly);
            v.argument = r.below(2_000_000);
            v.call = match r.below(100) {
                0 => LOSS,
                1 if r.below(10) == 0 => TIMEOUT,
                2 => IDLE,
                _ => ACK,
            };
            match v.call {
                LOSS => native.on_congestion(&v.sample, abi::WL_CONGESTION_LOSS),
                TIMEOUT => native.on_timeout(&v.sample),
                IDLE => native.on_send_after_idle(&v.sample, v.argument),
                _ => native.on_ack(&v.sample),
            }
            bpf.run(&mut v);
        }
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
            reserved: 0,
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
