//! The ring of flows' records of a pinned datapath: made by the agent that reads it, pinned beside the maps, and so read on by the next
//! agent if that one is killed. Without it the programs keep no ledgers.

use crate::{
    Pinned, Result,
    error::bpf,
    flows::in_use,
    map_value::{bytes_of, from_bytes},
    monotonic::monotonic_long_us,
    object::{pin, pinned_map, pinned_map_if_any},
    persist::{lock::Lock, pin_dir::PinDir},
};
use libbpf_rs::{MapCore, MapFlags, MapHandle, MapType, RingBuffer, RingBufferBuilder, libbpf_sys as sys};
use std::{
    fmt, fs,
    os::fd::{AsFd, AsRawFd},
    time::Duration,
};
use windlass_core::{
    abi::{self, wl_flow_record, wl_ledger, wl_records},
    record_of,
};

/// What the ring is pinned as.
const RING: &str = "flow_records";
/// Room for some 11,000 records, which is what a second of 10,000 short flows makes.
pub const RING_BYTES: u32 = 8 << 20;
/// The same of an agent that writes none to a disk: some 1400. A ring counts twice in the memory of the process that reads it.
pub const SMALL_RING_BYTES: u32 = 1 << 20;

const ZERO: [u8; 4] = 0u32.to_ne_bytes();

/// Reads the records of one datapath.
pub struct RecordReader {
    ring: RingBuffer<'static>,
    // its descriptor is what is waited for
    _map: MapHandle,
}

impl fmt::Debug for RecordReader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RecordReader").finish_non_exhaustive()
    }
}

impl RecordReader {
    /// Hands each record to `take`, in the thread that waits. A record is taken from the ring when `take` has returned: should the
    /// process be killed meanwhile, the next reader has it once more.
    pub fn new(map: MapHandle, mut take: impl FnMut(&wl_flow_record) + 'static) -> Result<RecordReader> {
        let mut builder = RingBufferBuilder::new();
        builder
            .add(&map, move |bytes| {
                if let Some(record) = from_bytes::<wl_flow_record>(bytes) {
                    take(&record);
                }
                0
            })
            .map_err(bpf(WHAT))?;
        let ring = builder.build().map_err(bpf(WHAT))?;
        Ok(RecordReader { ring, _map: map })
    }

    /// Takes all records that are there, or, if there is none, those that come within so long.
    pub fn wait(&self, at_most: Duration) -> Result<()> {
        self.ring.consume().map_err(bpf(WHAT))?;
        match self.ring.poll(at_most) {
            Err(why) if why.kind() == libbpf_rs::ErrorKind::Interrupted => Ok(()),
            polled => polled.map_err(bpf(WHAT)),
        }
    }
}

const WHAT: &str = "reading flows' records";

fn new_ring(bytes: u32) -> Result<MapHandle> {
    let options = sys::bpf_map_create_opts {
        sz: size_of::<sys::bpf_map_create_opts>() as sys::size_t,
        ..Default::default()
    };
    MapHandle::create(MapType::RingBuf, Some(RING), 0, 0, bytes, &options)
        .map_err(bpf("making the ring of flows' records"))
}

/// The maps of a datapath that have to do with records.
pub(crate) struct RecordMaps {
    rings: MapHandle,
    kept: MapHandle,
    ledgers: MapHandle,
    numbers: MapHandle,
}

impl RecordMaps {
    pub(crate) fn pinned_in(pins: &PinDir) -> Result<RecordMaps> {
        let open = |name: &str| pinned_map(&pins.dir().join(name));
        Ok(RecordMaps {
            rings: open("wl_record_rings")?,
            kept: open("wl_ledgers_kept")?,
            ledgers: open("wl_ledgers")?,
            numbers: open("wl_records")?,
        })
    }

    /// Ledgers are kept of these flows (`abi::WL_KEEPS_*`).
    pub(crate) fn keep(&self, which: u32) -> Result<()> {
        self.kept.update(&ZERO, &which.to_ne_bytes(), MapFlags::ANY).map_err(bpf("switching ledgers"))
    }

    pub(crate) fn kept(&self) -> Result<u32> {
        let kept = self.kept.lookup(&ZERO, MapFlags::ANY).map_err(bpf("reading whether ledgers are kept"))?;
        Ok(kept.and_then(|bytes| from_bytes(&bytes)).unwrap_or_default())
    }

    /// Has the ledger of flow `id` kept, though those of others may not be.
    pub(crate) fn ask(&self, id: &[u8]) -> Result<()> {
        let empty = wl_ledger::default();
        match self.ledgers.update(id, bytes_of(&empty), MapFlags::NO_EXIST) {
            Err(why) if why.kind() == libbpf_rs::ErrorKind::AlreadyExists => Ok(()),
            asked => asked.map_err(bpf("asking for a flow's ledger")),
        }
    }

