//! A packet as scripts write it. Numbers count from the initial sequence number of the side that they are of, so that the first byte
//! of a stream is 1; windows are in bytes.

use anyhow::{Context, Result, bail, ensure};
use std::fmt;
use windlass_oracle::wire::{ACK, CWR, ECE, FIN, PSH, RST, SYN, URG};

/// Letters of flags, in the order in which they are written. AE, of accurate ECN, comes between the last two.
const LETTERS: [(char, u8); 7] =
    [('S', SYN), ('F', FIN), ('R', RST), ('P', PSH), ('U', URG), ('E', ECE), ('W', CWR)];
const AE: char = 'A';
const ACKS: char = '.';
const NO_FLAGS: &str = "-";
/// SACK blocks that fit into a header.
const BLOCKS_MAX: usize = 4;
const OPTION_BYTES_MAX: usize = 40;
/// Of payload in one line.
const LENGTH_MAX: u32 = 1 << 20;

/// The timestamps of a packet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Timestamps {
    /// Sent: by the clock of the side that sends it, where timestamps are agreed on. Received: as sent.
    #[default]
    Implied,
    /// It carries none, whatever is agreed on.
    Absent,
    /// Value and echo.
    Given(u32, u32),
}

/// A packet as a line has it. What is left open is `None`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Packet {
    /// As in byte 13 of the header.
    pub flags: u8,
    /// The AE flag of accurate ECN (RFC 9768).
    pub has_ae: bool,
    /// First byte, and the one behind the last.
    pub range: Option<(u32, u32)>,
    /// In place of a range: so many bytes from the next one on that the end has not sent.
    pub next_bytes: Option<u32>,
    /// Acknowledgement.
    pub ack: Option<u32>,
    /// In place of that: so much more than the end has acknowledged so far.
    pub ack_more_bytes: Option<u32>,
    /// Window.
    pub window_bytes: Option<u32>,
    /// Urgent pointer.
    pub urgent: Option<u16>,
    /// SACK blocks, in their order.
    pub sack: Vec<(u32, u32)>,
    /// Timestamps.
    pub timestamps: Timestamps,
    /// MSS option.
    pub mss_bytes: Option<u16>,
    /// Window scale option.
    pub wscale: Option<u8>,
    /// SACK-permitted option.
    pub permits_sack: bool,
    /// Other options, as they are on the wire.
    pub options: Vec<u8>,
    /// It is a super-packet that a network card would cut into segments of so many bytes.
    pub gso_bytes: Option<u32>,
    /// Its payload is not that of the stream at this place.
    pub has_other_bytes: bool,
    /// It comes from neither end: other Ethernet addresses, a TTL of 1, other payload.
    pub is_forged: bool,
    /// A bit of it was damaged on the way: its checksum is wrong.
    pub is_damaged: bool,
}

fn signed(number: u32) -> i64 {
    // a little before the first byte rather than four thousand million behind it
    if number > 0xc000_0000 { i64::from(number as i32) } else { i64::from(number) }
}

fn sequence(word: &str) -> Result<u32> {
    let number: i64 = word.parse().with_context(|| format!("{word}: no sequence number"))?;
    let (least, most) = (i64::from(i32::MIN), i64::from(u32::MAX));
    ensure!((least..=most).contains(&number), "{word}: no sequence number, which are from {least} to {most}");
    Ok(number as u32)
}

fn range(word: &str) -> Result<(u32, u32)> {
    let (start, end) = word.split_once(':').with_context(|| format!("{word}: a range is written 1:1461"))?;
    Ok((sequence(start)?, sequence(end)?))
}

fn number<T: std::str::FromStr>(word: &str, what: &str) -> Result<T> {
    word.parse().ok().with_context(|| format!("{word}: no {what}"))
}

fn length(word: &str) -> Result<u32> {
    let bytes = number(word, "number of bytes")?;
    ensure!((1..=LENGTH_MAX).contains(&bytes), "{word}: from 1 to {LENGTH_MAX} bytes");
    Ok(bytes)
}

fn hex(word: &str) -> Result<Vec<u8>> {
    let is_hex = word.len().is_multiple_of(2) && word.bytes().all(|b| b.is_ascii_hexdigit());
    ensure!(is_hex && !word.is_empty(), "{word}: an option is written in hexadecimal, two digits a byte");
    ensure!(word.len() <= 2 * OPTION_BYTES_MAX, "{word}: options have at most {OPTION_BYTES_MAX} bytes");
    let byte = |at: usize| u8::from_str_radix(&word[at..at + 2], 16).expect("two digits");
    Ok((0..word.len()).step_by(2).map(byte).collect())
}

impl Packet {
    /// Bytes of payload.
    pub fn len(&self) -> u32 {
        self.range.map_or(0, |(start, end)| end.wrapping_sub(start))
    }

    /// Whether it has no payload.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Does it come from neither end, or would the other end discard it unread?
    pub fn is_discarded(&self) -> bool {
        self.is_forged || self.is_damaged
    }

    fn take_flags(&mut self, word: &str) -> Result<()> {
        if word == NO_FLAGS {
            return Ok(());
        }
        for letter in word.chars() {
            match LETTERS.iter().find(|(l, _)| *l == letter) {
                Some((_, flag)) => self.flags |= flag,
                None if letter == AE => self.has_ae = true,
                None if letter == ACKS => self.flags |= ACK,
                None => bail!("{word}: flags are letters of SFRPUEWA and a dot for ACK, or - for none"),
            }
        }
        Ok(())
    }

