//! What the two ends of one connection have truly sent through the box, and what therefore may leave it. The oracle itself: no
//! check looks at the datapath's own state.
//!
//! What is decided, and how:
//!  - Bytes: every payload byte that leaves towards a client is the server's at that offset of that connection. Of a server that
//!    sends different bytes at one offset each of these is right.
//!  - A forger's packets are not delivered to either end. Could the addressee have accepted one (RFC 9293, section 3.10.7.4;
//!    RFC 5961, section 5), by what has passed the box, the connection is an insider's from then on: bytes of that forger at
//!    that offset are right, too, as the forger could have put them there without the box, and what the box sends either end
//!    of the connection's numbers is not judged. Bytes of any other connection remain wrong.

use crate::{
    programs::Verdict,
    terms::Terms,
    wire::{ACK, CWR, Checksum, ECE, FIN, Parsed, RST, SYN, Segment, URG},
};

/// Contents that a server which changes its mind has for one offset.
pub const VERSIONS: u64 = 4;
/// Largest window of a SYN, which is not scaled.
const SYN_WINDOW_BYTES: i64 = 65535;

/// Of what the box itself sends to a server.
const OWN_TTL: u8 = 64;

/// Kind of the fault that a server's retransmissions are absorbed, and its client gets nothing.
pub const NOT_HANDED_BACK: &str = "neither progress nor handed back";

/// Something that must not happen.
#[derive(Clone, Debug)]
pub struct Fault {
    pub kind: &'static str,
    pub detail: String,
}

pub type Check = Result<(), Fault>;

fn ensure(holds: bool, kind: &'static str, detail: impl FnOnce() -> String) -> Check {
    if holds { Ok(()) } else { Err(Fault { kind, detail: detail() }) }
}

/// The highest and the lowest of some numbers of one direction.
#[derive(Clone, Copy, Debug)]
struct Range {
    low: i64,
    high: i64,
}

impl Range {
    fn add(&mut self, value: i64) {
        self.low = self.low.min(value);
        self.high = self.high.max(value);
    }
}

/// One connection's record.
#[derive(Clone, Debug)]
pub struct Ledger {
    pub terms: Terms,
    /// One past the server's last byte that was given to the box, and that passed it.
    pub sent_end: i64,
    pub passed_end: i64,
    /// The same without what had been damaged before it came by, which no end takes.
    intact_end: i64,
    pub fin_at: Option<i64>,
    server_acks: Range,
    server_ts: Range,
    /// Highest of the client's acknowledgements and right edges that were given to the box.
    pub client_acked: i64,
    pub client_edge: i64,
    pub client_sent_end: i64,
    client_ts: Range,
    /// What the server has been shown, by the rules of RFC 9293: SND.UNA, right edge, SND.WL1 and SND.WL2.
    pub shown_una: i64,
    pub shown_edge: i64,
    /// Acknowledgement and window of the packet that it came with.
    shown_by: (i64, u16),
    shown_wl1: i64,
    shown_wl2: i64,
    /// A forger knew the numbers, or guessed them.
    pub is_insiders: bool,
}

impl Ledger {
    pub fn new(terms: Terms) -> Ledger {
        Ledger {
            sent_end: 0,
            passed_end: 0,
            intact_end: 0,
            fin_at: None,
            server_acks: Range { low: 0, high: 0 },
            server_ts: Range { low: 0, high: 0 },
            client_acked: 0,
            client_edge: SYN_WINDOW_BYTES,
            client_sent_end: 0,
            client_ts: Range { low: 0, high: 0 },
            shown_una: 0,
            shown_edge: 0,
            shown_by: (0, 0),
            shown_wl1: -1,
            shown_wl2: 0,
            is_insiders: false,
            terms,
        }
    }

    /// Where in the server's stream a sequence number lies.
    pub fn offset_of_server(&self, seq: u32) -> i64 {
        self.sent_end + i64::from(seq.wrapping_sub(self.terms.server_seq(self.sent_end)) as i32)
    }

