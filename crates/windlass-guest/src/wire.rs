//! What passes over the port between a guest and its host: frames of a fixed header and entries of fixed sizes, all
//! numbers little-endian.
//!
//! ```text
//! header  magic "WLGC"  version u8  kind u8  entries u16  session u64                                       16 bytes
//! report  flow u64  seq u32  op u8  state u8  flags u8  0 u8  cwnd u32  ssthresh u32  srtt_us u32  mss u32
//!         acked u32  acks u32  inflight u32                                                                 44 bytes
//! reply   flow u64  seq u32  result u8  state u8  is_change u8  0 u8  cwnd u32  ssthresh u32                 24 bytes
//! ```
//!
//! The length follows from kind and number of entries, so that nothing on the wire can contradict itself about it.
//! A reader of something else than a frame must report it: see [`Reader`].

/// First bytes of every frame.
pub const MAGIC: [u8; 4] = *b"WLGC";
/// Of this protocol; another one is nonsense to this one.
pub const VERSION: u8 = 1;
/// Most entries of a frame; more go into the next one.
pub const MOST_ENTRIES: usize = 512;
/// Largest window TCP can express (RFC 7323, section 2.3), and "no threshold yet".
pub const CWND_MAX_BYTES: u32 = windlass_core::abi::WL_CWND_MAX_BYTES;

const HEADER_BYTES: usize = 16;
/// Length of a report on the wire.
pub const REPORT_BYTES: usize = 44;
const REPLY_BYTES: usize = 24;

const FLAG_TIMEOUT: u8 = 1 << 0;
const FLAG_CWND_LIMITED: u8 = 1 << 1;

/// What a flow of the guest does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Op {
    /// It starts, or the host has lost sight of it.
    Register = 1,
    /// Its own controller has computed a window.
    Update = 2,
    /// It ends. Not answered.
    Leave = 3,
}

/// Where a flow is, as its own controller sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// Slow start, after a timeout too.
    SlowStart = 0,
    /// Fast recovery, or CWR after an ECN mark.
    Recovery = 1,
    /// Congestion avoidance.
    Avoidance = 2,
}

/// What one flow reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Report {
    /// The guest's own number of the flow.
    pub flow: u64,
    /// Counts the flow's reports, wraps; the reply repeats it.
    pub seq: u32,
    /// What it does.
    pub op: Op,
    /// Where it is.
    pub state: State,
    /// A retransmission timer expired; the state is [`State::SlowStart`].
    pub is_timeout: bool,
    /// The window, not the application, limited sending.
    pub is_cwnd_limited: bool,
    /// What its own controller wants, from the last reply on; 1 to [`CWND_MAX_BYTES`].
    pub cwnd_bytes: u32,
    /// Slow-start threshold; [`CWND_MAX_BYTES`]: none yet.
    pub ssthresh_bytes: u32,
    /// Smoothed round trip; 0: none measured yet.
    pub srtt_us: u32,
    /// Payload of a full segment, 1 to 65535.
    pub mss_bytes: u32,
    /// Newly delivered since the last report.
    pub acked_bytes: u32,
    /// ACKs since the last report.
    pub acks: u32,
    /// Sent, and neither delivered nor lost.
    pub inflight_bytes: u32,
}

/// What became of a report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The flow is coupled; the values are its share.
    Coupled = 0,
    /// The host does not know the flow: it must register (again).
    Unknown = 1,
    /// There is no room for the flow; it goes on by itself.
    Refused = 2,
}

/// What the host answers to one report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reply {
    /// As in the report.
    pub flow: u64,
    /// As in the report.
    pub seq: u32,
    /// Whether the rest counts.
    pub outcome: Outcome,
    /// Where the group is.
    pub state: State,
    /// Otherwise the flow goes on with its own window: it is repairing a loss.
    pub is_change: bool,
    /// Its share, 1 to [`CWND_MAX_BYTES`].
    pub cwnd_bytes: u32,
    /// Its slow-start threshold, 1 to [`CWND_MAX_BYTES`].
    pub ssthresh_bytes: u32,
}

/// One message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Message {
    /// Guest: begins the session that the header names; all before is void.
    Hello,
    /// Host: the session stands.
    Welcome,
    /// Guest: what its flows report, in the order in which it happened.
    Reports(Vec<Report>),
    /// Host: answers.
    Replies(Vec<Reply>),
    /// Either: the session is over. A guest that receives this sends its greeting again.
    Bye,
}

