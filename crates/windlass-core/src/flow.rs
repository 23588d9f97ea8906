//! The flow machine, natively: scoreboard, rate samples, RACK, the right edge.

use crate::abi::{self, wl_ack, wl_flow, wl_sample, wl_seg, wln_flow};
use std::ptr::NonNull;

/// One flow with a scoreboard of its own, as the transparent datapath keeps it in maps.
#[derive(Debug)]
pub struct Flow {
    inner: NonNull<wln_flow>,
}

impl Flow {
    /// A flow whose stream begins at `base`, sent in segments of `mss_bytes` (not 0); flags are `abi::WL_FLOW_*`.
    pub fn new(base: u32, mss_bytes: u32, flags: u32) -> Flow {
        // SAFETY: the function allocates; it takes any arguments.
        Flow::from_raw(unsafe { abi::wln_flow_new(base, mss_bytes, flags) })
    }

    /// Takes over what C has allocated.
    pub(crate) fn from_raw(raw: *mut wln_flow) -> Flow {
        Flow { inner: NonNull::new(raw).expect("memory for one flow") }
    }

    pub(crate) fn raw_ref(&self) -> *const wln_flow {
        self.inner.as_ptr()
    }

    pub(crate) fn raw(&mut self) -> *mut wln_flow {
        self.inner.as_ptr()
    }

    /// The flow's variables.
    pub fn state(&self) -> &wl_flow {
        // SAFETY: `inner` is valid while self lives, and nothing writes during this borrow.
        unsafe { &*abi::wln_flow_state(self.inner.as_ptr()) }
    }

    /// The flow's variables, to be changed by a test.
    pub fn state_mut(&mut self) -> &mut wl_flow {
        // SAFETY: as in state(), exclusively.
        unsafe { &mut *abi::wln_flow_state(self.inner.as_ptr()) }
    }

    /// The first live record that begins in the slot of `seq` and ends after it.
    pub fn seg(&self, seq: u32) -> Option<&wl_seg> {
        // SAFETY: the pointer is NULL or points into the flow's scoreboard.
        unsafe { abi::wln_flow_seg(self.inner.as_ptr(), seq).as_ref() }
    }

    /// The live record of that number, as lists have it.
    pub fn record(&self, number: u32) -> Option<&wl_seg> {
        // SAFETY: the pointer is NULL or points into the flow's scoreboard.
        unsafe { abi::wln_flow_record(self.inner.as_ptr(), number).as_ref() }
    }

    /// The flow is number `id` of its home, which identifies it. To be called before it has sent anything.
    pub fn own(&mut self, id: u32) {
        // SAFETY: exclusive access.
        unsafe { abi::wln_flow_own(self.inner.as_ptr(), id) };
    }

    /// The flow's timers begin with the round trip of its handshake; 0: not known.
    pub fn rtt_begin(&mut self, handshake_rtt_us: u32) {
        // SAFETY: exclusive access.
        unsafe { abi::wln_flow_rtt_begin(self.inner.as_ptr(), handshake_rtt_us) };
    }

    /// How data `[seq, seq + len)` of the sender relates to what was seen (`abi::WL_DATA_*`).
    pub fn data_kind(&self, seq: u32, len: u32) -> u32 {
        // SAFETY: reads only.
        unsafe { abi::wln_flow_data_kind(self.inner.as_ptr(), seq, len) }
    }

    /// The sender sent new data up to `end`.
    pub fn send(&mut self, end: u32, now_us: u32) {
        self.send_at(self.state().nxt, end, now_us);
    }

    /// The sender sent `[seq, end)`: new, after a gap, or in a hole. Returns whether it could be recorded.
    pub fn send_at(&mut self, seq: u32, end: u32, now_us: u32) -> bool {
        // SAFETY: exclusive access.
        unsafe { abi::wln_flow_send(self.inner.as_ptr(), seq, end, now_us) == 0 }
    }