    /// The ledger of flow `id`; none: it has none.
    pub(crate) fn ledger(&self, id: &[u8]) -> Result<Option<wl_ledger>> {
        let ledger = self.ledgers.lookup(id, MapFlags::ANY).map_err(bpf("reading a flow's ledger"))?;
        Ok(ledger.and_then(|bytes| from_bytes(&bytes)))
    }

    /// The ledger of flow `id` is not asked for any more.
    pub(crate) fn forget(&self, id: &[u8]) {
        // it may have gone with its flow
        let _ = self.ledgers.delete(id);
    }

    pub(crate) fn has_ledgers(&self) -> bool {
        self.ledgers.keys().next().is_some()
    }

    fn numbers(&self) -> Result<wl_records> {
        let numbers = self.numbers.lookup(&ZERO, MapFlags::ANY).map_err(bpf("counting records"))?;
        Ok(numbers.and_then(|bytes| from_bytes(&bytes)).unwrap_or_default())
    }
}

impl Pinned {
    /// Has the datapath make records, in a ring of so many bytes, a power of two, if it has none of that size or more yet; returns the
    /// ring. What is in a smaller one is lost.
    pub fn make_records(&self, ring_bytes: u32) -> Result<MapHandle> {
        let _lock = Lock::take("pins")?;
        let maps = RecordMaps::pinned_in(&self.pins)?;
        let ring = match pinned_map_if_any(&self.pins.dir().join(RING))? {
            Some(ring) if ring.max_entries() >= ring_bytes => ring,
            smaller => {
                let ring = new_ring(ring_bytes)?;
                for pins in self.pins.others().chain([self.pins.clone()]) {
                    if smaller.is_some() {
                        let _ = fs::remove_file(pins.dir().join(RING));
                    }
                    pin(ring.as_fd(), &pins.dir().join(RING))?;
                }
                ring
            }
        };
        maps.rings
            .update(&ZERO, &ring.as_fd().as_raw_fd().to_ne_bytes(), MapFlags::ANY)
            .map_err(bpf("giving the datapath its ring of records"))?;
        maps.keep(abi::WL_KEEPS_ALL)?;
        Ok(ring)
    }

    /// The datapath makes no records any more, and what is in the ring is lost.
    pub fn end_records(&self) -> Result<()> {
        let _lock = Lock::take("pins")?;
        if pinned_map_if_any(&self.pins.dir().join(RING))?.is_none() {
            return Ok(());
        }
        let maps = RecordMaps::pinned_in(&self.pins)?;
        maps.keep(abi::WL_KEEPS_NONE)?;
        // there may be none
        let _ = maps.rings.delete(&ZERO);
        let all: Vec<Vec<u8>> = maps.ledgers.keys().collect();
        all.iter().for_each(|id| maps.forget(id));
        for pins in self.pins.others().chain([self.pins.clone()]) {
            let _ = fs::remove_file(pins.dir().join(RING));
        }
        Ok(())
    }

    /// Records of the flows behind the interface, whose last they are, as it is about to be detached.
    /// None of others of its datapath, which goes on and makes records of those that it forgets.
    pub fn last_records(&self) -> Result<Vec<wl_flow_record>> {
        if self.pins.others().next().is_some() {
            return Ok(Vec::new());
        }
        let maps = RecordMaps::pinned_in(&self.pins)?;
        let now_us = monotonic_long_us();
        let records_lost = maps.numbers()?.lost;
        let mut all = Vec::new();
        for flow in in_use(self.map("wl_flow_ids"), self.map("wl_flows"), |index| index == self.ifindex) {
            let (_, id, flow) = flow?;
            if let Some(ledger) = maps.ledger(&id)?.filter(|l| l.base == flow.base && l.began_us != 0) {
                let record = record_of(&flow, &ledger, abi::WL_END_DETACHED, now_us);
                all.push(wl_flow_record { records_lost, ..record });
            }
        }
        Ok(all)
    }

    /// Whether records are made of all flows that begin.
    pub fn keeps_records(&self) -> Result<bool> {
        Ok(RecordMaps::pinned_in(&self.pins)?.kept()? == abi::WL_KEEPS_ALL)
    }

    /// How many records the datapath has made, and how many of them were lost as the ring had no room.
    pub fn records_made(&self) -> Result<(u64, u64)> {
        let numbers = RecordMaps::pinned_in(&self.pins)?.numbers()?;
        Ok((numbers.made, numbers.lost))
    }
}