/// A message and the session it belongs to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frame {
    /// Chosen by the guest at random, so that what is left of another session is recognized.
    pub session: u64,
    /// What is reported.
    pub message: Message,
}

/// Something on the port that is no frame.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Nonsense {
    /// Not where a frame should begin.
    #[error("bytes that begin no frame")]
    Magic,
    /// Another protocol.
    #[error("protocol version {0}; this is version {VERSION}")]
    Version(u8),
    /// A kind that version 1 does not have.
    #[error("a message of unknown kind {0}")]
    Kind(u8),
    /// More entries than allowed, or some where there must be none.
    #[error("{0} entries in one message")]
    Entries(u16),
    /// A value out of its range.
    #[error("{field} is {value}")]
    Value {
        /// Which.
        field: &'static str,
        /// What it was.
        value: u64,
    },
}

impl Message {
    const fn kind(&self) -> u8 {
        match self {
            Message::Hello => 1,
            Message::Welcome => 2,
            Message::Reports(_) => 3,
            Message::Replies(_) => 4,
            Message::Bye => 5,
        }
    }
}

fn entry_bytes(kind: u8) -> Result<usize, Nonsense> {
    match kind {
        1 | 2 | 5 => Ok(0),
        3 => Ok(REPORT_BYTES),
        4 => Ok(REPLY_BYTES),
        other => Err(Nonsense::Kind(other)),
    }
}

fn put_report(out: &mut Vec<u8>, r: &Report) {
    let flags =
        if r.is_timeout { FLAG_TIMEOUT } else { 0 } | if r.is_cwnd_limited { FLAG_CWND_LIMITED } else { 0 };
    out.extend(r.flow.to_le_bytes());
    out.extend(r.seq.to_le_bytes());
    out.extend([r.op as u8, r.state as u8, flags, 0]);
    for value in
        [r.cwnd_bytes, r.ssthresh_bytes, r.srtt_us, r.mss_bytes, r.acked_bytes, r.acks, r.inflight_bytes]
    {
        out.extend(value.to_le_bytes());
    }
}

fn put_reply(out: &mut Vec<u8>, r: &Reply) {
    out.extend(r.flow.to_le_bytes());
    out.extend(r.seq.to_le_bytes());
    out.extend([r.outcome as u8, r.state as u8, u8::from(r.is_change), 0]);
    out.extend(r.cwnd_bytes.to_le_bytes());
    out.extend(r.ssthresh_bytes.to_le_bytes());
}

/// Appends the frame to `out`; as several frames if it has more than [`MOST_ENTRIES`].
pub fn encode(session: u64, message: &Message, out: &mut Vec<u8>) {
    let header = |out: &mut Vec<u8>, entries: usize| {
        out.extend(MAGIC);
        out.extend([VERSION, message.kind()]);
        out.extend(u16::try_from(entries).expect("at most MOST_ENTRIES").to_le_bytes());
        out.extend(session.to_le_bytes());
    };
    match message {
        Message::Hello | Message::Welcome | Message::Bye => header(out, 0),
        Message::Reports(all) => {
            for part in all.chunks(MOST_ENTRIES) {
                header(out, part.len());
                part.iter().for_each(|r| put_report(out, r));
            }
        }
        Message::Replies(all) => {
            for part in all.chunks(MOST_ENTRIES) {
                header(out, part.len());
                part.iter().for_each(|r| put_reply(out, r));
            }
        }
    }
}

/// Fields of one entry, in order. The caller has checked that there are enough bytes.
struct Fields<'a>(&'a [u8]);

impl Fields<'_> {
    fn take<const N: usize>(&mut self) -> [u8; N] {
        let (head, rest) = self.0.split_first_chunk().expect("the entry's length was checked");
        self.0 = rest;
        *head
    }

    fn u8(&mut self) -> u8 {
        u8::from_le_bytes(self.take())
    }

    fn u32(&mut self) -> u32 {
        u32::from_le_bytes(self.take())
    }

    fn u64(&mut self) -> u64 {
        u64::from_le_bytes(self.take())
    }

    fn window(&mut self, field: &'static str) -> Result<u32, Nonsense> {
        ranged(field, self.u32(), 1, CWND_MAX_BYTES)
    }

    fn zero(&mut self) -> Result<(), Nonsense> {
        ranged("a reserved byte", u32::from(self.u8()), 0, 0).map(drop)
    }
}

