//! The box, natively: a segment or a visit of the clock goes in, a verdict comes out (`core/box/`).

use crate::{
    Flow,
    abi::{
        self, wl_ack, wl_decision, wl_flow, wl_flow_record, wl_handshake, wl_home, wl_ledger, wl_sample,
        wl_segment, wl_sent, wl_verdict,
    },
};
use std::{
    ffi::{c_int, c_void},
    ptr,
};

/// What the box needs of its surroundings. All functions are called during a turn of one flow.
pub trait Home {
    /// `n` events happened, of the counter with that index (`abi::WL_C_*`).
    fn count(&mut self, counter: u32, n: u64);
    /// 32 random bits.
    fn random(&mut self) -> u32;
    /// Has the clock visit the flow at `deadline_ns`; 0: not needed.
    fn arm(&mut self, deadline_ns: u64);
    /// Sends a segment of the box in that flow, which may leave at `departs_at_ns` (0: at once). Returns whether it was sent.
    fn send(&mut self, flow: &wl_flow, segment: &wl_sent, departs_at_ns: u64) -> bool;
    /// Looks the flow's rule up, and writes mode, algorithm, parameters and `abi::WL_FLOW_GROUPED` into it. Returns whether a rule
    /// matches.
    fn apply_policy(&mut self, flow: &mut wl_flow) -> bool;

    /// Whether the clock visits flows at present.
    fn clock_runs(&mut self) -> bool {
        true
    }
    /// Takes one more chunk of the store for the flow. Returns 0, or the counter that gives the reason why there is none.
    fn take_chunk(&mut self) -> u32 {
        0
    }
    /// The same of a block.
    fn take_block(&mut self) -> u32 {
        0
    }
    /// Keeps `[seq, seq + len)` of the segment in hand. Returns 0, or the counter that gives the reason why it does not.
    fn store(&mut self, _seq: u32, _len: u32) -> u32 {
        0
    }
    /// Whether these bytes of the segment in hand differ from what is kept.
    fn differs(&mut self, _seq: u32, _len: u32) -> bool {
        false
    }
    /// A flow with `abi::WL_FLOW_GROUPED` exchanges reports with its group (`abi::WL_TALK_*`).
    fn talk(&mut self, _talk: u32, _sample: &wl_sample, _decision: &mut wl_decision) {}
    /// Whether ACKs of the group's other members let the flow send.
    fn is_joining(&mut self) -> bool {
        false
    }
    /// The flow is no member of its group any more.
    fn leave_group(&mut self) {}
    /// Whether the flow's rule was looked up in the policy that is in force.
    fn is_policy_current(&mut self, _flow: &wl_flow) -> bool {
        true
    }
    /// When the policy was changed last.
    fn policy_changed_at_us(&self) -> u32 {
        0
    }
    /// A flow whose ledger is kept ([`Flow::keep_ledger`]) has had traffic for another minute.
    fn record(&mut self, _record: &wl_flow_record) {}
}

/// A TCP segment, and how it is cut.
#[derive(Clone, Copy, Debug, Default)]
pub struct Segment {
    /// What its headers carry.
    pub tcp: wl_segment,
    /// The length of the segments that it is cut into (GSO); 0: it is one.
    pub gso_bytes: u32,
    sack: wl_ack,
}

impl Segment {
    /// A segment without SACK blocks.
    pub fn new(tcp: wl_segment) -> Segment {
        Segment { tcp, ..Segment::default() }
    }

    /// Adds timestamps (RFC 7323, section 3).
    pub fn add_timestamps(&mut self, tsval: u32, tsecr: u32) {
        let options = &mut self.tcp.options;
        (options.has_ts, options.tsval, options.tsecr) = (1, tsval, tsecr);
    }

    /// Adds the options of a SYN besides; `wscale`: the shift of its sender's windows.
    pub fn add_syn_options(&mut self, mss_bytes: u16, wscale: u8, permits_sack: bool) {
        let options = &mut self.tcp.options;
        (options.mss_bytes, options.has_sack_permitted) = (mss_bytes, permits_sack.into());
        (options.has_wscale, options.wscale) = (1, wscale);
    }

    /// Adds SACK blocks, (start, end); more than the core takes are left out.
    pub fn add_sack(&mut self, blocks: impl IntoIterator<Item = (u32, u32)>) {
        for (start, end) in blocks.into_iter().take(abi::WL_SACK_BLOCKS as usize) {
            let at = usize::from(self.sack.sack_count);
            (self.sack.sack_start[at], self.sack.sack_end[at]) = (start, end);
            self.sack.sack_count += 1;
            self.tcp.options.sack_len = 2 + 8 * self.sack.sack_count;
        }
    }
}

/// The functions of one kind of home, for C.
struct Shims<H>(std::marker::PhantomData<H>);

/// The home that C hands back.
///
/// # Safety
/// `owner` is from [`bind`], and the turn for which it was made is not over.
unsafe fn home<'a, H>(owner: *mut c_void) -> &'a mut H {
    // SAFETY: bind() made it of an exclusive borrow that outlives the turn, and C calls one function at a time.
    unsafe { &mut *owner.cast::<H>() }
}