    fn client_offset(&self, seq: u32) -> i64 {
        self.client_sent_end + i64::from(seq.wrapping_sub(self.terms.client_seq(self.client_sent_end)) as i32)
    }

    /// One past all that the server has sent, its FIN included.
    fn server_max(&self) -> i64 {
        self.sent_end + i64::from(self.fin_at.is_some())
    }

    /// Takes the server's own segment, which is about to be given to the box, into account.
    pub fn note_from_server(&mut self, segment: &Segment, tsval: u32) {
        if segment.flags & SYN != 0 {
            return;
        }
        let offset = self.offset_of_server(segment.seq);
        if segment.len > 0 {
            self.sent_end = self.sent_end.max(offset + segment.len as i64);
        }
        if segment.flags & FIN != 0 {
            self.fin_at = Some(offset + segment.len as i64);
        }
        self.server_acks.add(self.client_offset(segment.ack));
        self.server_ts.add(i64::from(tsval.wrapping_sub(self.terms.server_ts)));
    }

    /// The same of the client's. Its acknowledgement and window count from now on.
    pub fn note_from_client(&mut self, segment: &Segment, tsval: u32) {
        if segment.flags & SYN != 0 {
            return;
        }
        let offset = self.client_offset(segment.seq);
        let end = offset + segment.len as i64 + i64::from(segment.flags & FIN != 0);
        self.client_sent_end = self.client_sent_end.max(end);
        if segment.flags & ACK != 0 {
            let acked = self.offset_of_server(segment.ack);
            self.client_acked = self.client_acked.max(acked);
            let window = i64::from(segment.window) << self.terms.shift();
            self.client_edge = self.client_edge.max(acked + window);
        }
        self.client_ts.add(i64::from(tsval.wrapping_sub(self.terms.client_ts)));
    }

    /// A forger's packet is about to be given to the box: could its addressee accept it?
    pub fn note_forged(&mut self, segment: &Segment) {
        self.is_insiders |= if segment.is_from_server {
            self.could_client_accept(segment)
        } else {
            self.could_server_accept(segment)
        };
    }

    /// The right edge of what the server has offered to the client. Its SYN-ACK's window is not scaled, and stays offered.
    fn server_edge(&self) -> i64 {
        SYN_WINDOW_BYTES.max(self.server_acks.high + self.terms.server_window_bytes())
    }

    fn could_client_accept(&self, s: &Segment) -> bool {
        let start = self.offset_of_server(s.seq);
        let end = start + s.len as i64;
        if s.flags & SYN != 0 {
            return false;
        }
        // a server may overrun its client's window: what then begins where its stream ends is told from its own by nothing
        let is_in_window = end >= self.client_acked && start <= self.client_edge.max(self.sent_end);
        if s.flags & RST != 0 {
            return is_in_window;
        }
        let acked = self.client_offset(s.ack);
        let window = self.terms.server_window_bytes();
        is_in_window
            && s.flags & ACK != 0
            && acked <= self.client_sent_end
            && acked >= self.server_acks.high - window.max(SYN_WINDOW_BYTES)
    }

    fn could_server_accept(&self, s: &Segment) -> bool {
        let start = self.client_offset(s.seq);
        let end = start + s.len as i64;
        if s.flags & SYN != 0 {
            return false;
        }
        let is_in_window = end >= self.server_acks.high && start <= self.server_edge();
        if s.flags & RST != 0 {
            return is_in_window;
        }
        let acked = self.offset_of_server(s.ack);
        let most = self.client_edge - self.client_acked;
        is_in_window
            && s.flags & ACK != 0
            && acked <= self.server_max()
            && acked >= self.shown_una - most.max(SYN_WINDOW_BYTES)
    }