fn ranged(field: &'static str, value: u32, least: u32, most: u32) -> Result<u32, Nonsense> {
    if (least..=most).contains(&value) {
        Ok(value)
    } else {
        Err(Nonsense::Value { field, value: value.into() })
    }
}

fn state(byte: u8) -> Result<State, Nonsense> {
    [State::SlowStart, State::Recovery, State::Avoidance]
        .into_iter()
        .find(|s| *s as u8 == byte)
        .ok_or(Nonsense::Value { field: "state", value: byte.into() })
}

fn get_report(f: &mut Fields) -> Result<Report, Nonsense> {
    let (flow, seq, op) = (f.u64(), f.u32(), f.u8());
    let op = [Op::Register, Op::Update, Op::Leave]
        .into_iter()
        .find(|o| *o as u8 == op)
        .ok_or(Nonsense::Value { field: "op", value: op.into() })?;
    let state = state(f.u8())?;
    let flags = ranged("flags", f.u8().into(), 0, (FLAG_TIMEOUT | FLAG_CWND_LIMITED).into())? as u8;
    f.zero()?;
    let is_timeout = flags & FLAG_TIMEOUT != 0;
    if is_timeout && state != State::SlowStart {
        return Err(Nonsense::Value { field: "state after a timeout", value: state as u64 });
    }
    Ok(Report {
        flow,
        seq,
        op,
        state,
        is_timeout,
        is_cwnd_limited: flags & FLAG_CWND_LIMITED != 0,
        cwnd_bytes: f.window("cwnd")?,
        ssthresh_bytes: f.window("ssthresh")?,
        srtt_us: f.u32(),
        mss_bytes: ranged("mss", f.u32(), 1, 0xffff)?,
        acked_bytes: f.u32(),
        acks: f.u32(),
        inflight_bytes: f.u32(),
    })
}

fn get_reply(f: &mut Fields) -> Result<Reply, Nonsense> {
    let (flow, seq, outcome) = (f.u64(), f.u32(), f.u8());
    let outcome = [Outcome::Coupled, Outcome::Unknown, Outcome::Refused]
        .into_iter()
        .find(|o| *o as u8 == outcome)
        .ok_or(Nonsense::Value { field: "outcome", value: outcome.into() })?;
    let state = state(f.u8())?;
    let is_change = ranged("is_change", f.u8().into(), 0, 1)? == 1;
    f.zero()?;
    let (cwnd_bytes, ssthresh_bytes) = (f.window("cwnd")?, f.window("ssthresh")?);
    Ok(Reply { flow, seq, outcome, state, is_change, cwnd_bytes, ssthresh_bytes })
}

/// Kind, number of entries and length of the frame that `bytes` begins with; none: more bytes are needed.
fn head(bytes: &[u8]) -> Result<Option<(u8, usize, usize)>, Nonsense> {
    let begun = bytes.len().min(MAGIC.len());
    if bytes[..begun] != MAGIC[..begun] {
        return Err(Nonsense::Magic);
    }
    if bytes.get(4).is_some_and(|v| *v != VERSION) {
        return Err(Nonsense::Version(bytes[4]));
    }
    let Some(kind) = bytes.get(5) else { return Ok(None) };
    let each = entry_bytes(*kind)?;
    let Some(Ok(count)) = bytes.get(6..8).map(<[u8; 2]>::try_from) else { return Ok(None) };
    let count = u16::from_le_bytes(count);
    let is_empty = count == 0;
    if usize::from(count) > MOST_ENTRIES || is_empty != (each == 0) {
        return Err(Nonsense::Entries(count));
    }
    Ok(Some((*kind, count.into(), HEADER_BYTES + each * usize::from(count))))
}

/// Cuts a stream of bytes into frames.
///
/// A stream that has gone wrong cannot be trusted to have its next frame where one seems to begin: after [`Nonsense`]
/// everything is skipped up to a message that begins a session, or ends it ([`Message::Hello`], [`Message::Welcome`],
/// [`Message::Bye`]). A new reader begins like that, since a port may hold what is left of an earlier session.
#[derive(Debug, Default)]
pub struct Reader {
    bytes: Vec<u8>,
    /// Where what was not read yet begins.
    at: usize,
    is_synced: bool,
}