    /// The sender sent a new segment of `len` bytes by itself. Returns whether it is a probe of the path's MTU, which is not recorded;
    /// else nothing has happened.
    pub fn mtu_probe(&mut self, len: u32, now_us: u32) -> bool {
        // SAFETY: exclusive access.
        unsafe { abi::wln_flow_mtu_probe(self.inner.as_ptr(), len, now_us) != 0 }
    }

    /// The sender's FIN comes without data, at `seq`. Returns whether data before it was not observed.
    pub fn fin(&mut self, seq: u32, now_us: u32) -> bool {
        // SAFETY: exclusive access.
        unsafe { abi::wln_flow_fin(self.inner.as_ptr(), seq, now_us) != 0 }
    }

    /// Whether all in flight was seen, so that the box can repair it.
    pub fn is_whole(&self) -> bool {
        // SAFETY: reads only.
        unsafe { abi::wln_flow_is_whole(self.inner.as_ptr()) != 0 }
    }

    /// Whether something in flight was missed for so long that it is not merely late.
    pub fn hole_stays(&self, now_us: u32) -> bool {
        // SAFETY: reads only.
        unsafe { abi::wln_flow_hole_stays(self.inner.as_ptr(), now_us) != 0 }
    }

    /// What an acknowledgement number means (`abi::WL_ACK_*`).
    pub fn ack_kind(&self, ack: u32) -> u32 {
        // SAFETY: reads only.
        unsafe { abi::wln_flow_ack_kind(self.inner.as_ptr(), ack) }
    }

    /// Takes an ACK and returns its sample.
    pub fn ack(&mut self, ack: &wl_ack) -> wl_sample {
        self.ack_and_wait(ack).0
    }

    /// Takes an ACK and returns its sample, and after how many us losses can be judged further; 0: no need.
    pub fn ack_and_wait(&mut self, ack: &wl_ack) -> (wl_sample, u32) {
        let mut sample = wl_sample::default();
        // SAFETY: exclusive access; `sample` outlives the call.
        let wait_us = unsafe { abi::wln_flow_ack(self.inner.as_ptr(), ack, &mut sample) };
        (sample, wait_us)
    }

    /// Whether ACKs have left work on the scoreboard (`core/flow/work.h`), which [`Flow::go_on`] goes on with.
    pub fn is_behind(&self) -> bool {
        // SAFETY: reads only.
        unsafe { abi::wln_flow_is_behind(self.inner.as_ptr()) != 0 }
    }

    /// Goes on with what ACKs have left to do, as the clock does; returns what `ack_and_wait` returns.
    pub fn go_on(&mut self, now_us: u32) -> (wl_sample, u32) {
        let mut sample = wl_sample::default();
        // SAFETY: exclusive access; `sample` outlives the call.
        let wait_us = unsafe { abi::wln_flow_go_on(self.inner.as_ptr(), &mut sample, now_us) };
        (sample, wait_us)
    }

    /// How many records were looked at since the last call.
    pub fn take_touched(&mut self) -> u32 {
        // SAFETY: exclusive access.
        unsafe { abi::wln_flow_take_touched(self.inner.as_ptr()) }
    }

    /// Takes of a stale ACK what it reports to have arrived twice, if anything.
    pub fn dsack(&mut self, ack: &wl_ack) {
        // SAFETY: exclusive access.
        unsafe { abi::wln_flow_dsack(self.inner.as_ptr(), ack) };
    }

    /// Recovery begins with a loss that time alone has shown, which is about to be reported to the algorithm.
    pub fn recovery_enter(&mut self, sample: &mut wl_sample) {
        // SAFETY: exclusive access.
        unsafe { abi::wln_flow_recovery_enter(self.inner.as_ptr(), sample) };
    }

    /// Judges losses by time alone; returns bytes newly lost.
    pub fn detect(&mut self, now_us: u32) -> u32 {
        self.judge(now_us).0
    }