macro_rules! shims {
    ($(fn $name:ident($home:ident $(, $arg:ident: $type:ty)*) $(-> $result:ty)? $body:block)*) => {
        impl<H: Home> Shims<H> {
            $(unsafe extern "C" fn $name(owner: *mut c_void $(, $arg: $type)*) $(-> $result)? {
                // SAFETY: C hands back what bind() gave it, within the turn.
                let $home = unsafe { home::<H>(owner) };
                $body
            })*
        }
    };
}

shims! {
    fn count(home, counter: u32, n: u64) { home.count(counter, n) }
    fn random(home) -> u32 { home.random() }
    fn clock_runs(home) -> c_int { home.clock_runs().into() }
    fn arm(home, deadline_ns: u64) { home.arm(deadline_ns) }
    fn take_chunk(home) -> u32 { home.take_chunk() }
    fn take_block(home) -> u32 { home.take_block() }
    fn store(home, seq: u32, len: u32) -> u32 { home.store(seq, len) }
    fn differs(home, seq: u32, len: u32) -> c_int { home.differs(seq, len).into() }
    fn send(home, flow: *const wl_flow, sent: *const wl_sent, departs_at_ns: u64) -> c_int {
        // SAFETY: the flow of the turn and a local of C's caller, which C does not touch meanwhile.
        let (flow, sent) = unsafe { (&*flow, &*sent) };
        c_int::from(!home.send(flow, sent, departs_at_ns))
    }
    fn talk(home, talk: u32, sample: *const wl_sample, decision: *mut wl_decision) {
        // SAFETY: the turn's sample and the flow's decision, two objects, which C does not touch meanwhile.
        let (sample, decision) = unsafe { (&*sample, &mut *decision) };
        home.talk(talk, sample, decision);
    }
    fn is_joining(home) -> c_int { home.is_joining().into() }
    fn leave_group(home) { home.leave_group() }
    fn is_policy_current(home, flow: *const wl_flow) -> c_int {
        // SAFETY: the flow of the turn.
        home.is_policy_current(unsafe { &*flow }).into()
    }
    fn apply_policy(home, flow: *mut wl_flow) -> c_int {
        // SAFETY: the flow of the turn, which C does not touch meanwhile.
        c_int::from(home.apply_policy(unsafe { &mut *flow })) - 1
    }
    fn record(home, record: *const wl_flow_record) {
        // SAFETY: a local of C's caller, which C does not touch meanwhile.
        home.record(unsafe { &*record });
    }
}

/// The home as C sees it in a turn at `now_ns`, with a segment or without. Valid as long as the borrow.
fn bind<H: Home>(home: &mut H, now_ns: u64, segment: Option<&Segment>) -> wl_home {
    wl_home {
        owner: ptr::from_mut(home).cast(),
        count: Some(Shims::<H>::count),
        random: Some(Shims::<H>::random),
        clock_runs: Some(Shims::<H>::clock_runs),
        arm: Some(Shims::<H>::arm),
        take_chunk: Some(Shims::<H>::take_chunk),
        take_block: Some(Shims::<H>::take_block),
        store: Some(Shims::<H>::store),
        differs: Some(Shims::<H>::differs),
        send: Some(Shims::<H>::send),
        talk: Some(Shims::<H>::talk),
        is_joining: Some(Shims::<H>::is_joining),
        leave_group: Some(Shims::<H>::leave_group),
        is_policy_current: Some(Shims::<H>::is_policy_current),
        apply_policy: Some(Shims::<H>::apply_policy),
        record: Some(Shims::<H>::record),
        policy_changed_at_us: home.policy_changed_at_us(),
        idle_timeout_s: IDLE_TIMEOUT_S,
        now_ns,
        gso_bytes: segment.map_or(0, |s| s.gso_bytes),
        sack: segment.map_or_else(wl_ack::default, |s| s.sack),
        flow: ptr::null_mut(),
        turn: ptr::null_mut(),
        departs_at_ns: 0,
    }
}

/// As the agent's default.
const IDLE_TIMEOUT_S: u32 = 300;

/// A SYN or SYN-ACK: `handshake` notes what it announces. Returns whether it completes a pair.
pub fn on_syn(
    home: &mut impl Home,
    handshake: &mut wl_handshake,
    segment: &Segment,
    from_sender: bool,
    now_ns: u64,
) -> bool {
    let mut bound = bind(home, now_ns, Some(segment));
    // SAFETY: all borrows outlive the call.
    unsafe { abi::wln_box_syn(&mut bound, handshake, &segment.tcp, from_sender.into()) > 0 }
}

/// A segment of no flow: whether one begins with it, by the handshake or, as `handshake` then notes, in mid-stream.
pub fn begins(handshake: &mut wl_handshake, segment: &Segment, from_sender: bool) -> bool {
    // SAFETY: all borrows outlive the call.
    unsafe { abi::wln_box_begins(handshake, &segment.tcp, from_sender.into()) == abi::WL_BEGIN_FLOW }
}