    /// Reads one, of the words of a line.
    pub fn parse(words: &[&str]) -> Result<Packet> {
        let mut packet = Packet::default();
        let (flags, mut rest) = words.split_first().context("flags are missing")?;
        packet.take_flags(flags)?;
        if let [word, others @ ..] = rest
            && let Some(bytes) = word.strip_prefix('+')
        {
            packet.next_bytes = Some(length(bytes)?);
            rest = others;
        } else if let [word, others @ ..] = rest
            && word.contains(':')
        {
            packet.range = Some(range(word)?);
            ensure!(packet.len() <= LENGTH_MAX, "{word}: the end is before the start, or too far behind it");
            rest = others;
        }
        while let [word, others @ ..] = rest {
            let next = || others.first().copied().with_context(|| format!("{word}: of what?"));
            let used = match *word {
                "sackOK" => {
                    packet.permits_sack = true;
                    0
                }
                "other-bytes" => {
                    packet.has_other_bytes = true;
                    0
                }
                "forged" => {
                    packet.is_forged = true;
                    0
                }
                "damaged" => {
                    packet.is_damaged = true;
                    0
                }
                "ack" => {
                    match next()?.strip_prefix('+') {
                        Some(bytes) => packet.ack_more_bytes = Some(length(bytes)?),
                        None => packet.ack = Some(sequence(next()?)?),
                    }
                    1
                }
                "win" => {
                    packet.window_bytes = Some(number(next()?, "window in bytes")?);
                    1
                }
                "urg" => {
                    packet.urgent = Some(number(next()?, "urgent pointer")?);
                    1
                }
                "mss" => {
                    packet.mss_bytes = Some(number(next()?, "MSS in bytes")?);
                    1
                }
                "wscale" => {
                    packet.wscale = Some(number(next()?, "window scale")?);
                    1
                }
                "gso" => {
                    packet.gso_bytes = Some(number(next()?, "size of a segment in bytes")?);
                    1
                }
                "option" => {
                    packet.options = hex(next()?)?;
                    1
                }
                "sack" => {
                    packet.sack = next()?.split(',').map(range).collect::<Result<_>>()?;
                    ensure!(
                        packet.sack.len() <= BLOCKS_MAX,
                        "a header has room for {BLOCKS_MAX} SACK blocks"
                    );
                    1
                }
                "ts" if next()? == "none" => {
                    packet.timestamps = Timestamps::Absent;
                    1
                }
                "ts" => {
                    let echo = others.get(1).context("timestamps are written: ts VALUE ECHO")?;
                    packet.timestamps =
                        Timestamps::Given(number(next()?, "timestamp")?, number(echo, "timestamp")?);
                    2
                }
                other => bail!("{other}: nothing that a packet has"),
            };
            rest = &others[used..];
        }
        Ok(packet)
    }
}

impl fmt::Display for Packet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut flags: String =
            LETTERS.iter().filter(|(_, flag)| self.flags & flag != 0).map(|(letter, _)| *letter).collect();
        flags.extend(self.has_ae.then_some(AE));
        flags.extend((self.flags & ACK != 0).then_some(ACKS));
        f.write_str(if flags.is_empty() { NO_FLAGS } else { &flags })?;
        let range = |(start, end)| format!("{}:{}", signed(start), signed(end));
        if let Some(bytes) = self.range {
            write!(f, " {}", range(bytes))?;
        }
        if let Some(bytes) = self.next_bytes {
            write!(f, " +{bytes}")?;
        }
        if let Some(bytes) = self.ack_more_bytes {
            write!(f, " ack +{bytes}")?;
        }
        if let Some(ack) = self.ack {
            write!(f, " ack {}", signed(ack))?;
        }
        if let Some(bytes) = self.window_bytes {
            write!(f, " win {bytes}")?;
        }
        if let Some(pointer) = self.urgent {
            write!(f, " urg {pointer}")?;
        }
        if !self.sack.is_empty() {
            let blocks: Vec<String> = self.sack.iter().copied().map(range).collect();
            write!(f, " sack {}", blocks.join(","))?;
        }
        match self.timestamps {
            Timestamps::Implied => {}
            Timestamps::Absent => f.write_str(" ts none")?,
            Timestamps::Given(value, echo) => write!(f, " ts {value} {echo}")?,
        }
        if let Some(bytes) = self.mss_bytes {
            write!(f, " mss {bytes}")?;
        }
        if self.permits_sack {
            f.write_str(" sackOK")?;
        }
        if let Some(shift) = self.wscale {
            write!(f, " wscale {shift}")?;
        }
        if !self.options.is_empty() {
            f.write_str(" option ")?;
            self.options.iter().try_for_each(|byte| write!(f, "{byte:02x}"))?;
        }
        if let Some(bytes) = self.gso_bytes {
            write!(f, " gso {bytes}")?;
        }
        if self.has_other_bytes {
            f.write_str(" other-bytes")?;
        }
        if self.is_forged {
            f.write_str(" forged")?;
        }
        if self.is_damaged {
            f.write_str(" damaged")?;
        }
        Ok(())
    }
}