    /// The record to retransmit next, as (seq, len).
    pub fn next_repair(&mut self) -> Option<(u32, u32)> {
        let (mut seq, mut len) = (0, 0);
        // SAFETY: exclusive access; both locals outlive the call.
        let found = unsafe { abi::wln_flow_next_repair(self.inner.as_ptr(), &mut seq, &mut len) };
        (found != 0).then_some((seq, len))
    }

    /// The record at `seq`, from next_repair(), was retransmitted.
    pub fn repaired(&mut self, seq: u32, now_us: u32) {
        // SAFETY: exclusive access.
        unsafe { abi::wln_flow_repaired(self.inner.as_ptr(), seq, now_us) };
    }

    /// Forgets the records of all in flight, which ends at `nxt`.
    pub fn forget(&mut self, nxt: u32) {
        // SAFETY: exclusive access.
        unsafe { abi::wln_flow_forget(self.inner.as_ptr(), nxt) };
    }

    /// Only watched: the sender sends `[seq, seq + len)`, `len` not 0. Returns what it is (`abi::WL_DATA_*`).
    pub fn watch_data(&mut self, seq: u32, len: u32, now_us: u32) -> u32 {
        // SAFETY: exclusive access.
        unsafe { abi::wln_flow_watch_data(self.inner.as_ptr(), seq, len, now_us) }
    }

    /// Only watched: an ACK of kind SAME or ADVANCE, and the right edge of the window that it offers.
    pub fn watch_ack(&mut self, ack: u32, rcv_edge: u32, now_us: u32) {
        // SAFETY: exclusive access.
        unsafe { abi::wln_flow_watch_ack(self.inner.as_ptr(), ack, rcv_edge, now_us) };
    }

    /// What was only watched is controlled from now on; what is in flight has no records.
    pub fn watch_end(&mut self, now_us: u32) {
        // SAFETY: exclusive access.
        unsafe { abi::wln_flow_watch_end(self.inner.as_ptr(), now_us) };
    }

    /// Is the sender's own copy of the segment at `seq` superfluous now, after at most `copies` copies of it?
    pub fn is_taken_care_of(&mut self, seq: u32, copies: u32, now_us: u32) -> bool {
        // SAFETY: exclusive access.
        unsafe { abi::wln_flow_is_taken_care_of(self.inner.as_ptr(), seq, copies, now_us) != 0 }
    }

    /// The sender itself retransmits what begins at `seq`, whether that passes or not.
    pub fn insists(&mut self, seq: u32) {
        // SAFETY: exclusive access.
        unsafe { abi::wln_flow_insists(self.inner.as_ptr(), seq) };
    }

    /// The sender retransmits [seq, end), whether that passes or not: the box must make progress.
    pub fn absorb_on_retrans(&mut self, seq: u32, end: u32, now_us: u32) {
        // SAFETY: exclusive access.
        unsafe { abi::wln_flow_absorb_on_retrans(self.inner.as_ptr(), seq, end, now_us) };
    }

    /// Has the sender retransmitted the head so often that the flow is handed back unless una moves within a timeout?
    pub fn absorb_is_waiting(&self) -> bool {
        // SAFETY: reads only.
        unsafe { abi::wln_flow_absorb_is_waiting(self.inner.as_ptr()) != 0 }
    }

    /// Is that timeout over?
    pub fn absorb_is_overdue(&self, now_us: u32) -> bool {
        // SAFETY: reads only.
        unsafe { abi::wln_flow_absorb_is_overdue(self.inner.as_ptr(), now_us) != 0 }
    }

    /// An acknowledgement is outside what was sent; maybe it is for data that was not observed.
    pub fn beyond(&mut self, ack: u32) {
        // SAFETY: exclusive access.
        unsafe { abi::wln_flow_beyond(self.inner.as_ptr(), ack) };
    }