/// Must the flow, whose control ends by a change of the policy at `changed_at_us`, mend losses first?
pub fn settles_first(flow: &wl_flow, changed_at_us: u32, now_us: u32) -> bool {
    // SAFETY: reads a sound struct.
    unsafe { abi::wln_box_settles_first(flow, changed_at_us, now_us) != 0 }
}

impl Flow {
    /// The flow that begins with this segment, as [`begins`] has found, as number `id` of its home; `flags`: `abi::WL_FLOW_*` of the
    /// layers below, and `abi::WL_FLOW_DEPARTS`.
    pub fn begin(
        home: &mut impl Home,
        (id, flags): (u32, u32),
        handshake: &wl_handshake,
        segment: &Segment,
        from_sender: bool,
        now_ns: u64,
    ) -> Flow {
        let mut bound = bind(home, now_ns, Some(segment));
        // SAFETY: all borrows outlive the call.
        let raw =
            unsafe { abi::wln_box_begin(&mut bound, id, flags, handshake, &segment.tcp, from_sender.into()) };
        Flow::from_raw(raw)
    }

    /// A SYN or SYN-ACK of the flow's addresses and ports: until an accepted segment shows that the flow goes on, nothing is sent in
    /// its name, unless the SYN is its own.
    pub fn contest(&mut self, home: &mut impl Home, segment: &Segment, from_sender: bool, now_ns: u64) {
        let mut bound = bind(home, now_ns, Some(segment));
        // SAFETY: exclusive access to the flow; all borrows outlive the call.
        unsafe { abi::wln_box_contest(&mut bound, self.raw(), &segment.tcp, from_sender.into()) };
    }

    /// A segment of the controlled sender, no SYN: what becomes of it.
    pub fn from_sender(&mut self, home: &mut impl Home, segment: &mut Segment, now_ns: u64) -> wl_verdict {
        let mut bound = bind(home, now_ns, Some(segment));
        let mut verdict = wl_verdict::default();
        // SAFETY: exclusive access to the flow; all borrows outlive the call.
        unsafe { abi::wln_box_sender(&mut bound, self.raw(), &mut segment.tcp, &mut verdict) };
        verdict
    }

    /// A segment of its receiver, no SYN: what becomes of it.
    pub fn from_receiver(&mut self, home: &mut impl Home, segment: &Segment, now_ns: u64) -> wl_verdict {
        let mut bound = bind(home, now_ns, Some(segment));
        let mut verdict = wl_verdict::default();
        // SAFETY: as in from_sender().
        unsafe { abi::wln_box_receiver(&mut bound, self.raw(), &segment.tcp, &mut verdict) };
        verdict
    }

    /// A visit of the clock.
    pub fn tick(&mut self, home: &mut impl Home, now_ns: u64) {
        let mut bound = bind(home, now_ns, None);
        // SAFETY: as in from_sender().
        unsafe { abi::wln_box_tick(&mut bound, self.raw()) };
    }

    /// Keeps a ledger of the flow from now on: what [`record_up_to`](Flow::record_up_to) reports. A caller does so when the flow has begun.
    pub fn keep_ledger(&mut self, home: &mut impl Home, now_ns: u64) {
        let mut bound = bind(home, now_ns, None);
        // SAFETY: as in from_sender().
        let kept = unsafe { abi::wln_ledger_begin(&mut bound, self.raw()) };
        assert_eq!(kept, 0, "memory for one ledger");
    }

    /// What was noted of the flow so far; none: no ledger is kept.
    pub fn ledger(&self) -> Option<&wl_ledger> {
        // SAFETY: NULL, or the flow's ledger, which lives as long and is not written during this borrow.
        unsafe { abi::wln_ledger(self.raw_ref()).as_ref() }
    }

    /// The record of the flow up to now: it ends under this counter (`abi::WL_C_FLOWS_*`), or, 0, goes on. None: no ledger is kept.
    pub fn record_up_to(
        &mut self,
        home: &mut impl Home,
        counter: u32,
        now_ns: u64,
    ) -> Option<wl_flow_record> {
        let mut bound = bind(home, now_ns, None);
        let mut record = wl_flow_record::default();
        // SAFETY: as in from_sender().
        let is_kept = unsafe { abi::wln_ledger_record(&mut bound, self.raw(), counter, &mut record) } == 0;
        is_kept.then_some(record)
    }

    /// Has it been silent for so long that it must be forgotten?
    pub fn is_expired(&mut self, home: &mut impl Home, now_ns: u64) -> bool {
        let mut bound = bind(home, now_ns, None);
        // SAFETY: as in from_sender().
        unsafe { abi::wln_box_is_expired(&mut bound, self.raw()) != 0 }
    }

    /// Takes back the chunks of a flow that makes no use of them; sooner where they are scarce. Returns whether it did.
    pub fn reclaim(&mut self, home: &mut impl Home, is_scarce: bool, now_ns: u64) -> bool {
        let mut bound = bind(home, now_ns, None);
        // SAFETY: as in from_sender().
        unsafe { abi::wln_box_reclaim(&mut bound, self.raw(), is_scarce.into()) != 0 }
    }
}
