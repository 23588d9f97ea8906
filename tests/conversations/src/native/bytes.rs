//! The bytes in flight of one flow, in the blocks and chunks of the store that it holds.

use std::collections::HashMap;
use windlass_core::abi::{self, wl_flow};

const BLOCK_BYTES: u32 = abi::WL_BLOCK_BYTES;
const BLOCKS: u32 = abi::WL_FLOW_STORE_BYTES / BLOCK_BYTES;
const BLOCKS_OF_TABLE: u32 = abi::WL_TABLE_CHUNKS * abi::WL_CHUNK_BLOCKS;

/// By block of the stream, the bytes that were stored.
#[derive(Debug)]
pub struct Bytes {
    /// First byte of the stream, from which places count.
    base: u32,
    blocks: HashMap<u32, Box<[Option<u8>]>>,
}

impl Bytes {
    /// None of a stream that begins with the byte `base`.
    pub fn new(base: u32) -> Bytes {
        Bytes { base, blocks: HashMap::new() }
    }

    fn place(&self, seq: u32) -> (u32, usize) {
        let offset = seq.wrapping_sub(self.base);
        (offset / BLOCK_BYTES % BLOCKS, (offset % BLOCK_BYTES) as usize)
    }

    fn get(&self, seq: u32) -> Option<u8> {
        let (block, at) = self.place(seq);
        self.blocks.get(&block).and_then(|bytes| bytes[at])
    }

    /// Stores bytes of the stream from `seq` on.
    pub fn store(&mut self, seq: u32, bytes: &[u8]) {
        for (seq, byte) in (0..).map(|i| seq.wrapping_add(i)).zip(bytes) {
            let (block, at) = self.place(seq);
            let block = self.blocks.entry(block).or_insert_with(|| vec![None; BLOCK_BYTES as usize].into());
            block[at] = Some(*byte);
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

    /// Forgets what stands in blocks and chunks that the flow does not hold any more.
    pub fn keep_held(&mut self, flow: &wl_flow) {
        let (first, _) = self.place(flow.una_seg);
        let in_flight = (flow.nxt.wrapping_sub(flow.una_seg)).div_ceil(BLOCK_BYTES) + 1;
        self.blocks.retain(|&block, _| {
            let held = flow.blocks[(block % abi::WL_FLOW_BLOCKS) as usize];
            let is_block = held & ((1 << abi::WL_BLOCK_BITS) - 1) != 0
                && held >> abi::WL_BLOCK_BITS == block / abi::WL_CHUNK_BLOCKS;
            let is_chunk = flow.tables[(block / BLOCKS_OF_TABLE) as usize] != 0;
            block.wrapping_sub(first) % BLOCKS < in_flight && (is_block || is_chunk)
        });
    }
}