    /// The sender itself sent `[seq, end)` again, all of it sent before.
    pub fn sender_retrans(&mut self, seq: u32, end: u32, now_us: u32) {
        // SAFETY: exclusive access.
        unsafe { abi::wln_flow_sender_retrans(self.inner.as_ptr(), seq, end, now_us) };
    }

    /// Checks whether a silence means something (`abi::WL_SILENCE_*`).
    pub fn on_silence(&mut self, now_us: u32) -> u32 {
        self.silence(now_us).0
    }

    /// Moves the right edge as far as window and pacing allow.
    pub fn edge_advance(&mut self, now_ns: u64) {
        // SAFETY: exclusive access.
        unsafe { abi::wln_flow_edge_advance(self.inner.as_ptr(), now_ns) };
    }

    /// Calls hooks of the flow's algorithm, bits of `abi::WL_CALL_*` in their order, with the sample, which is of `now_ns`,
    /// completed.
    pub fn call(&mut self, calls: u32, sample: &mut wl_sample, idle_us: u32, now_ns: u64) {
        // SAFETY: exclusive access.
        unsafe { abi::wln_flow_call(self.inner.as_ptr(), calls, sample, idle_us, now_ns) };
    }

    /// Bytes in the network.
    pub fn pipe_bytes(&self) -> u32 {
        // SAFETY: reads only.
        unsafe { abi::wln_flow_pipe_bytes(self.inner.as_ptr()) }
    }

    /// The sender retransmitted what ends at `end`: was that a tail loss probe?
    pub fn probed_by_sender(&mut self, end: u32) {
        // SAFETY: exclusive access.
        unsafe { abi::wln_flow_probed_by_sender(self.inner.as_ptr(), end) };
    }

    /// The block (start, end) that what the sender is shown next must report as superfluous: its probe. None: there is
    /// no such probe, or what it repeats is not acknowledged yet.
    pub fn probe_report(&self) -> Option<(u32, u32)> {
        let (mut start, mut end) = (0, 0);
        // SAFETY: reads the flow only; both locals outlive the call.
        let owes = unsafe { abi::wln_flow_probe_report(self.inner.as_ptr(), &mut start, &mut end) };
        (owes != 0).then_some((start, end))
    }

    /// Judges losses by time alone; returns bytes newly lost, and after how many us more can be judged; 0: no need.
    pub fn judge(&mut self, now_us: u32) -> (u32, u32) {
        let mut wait_us = 0;
        // SAFETY: exclusive access; the local outlives the call.
        let lost_bytes = unsafe { abi::wln_flow_judge(self.inner.as_ptr(), now_us, &mut wait_us) };
        (lost_bytes, wait_us)
    }

    /// Checks whether a silence means something (`abi::WL_SILENCE_*`); returns also the bytes lost by a timeout.
    pub fn silence(&mut self, now_us: u32) -> (u32, u32) {
        let mut lost_bytes = 0;
        // SAFETY: as in judge().
        let silence = unsafe { abi::wln_flow_silence(self.inner.as_ptr(), now_us, &mut lost_bytes) };
        (silence, lost_bytes)
    }

    /// New data up to `end` arrives: does it show that the sender paces itself?
    pub fn paced_on_data(&mut self, end: u32, now_us: u32) -> bool {
        // SAFETY: exclusive access.
        unsafe { abi::wln_flow_paced_on_data(self.inner.as_ptr(), end, now_us) != 0 }
    }

    /// The next `len` bytes of a sender that is left alone pass: do they show that it does not pace itself after all?
    pub fn paced_on_watched(&mut self, len: u32, now_us: u32) -> bool {
        // SAFETY: exclusive access.
        unsafe { abi::wln_flow_paced_on_watched(self.inner.as_ptr(), len, now_us) != 0 }
    }

    /// The ACK of which `sample` is reports a mark: whether the algorithm must be notified of it.
    pub fn mark(&mut self, sample: &mut wl_sample) -> bool {
        // SAFETY: exclusive access to both.
        unsafe { abi::wln_flow_mark(self.inner.as_ptr(), sample) != 0 }
    }