    /// What became of a packet from the server's side, a forged one included.
    pub fn check_from_server(
        &mut self,
        segment: &Segment,
        is_forged: bool,
        verdict: Verdict,
        before: &[u8],
        after: &[u8],
    ) -> Check {
        let start = self.offset_of_server(segment.seq);
        let end = start + segment.len as i64;
        match verdict {
            Verdict::Drop if is_forged || self.is_insiders => Ok(()),
            Verdict::Drop => ensure(
                segment.len > 0
                    && segment.flags & (SYN | FIN | RST | URG) == 0
                    && end <= self.passed_end
                    && self.client_edge > 0,
                "a server's first copy dropped",
                || format!("[{start}, {end}) of the server; only [0, {}) has passed", self.passed_end),
            ),
            Verdict::Pass => {
                if !is_forged && segment.flags & SYN == 0 {
                    self.passed_end = self.passed_end.max(end);
                    if segment.checksum != Checksum::Damaged {
                        self.intact_end = self.intact_end.max(end);
                    }
                }
                if before == after {
                    return Ok(());
                }
                self.check_cwr(before, after)
            }
        }
    }

    /// The one change that is made to packets of servers: CWR is set, for a reduction of the box's own.
    fn check_cwr(&self, before: &[u8], after: &[u8]) -> Check {
        let changed: Vec<usize> =
            (0..before.len().min(after.len())).filter(|i| before[*i] != after[*i]).collect();
        let right = Parsed::of(before).zip(Parsed::of(after)).is_some_and(|(b, a)| {
            before.len() == after.len()
                && (self.terms.has_ecn || self.is_insiders)
                && a.flags == b.flags | CWR
                && a.payload == b.payload
                && (a.seq, a.ack, a.window) == (b.seq, b.ack, b.window)
                // an insider may have agreed on ECN with sums that a network card would have completed: these packets have none
                && (a.is_tcp_sum_right || self.is_insiders)
                && changed.len() <= 3
        });
        ensure(right, "a server's packet changed", || format!("bytes {changed:?} of the frame"))
    }

    /// What became of the client's own packet.
    pub fn check_to_server(&mut self, segment: &Segment, verdict: Verdict, after: &[u8]) -> Check {
        if verdict == Verdict::Drop {
            return ensure(
                segment.len == 0 && segment.flags & (SYN | FIN | RST | URG) == 0 && segment.flags & ACK != 0,
                "a client's packet dropped that is more than an ACK",
                || format!("flags {:#x}, {} bytes", segment.flags, segment.len),
            );
        }
        let Some(out) = Parsed::of(after).map(Parsed::turned) else {
            return Err(Fault {
                kind: "a client's packet is none any more",
                detail: format!("{after:02x?}"),
            });
        };
        let same = (out.tuple, out.seq, out.flags | ECE, out.ttl, out.source_mac, out.destination_mac)
            == (
                self.terms.tuple,
                segment.seq,
                segment.flags | ECE,
                segment.ttl,
                segment.source_mac,
                segment.destination_mac,
            )
            && out.flags & ECE & !segment.flags == 0
            && segment.key.first_difference(segment.offset, out.payload).is_none()
            && out.payload.len() == segment.len;
        ensure(same, "a client's packet changed", || format!("{segment:x?} left as {out:x?}"))?;
        ensure(out.is_ip_sum_right && out.is_tcp_sum_right, "a wrong checksum to a server", || {
            format!("{segment:x?} left as {out:x?}")
        })?;
        let claimed: Vec<(u32, u32)> = segment.options.sack_blocks().collect();
        ensure(
            out.sack().all(|block| claimed.contains(&block)),
            "a SACK block that the client has not sent",
            || format!("{claimed:?} left as {:?}", out.sack().collect::<Vec<_>>()),
        )?;
        if segment.flags & (SYN | RST) != 0 || segment.flags & ACK == 0 {
            return Ok(());
        }
        // what two reordered packets of the client's own do to its window is not the box's doing
        let is_as_sent = (out.ack, out.window) == (segment.ack, segment.window);
        self.check_shown(&out, is_as_sent)
    }

