//! The bytes in flight of one flow, in the chunks of the store that it holds.

use windlass_core::abi::{self, wl_flow};

const CHUNK_BYTES: u32 = abi::WL_CHUNK_BYTES;
const CHUNKS: u32 = abi::WL_FLOW_CHUNKS;

/// One place for each chunk that a flow may hold; in a chunk, the bytes that were stored.
#[derive(Debug)]
pub struct Bytes {
    /// First byte of the stream, from which places count.
    base: u32,
    chunks: Vec<Option<Box<[Option<u8>]>>>,
}

impl Bytes {
    /// None of a stream that begins with the byte `base`.
    pub fn new(base: u32) -> Bytes {
        Bytes { base, chunks: vec![None; CHUNKS as usize] }
    }

    fn place(&self, seq: u32) -> (usize, usize) {
        let offset = seq.wrapping_sub(self.base);
        ((offset / CHUNK_BYTES % CHUNKS) as usize, (offset % CHUNK_BYTES) as usize)
    }

    fn get(&self, seq: u32) -> Option<u8> {
        let (chunk, at) = self.place(seq);
        self.chunks[chunk].as_ref().and_then(|bytes| bytes[at])
    }

    /// Stores bytes of the stream from `seq` on.
    pub fn store(&mut self, seq: u32, bytes: &[u8]) {
        for (seq, byte) in (0..).map(|i| seq.wrapping_add(i)).zip(bytes) {
            let (chunk, at) = self.place(seq);
            let chunk = self.chunks[chunk].get_or_insert_with(|| vec![None; CHUNK_BYTES as usize].into());
            chunk[at] = Some(*byte);
        }
    }

    /// Do these bytes differ from what is stored from `seq` on? What is not stored is not compared.
    pub fn differ(&self, seq: u32, bytes: &[u8]) -> bool {
        (0..).zip(bytes).any(|(i, byte)| self.get(seq.wrapping_add(i)).is_some_and(|stored| stored != *byte))
    }

    /// `len` stored bytes from `seq` on; none: one of them is not stored.
    pub fn read(&self, seq: u32, len: u32) -> Option<Vec<u8>> {
        (0..len).map(|i| self.get(seq.wrapping_add(i))).collect()
    }

    /// Forgets what stands in chunks that the flow does not hold any more.
    pub fn keep_held(&mut self, flow: &wl_flow) {
        for (bytes, chunk) in self.chunks.iter_mut().zip(flow.chunks) {
            bytes.take_if(|_| chunk == 0);
        }
    }
}