impl Reader {
    /// Takes what has arrived.
    pub fn push(&mut self, bytes: &[u8]) {
        // once for each read and not for each frame, of which a read may hold thousands
        self.bytes.drain(..std::mem::take(&mut self.at));
        self.bytes.extend_from_slice(bytes);
    }

    /// The next frame; none: more bytes are needed.
    pub fn next_frame(&mut self) -> Result<Option<Frame>, Nonsense> {
        if !self.is_synced {
            self.skip_to_session();
        }
        let result = self.frame();
        if result.is_err() {
            self.is_synced = false;
        }
        result
    }

    fn frame(&mut self) -> Result<Option<Frame>, Nonsense> {
        let bytes = &self.bytes[self.at..];
        let Some((kind, count, length)) = head(bytes)? else { return Ok(None) };
        if bytes.len() < length {
            return Ok(None);
        }
        let session = Fields(&bytes[8..HEADER_BYTES]).u64();
        let mut fields = Fields(&bytes[HEADER_BYTES..length]);
        let message = match kind {
            1 => Message::Hello,
            2 => Message::Welcome,
            3 => Message::Reports((0..count).map(|_| get_report(&mut fields)).collect::<Result<_, _>>()?),
            4 => Message::Replies((0..count).map(|_| get_reply(&mut fields)).collect::<Result<_, _>>()?),
            _ => Message::Bye,
        };
        self.at += length;
        self.is_synced = true;
        Ok(Some(Frame { session, message }))
    }