    /// What a server is shown: acknowledgement and window. `is_as_sent`: they are the client's own.
    fn check_shown(&mut self, out: &Parsed<'_>, is_as_sent: bool) -> Check {
        if self.is_insiders {
            self.show(out, i64::from(out.window) << self.terms.shift());
            return Ok(());
        }
        let acked = self.offset_of_server(out.ack);
        let edge = acked + (i64::from(out.window) << self.terms.shift());
        ensure(acked <= self.client_acked, "an ACK beyond the client's", || {
            format!("{acked}; the client has acknowledged {}", self.client_acked)
        })?;
        ensure(edge <= self.client_edge, "a window beyond the client's", || {
            format!("right edge {edge} (ACK {acked}); the client has offered {}", self.client_edge)
        })?;
        let (was, (was_acked, was_window)) = (self.shown_edge, self.shown_by);
        let is_in_force = self.show(out, i64::from(out.window) << self.terms.shift());
        let may_shrink = is_as_sent || self.terms.client_shrinks;
        // the client acknowledges what cannot have reached it: that passes as it is, and its own window with it
        if is_as_sent && acked > self.intact_end {
            self.shown_edge = was;
        }
        ensure(!is_in_force || edge >= was || may_shrink, "the right edge moved left", || {
            let shift = self.terms.shift();
            format!(
                "from {was} (ACK {was_acked}, window {was_window} << {shift}) to {edge} (ACK {acked}, window {} << {shift})",
                out.window
            )
        })
    }

    /// The server takes over what it is shown, if it is not stale. Returns whether its window is in force.
    fn show(&mut self, out: &Parsed<'_>, window: i64) -> bool {
        let acked = self.offset_of_server(out.ack);
        let seq = self.client_offset(out.seq);
        // what lies outside its window the server refuses (RFC 9293, section 3.10.7.4)
        let is_refused = seq + (out.payload.len() as i64) < self.server_acks.high || seq > self.server_edge();
        if is_refused || acked < self.shown_una || acked > self.server_max() {
            return false;
        }
        self.shown_una = acked;
        if seq < self.shown_wl1 || (seq == self.shown_wl1 && acked < self.shown_wl2) {
            return false;
        }
        (self.shown_wl1, self.shown_wl2, self.shown_edge) = (seq, acked, acked + window);
        self.shown_by = (acked, out.window);
        true
    }

    /// What both directions have in common of what the datapath itself sends. `own` and `other`: first timestamp and what was sent
    /// since, of the end in whose name it is sent, and of the other one.
    fn check_own(
        &self,
        out: &Parsed<'_>,
        macs: [[u8; 6]; 2],
        ttl: u8,
        own: (u32, Range),
        other: (u32, Range),
    ) -> Check {
        ensure(out.is_ip_sum_right && out.is_tcp_sum_right, "a wrong checksum of the box's own", || {
            format!("{out:x?}")
        })?;
        if self.is_insiders {
            return Ok(());
        }
        let is_addressed =
            [out.source_mac, out.destination_mac] == macs && out.ttl == ttl && out.tos & 3 == 0;
        ensure(is_addressed, "a wrong address of the box's own", || {
            format!("{:x?} to {:x?}, TTL {}", out.source_mac, out.destination_mac, out.ttl)
        })?;
        ensure(
            out.timestamps().is_some() == self.terms.has_timestamps,
            "timestamps are not as agreed",
            || format!("{out:x?}"),
        )?;
        let Some((value, echo)) = out.timestamps() else { return Ok(()) };
        let value = i64::from(value.wrapping_sub(own.0) as i32);
        let echo = i64::from(echo.wrapping_sub(other.0) as i32);
        let is_true = (0..=own.1.high).contains(&value) && (0..=other.1.high).contains(&echo);
        ensure(is_true, "a false timestamp", || format!("value {value} of {own:?}, echo {echo} of {other:?}"))
    }

