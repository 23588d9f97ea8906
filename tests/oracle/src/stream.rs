//! What a stream consists of: a function of the connection's key and the offset, so that whether a byte is where it
//! belongs is known without keeping any.

/// A stream's key. Two keys agree in a byte at one offset as often as random bytes do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Key(pub u64);

impl Key {
    /// The stream of another content at the same offsets: what a server that changes its mind, or a forger, sends.
    pub fn variant(self, number: u64) -> Key {
        Key(self.0 ^ number.wrapping_mul(0xa076_1d64_78bd_642f))
    }

    fn eight_at(self, index: i64) -> [u8; 8] {
        let mut x = self.0.wrapping_add((index as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15));
        x ^= x >> 32;
        x = x.wrapping_mul(0xd6e8_feb8_6659_fd93);
        x ^= x >> 29;
        x.to_le_bytes()
    }

    /// The byte at `offset`.
    pub fn byte(self, offset: i64) -> u8 {
        self.eight_at(offset >> 3)[(offset & 7) as usize]
    }

    /// Appends the `len` bytes from `offset` on.
    pub fn append(self, offset: i64, len: usize, to: &mut Vec<u8>) {
        let end = to.len() + len;
        let skipped = (offset & 7) as usize;
        let mut index = offset >> 3;
        if skipped != 0 {
            to.extend_from_slice(&self.eight_at(index)[skipped..]);
            index += 1;
        }
        while to.len() < end {
            to.extend_from_slice(&self.eight_at(index));
            index += 1;
        }
        to.truncate(end);
    }

    /// Where the bytes first differ from the stream's from `offset` on; none: nowhere.
    pub fn first_difference(self, offset: i64, bytes: &[u8]) -> Option<usize> {
        let to_word = ((8 - (offset & 7)) & 7) as usize;
        let (first, rest) = bytes.split_at(to_word.min(bytes.len()));
        if let Some(at) = first.iter().enumerate().position(|(i, b)| *b != self.byte(offset + i as i64)) {
            return Some(at);
        }
        let mut at = first.len();
        for chunk in rest.chunks(8) {
            let word = self.eight_at((offset + at as i64) >> 3);
            if *chunk != word[..chunk.len()] {
                return chunk.iter().zip(word).position(|(a, b)| *a != b).map(|i| at + i);
            }
            at += chunk.len();
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stream_is_the_same_from_any_offset() {
        let key = Key(77);
        let mut whole = Vec::new();
        key.append(-3, 100, &mut whole);
        for from in 0..40 {
            for len in 0..40 {
                let mut part = Vec::new();
                key.append(-3 + from, len, &mut part);
                assert_eq!(part, whole[from as usize..][..len]);
                assert_eq!(key.first_difference(-3 + from, &part), None);
                for at in 0..len {
                    part[at] ^= 1;
                    assert_eq!(key.first_difference(-3 + from, &part), Some(at));
                    part[at] ^= 1;
                }
            }
        }
    }
}