    /// Notes whether the sender is short of data.
    pub fn supply_check(&mut self, now_us: u32) {
        // SAFETY: exclusive access.
        unsafe { abi::wln_flow_supply_check(self.inner.as_ptr(), now_us) };
    }

    /// Notes whether the window holds the flow back.
    pub fn cwnd_limited_check(&mut self) {
        // SAFETY: exclusive access.
        unsafe { abi::wln_flow_cwnd_limited_check(self.inner.as_ptr()) };
    }

    /// An ACK has come: notes how the own window of the sender grows, whose known edge is `known_edge`.
    pub fn shown_note(&mut self, now_us: u32, known_edge: u32) {
        // SAFETY: exclusive access.
        unsafe { abi::wln_flow_shown_note(self.inner.as_ptr(), now_us, known_edge) };
    }

    /// Shows the sender, whose known edge is `known_edge`, what is acknowledged if it is time; returns whether there
    /// was something new to show.
    pub fn shown_step(&mut self, now_us: u32, known_edge: u32) -> bool {
        // SAFETY: exclusive access.
        unsafe { abi::wln_flow_shown_step(self.inner.as_ptr(), now_us, known_edge) != 0 }
    }

    /// The receiver offers room up to `edge` with acknowledgement `ack`, which is not taken yet.
    pub fn offered(&mut self, ack: u32, edge: u32, now_us: u32) {
        // SAFETY: exclusive access.
        unsafe { abi::wln_flow_offered(self.inner.as_ptr(), ack, edge, now_us) };
    }

    /// The sender is shown `edge`.
    pub fn edge_shown(&mut self, now_ns: u64, edge: u32) {
        // SAFETY: exclusive access.
        unsafe { abi::wln_flow_edge_shown(self.inner.as_ptr(), now_ns, edge) };
    }

    /// The flow is controlled no more, and all in flight forgotten; up to `fack` it was delivered.
    pub fn leave_begin(&mut self, fack: u32, now_us: u32) {
        // SAFETY: exclusive access.
        unsafe { abi::wln_flow_leave_begin(self.inner.as_ptr(), fack, now_us) };
    }

    /// An ACK of a flow that was controlled, and is only watched now, which has taken its number over: moves the edge that the
    /// sender is shown.
    pub fn leave_ack(&mut self, ack: &wl_ack) {
        // SAFETY: exclusive access.
        unsafe { abi::wln_flow_leave_ack(self.inner.as_ptr(), ack) };
    }

    /// `bytes` are held until they may depart: returns when.
    pub fn depart_ns(&mut self, now_ns: u64, bytes: u32) -> u64 {
        // SAFETY: exclusive access.
        unsafe { abi::wln_flow_depart_ns(self.inner.as_ptr(), now_ns, bytes) }
    }

    /// When the flow next needs the clock; 0: not at all.
    pub fn deadline_ns(&mut self, now_ns: u64, wait_us: u32) -> u64 {
        // SAFETY: exclusive access.
        unsafe { abi::wln_flow_deadline_ns(self.inner.as_ptr(), now_ns, wait_us) }
    }
}

impl wl_flow {
    /// Whether the box controls the flow's window at present, in a bypass or not.
    pub fn is_controlled(&self) -> bool {
        (abi::WL_FLOW_ACTIVE..=abi::WL_FLOW_RECLAIMED).contains(&self.state.into())
    }

    /// Whether the flow is controlled and its sender repairs its own losses.
    pub fn is_bypassed(&self) -> bool {
        self.is_controlled() && u32::from(self.state) != abi::WL_FLOW_ACTIVE
    }
}

impl Drop for Flow {
    fn drop(&mut self) {
        // SAFETY: allocated in new(), freed once.
        unsafe { abi::wln_flow_free(self.inner.as_ptr()) };
    }
}