    /// A segment that the datapath itself sends to the client.
    pub fn check_repair(&self, out: &Parsed<'_>) -> Check {
        let t = &self.terms;
        let start = self.offset_of_server(out.seq);
        let end = start + out.payload.len() as i64;
        self.check_bytes(start, out.payload)?;
        let (server, client) = ((t.server_ts, self.server_ts), (t.client_ts, self.client_ts));
        self.check_own(out, [t.server_mac, t.client_mac], t.ttl, server, client)?;
        if self.is_insiders {
            return Ok(());
        }
        ensure(start >= 0 && end <= self.sent_end && start < end, "a repair of what was not sent", || {
            format!("[{start}, {end}); the server has sent [0, {})", self.sent_end)
        })?;
        let has_fin = out.flags & FIN != 0;
        ensure(
            out.flags & (SYN | RST | URG | ACK | ECE | CWR) == ACK && (!has_fin || self.fin_at == Some(end)),
            "wrong flags of a repair",
            || format!("{:#x} at [{start}, {end}); FIN at {:?}", out.flags, self.fin_at),
        )?;
        let acked = self.client_offset(out.ack);
        ensure(
            acked >= 0 && acked <= self.server_acks.high,
            "a repair acknowledges what its server did not",
            || format!("{acked}; the server has acknowledged {:?}", self.server_acks),
        )?;
        ensure(out.window == t.server_window, "a repair has a false window", || {
            format!("{}; the server's is {}", out.window, t.server_window)
        })
    }

    /// Is every byte the server's? If not, the kind of the fault names what they are.
    fn check_bytes(&self, start: i64, payload: &[u8]) -> Check {
        let t = &self.terms;
        let Some(at) = t.key.first_difference(start, payload) else { return Ok(()) };
        let versions = if t.server_changes { VERSIONS } else { 1 };
        let is_right = |i: usize, byte: u8| {
            let offset = start + i as i64;
            (0..versions).any(|v| t.key.variant(v).byte(offset) == byte)
                || (self.is_insiders && t.forger_key().byte(offset) == byte)
        };
        let wrong: Vec<usize> = (at..payload.len()).filter(|i| !is_right(*i, payload[*i])).collect();
        let Some(first) = wrong.first() else { return Ok(()) };
        let forged = wrong.iter().filter(|i| t.forger_key().byte(start + **i as i64) == payload[**i]).count();
        let kind = if 2 * forged > wrong.len() { "forged bytes repaired" } else { "bytes of another" };
        Err(Fault {
            kind,
            detail: format!(
                "{} of {} bytes at {start} are wrong, from {} on",
                wrong.len(),
                payload.len(),
                start + *first as i64
            ),
        })
    }

    /// A window update or a report that the datapath itself sends to the server; `out` as turned.
    pub fn check_update(&mut self, out: &Parsed<'_>) -> Check {
        let t = self.terms;
        ensure(out.payload.is_empty() && out.flags == ACK, "an update that is none", || format!("{out:x?}"))?;
        let (server, client) = ((t.server_ts, self.server_ts), (t.client_ts, self.client_ts));
        self.check_own(out, [t.client_mac, t.server_mac], OWN_TTL, client, server)?;
        if !self.is_insiders {
            for (start, end) in out.sack().map(|(s, e)| (self.offset_of_server(s), self.offset_of_server(e)))
            {
                ensure(0 <= start && start < end && end <= self.client_acked, "a false report", || {
                    format!("[{start}, {end}) twice; the client has acknowledged {}", self.client_acked)
                })?;
            }
            let seq = self.client_offset(out.seq);
            ensure(
                (0..=self.client_sent_end).contains(&seq),
                "an update with a false sequence number",
                || format!("{seq}; the client has sent [0, {})", self.client_sent_end),
            )?;
        }
        self.check_shown(out, false)
    }
}