    /// Drops what is before the first message without entries, or before what may become one.
    fn skip_to_session(&mut self) {
        let begins = |rest: &[u8]| match head(rest) {
            Ok(Some((_, count, _))) => count == 0,
            Ok(None) => true,
            Err(_) => false,
        };
        let end = self.bytes.len();
        self.at = (self.at..end).find(|at| begins(&self.bytes[*at..])).unwrap_or(end);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn any_state() -> impl Strategy<Value = State> {
        prop_oneof![Just(State::SlowStart), Just(State::Recovery), Just(State::Avoidance)]
    }

    prop_compose! {
        fn any_report()(
            (flow, seq, srtt_us, acked_bytes, acks, inflight_bytes) in any::<(u64, u32, u32, u32, u32, u32)>(),
            op in prop_oneof![Just(Op::Register), Just(Op::Update), Just(Op::Leave)],
            state in any_state(),
            (timeout, is_cwnd_limited) in any::<(bool, bool)>(),
            cwnd_bytes in 1..=CWND_MAX_BYTES,
            ssthresh_bytes in 1..=CWND_MAX_BYTES,
            mss_bytes in 1..=0xffffu32,
        ) -> Report {
            let is_timeout = timeout && state == State::SlowStart;
            Report {
                flow, seq, op, state, is_timeout, is_cwnd_limited, cwnd_bytes, ssthresh_bytes, srtt_us, mss_bytes,
                acked_bytes, acks, inflight_bytes,
            }
        }
    }

    prop_compose! {
        fn any_reply()(
            (flow, seq, is_change) in any::<(u64, u32, bool)>(),
            outcome in prop_oneof![Just(Outcome::Coupled), Just(Outcome::Unknown), Just(Outcome::Refused)],
            state in any_state(),
            cwnd_bytes in 1..=CWND_MAX_BYTES,
            ssthresh_bytes in 1..=CWND_MAX_BYTES,
        ) -> Reply {
            Reply { flow, seq, outcome, state, is_change, cwnd_bytes, ssthresh_bytes }
        }
    }

    fn any_message() -> impl Strategy<Value = Message> {
        prop_oneof![
            Just(Message::Hello),
            Just(Message::Welcome),
            Just(Message::Bye),
            prop::collection::vec(any_report(), 1..20).prop_map(Message::Reports),
            prop::collection::vec(any_reply(), 1..20).prop_map(Message::Replies),
        ]
    }

    fn encoded(session: u64, messages: &[Message]) -> Vec<u8> {
        let mut bytes = Vec::new();
        messages.iter().for_each(|m| encode(session, m, &mut bytes));
        bytes
    }

    /// All frames, and how often there was nonsense; `step` bytes arrive at a time.
    fn read(reader: &mut Reader, bytes: &[u8], step: usize) -> (Vec<Frame>, usize) {
        let (mut frames, mut nonsense) = (Vec::new(), 0);
        for part in bytes.chunks(step) {
            reader.push(part);
            loop {
                match reader.next_frame() {
                    Ok(Some(frame)) => frames.push(frame),
                    Ok(None) => break,
                    Err(_) => nonsense += 1,
                }
            }
        }
        (frames, nonsense)
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(
            session: u64, messages in prop::collection::vec(any_message(), 0..8), step in 1usize..100,
        ) {
            let mut all = vec![Message::Hello];
            all.extend(messages);
            let (frames, nonsense) = read(&mut Reader::default(), &encoded(session, &all), step);
            let expected: Vec<Frame> = all.into_iter().map(|message| Frame { session, message }).collect();
            prop_assert_eq!((frames, nonsense), (expected, 0));
        }

        #[test]
        fn any_bytes_are_survived_and_what_comes_after_is_understood(
            noise in prop::collection::vec(any::<u8>(), 0..400), step in 1usize..50,
        ) {
            let mut reader = Reader::default();
            read(&mut reader, &encoded(1, &[Message::Hello]), step);
            read(&mut reader, &noise, step);
            prop_assert!(reader.bytes.len() - reader.at <= HEADER_BYTES + MOST_ENTRIES * REPORT_BYTES);
            // more than any frame that the noise may have begun
            let flood = encoded(2, &vec![Message::Bye; MOST_ENTRIES * REPORT_BYTES / HEADER_BYTES + 2]);
            let (frames, _) = read(&mut reader, &flood, 1000);
            prop_assert_eq!(frames.last(), Some(&Frame { session: 2, message: Message::Bye }));
        }

        #[test]
        fn a_changed_byte_is_never_a_panic_and_never_out_of_range(
            messages in prop::collection::vec(any_message(), 1..4), at: prop::sample::Index, with: u8,
        ) {
            let mut bytes = encoded(7, &[Message::Hello]);
            let begin = bytes.len();
            bytes.extend(encoded(7, &messages));
            let at = begin + at.index(bytes.len() - begin);
            bytes[at] = with;
            for frame in read(&mut Reader::default(), &bytes, 64).0 {
                if let Message::Replies(all) = frame.message {
                    for r in all {
                        prop_assert!((1..=CWND_MAX_BYTES).contains(&r.cwnd_bytes));
                        prop_assert!((1..=CWND_MAX_BYTES).contains(&r.ssthresh_bytes));
                    }
                }
            }
        }
    }

    #[test]
    fn what_is_left_of_an_earlier_session_is_skipped() {
        let report = Report {
            flow: 1,
            seq: 1,
            op: Op::Update,
            state: State::Avoidance,
            is_timeout: false,
            is_cwnd_limited: true,
            cwnd_bytes: 14480,
            ssthresh_bytes: 14480,
            srtt_us: 100_000,
            mss_bytes: 1448,
            acked_bytes: 14480,
            acks: 10,
            inflight_bytes: 14480,
        };
        let old = encoded(1, &[Message::Reports(vec![report]), Message::Reports(vec![report])]);
        let mut bytes = old[5..].to_vec();
        bytes.extend(encoded(2, &[Message::Hello]));
        let (frames, nonsense) = read(&mut Reader::default(), &bytes, 7);
        assert_eq!((frames, nonsense), (vec![Frame { session: 2, message: Message::Hello }], 0));
    }

    #[test]
    fn nonsense_is_named() {
        let hello = encoded(1, &[Message::Hello]);
        let changed = |at: usize, with: u8| {
            let mut reader = Reader { is_synced: true, ..Reader::default() };
            let mut bytes = hello.clone();
            bytes[at] = with;
            reader.push(&bytes);
            reader.next_frame().expect_err("nonsense").to_string()
        };
        assert_eq!(changed(0, 0), "bytes that begin no frame");
        assert_eq!(changed(4, 9), "protocol version 9; this is version 1");
        assert_eq!(changed(5, 77), "a message of unknown kind 77");
        assert_eq!(changed(6, 3), "3 entries in one message");
    }

    #[test]
    fn many_entries_become_several_frames() {
        let reply = Reply {
            flow: 1,
            seq: 1,
            outcome: Outcome::Coupled,
            state: State::Avoidance,
            is_change: true,
            cwnd_bytes: 1,
            ssthresh_bytes: 1,
        };
        let bytes = encoded(1, &[Message::Welcome, Message::Replies(vec![reply; MOST_ENTRIES + 1])]);
        let (frames, _) = read(&mut Reader::default(), &bytes, bytes.len());
        assert_eq!(frames.len(), 3);
    }
}
