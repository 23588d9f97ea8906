//! The agent's records of flows: from each datapath's ring into files, and into the metrics' histograms. A thread a datapath reads, so
//! that whatever the agent waits for holds up no record.

use crate::{
    event_log::{About, EventLog},
    metrics::Histograms,
};
use anyhow::{Context, Result};
use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
        mpsc,
    },
    thread::{self, JoinHandle},
    time::Duration,
};
use windlass_agent::{
    FlowRecord, FlowTally, Names, Pinned, RING_BYTES, RecordFiles, RecordReader, SMALL_RING_BYTES,
    flow_words, saved_sums,
};
use windlass_core::abi::wl_flow_record;
use windlass_scenario::printable_path;

/// How long a reader waits for records before it looks whether it should end.
const WAIT: Duration = Duration::from_millis(100);

/// What readers and the agent have in common.
struct Sink {
    /// None: only histograms are made of them.
    files: Option<Mutex<RecordFiles>>,
    names: Mutex<Names>,
    /// By the number of the datapath's clock.
    tallies: Mutex<BTreeMap<u32, FlowTally>>,
    histograms: Arc<Histograms>,
    /// Records that could not be written, as on a full disk.
    unwritten: AtomicU64,
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Sink {
    /// Takes a record of this datapath.
    fn take(&self, number: u32, record: &wl_flow_record) {
        if let Some(files) = &self.files {
            let written = FlowRecord::of(record, &locked(&self.names));
            if locked(files).write(&written).is_err() {
                self.unwritten.fetch_add(1, Ordering::Relaxed);
            }
        }
        let sums = locked(&self.tallies).entry(number).or_default().take(record);
        self.histograms.add(number, record.recorded_us, &sums, || flow_words(&record.key));
    }
}

/// The reader of one datapath's ring.
struct Reader {
    is_over: Arc<AtomicBool>,
    thread: JoinHandle<()>,
}

impl Reader {
    fn start(pinned: &Pinned, sink: Arc<Sink>) -> Result<Reader> {
        let ring_bytes = if sink.files.is_some() { RING_BYTES } else { SMALL_RING_BYTES };
        let ring = pinned.make_records(ring_bytes)?;
        let number = pinned.clock_number();
        let since_us = saved_sums().and_then(|saved| saved.upto_us.get(&number).copied());
        locked(&sink.tallies).insert(number, FlowTally::new(since_us.unwrap_or_default()));
        let is_over = Arc::new(AtomicBool::new(false));
        let ends = is_over.clone();
        let (started, has_started) = mpsc::channel();
        let thread = thread::spawn(move || {
            let reader = match RecordReader::new(ring, move |record| sink.take(number, record)) {
                Ok(reader) => reader,
                Err(why) => return drop(started.send(Some(why))),
            };
            let _ = started.send(None);
            loop {
                let is_last = ends.load(Ordering::Acquire);
                if reader.wait(WAIT).is_err() || is_last {
                    return;
                }
            }
        });
        match has_started.recv() {
            Ok(None) => Ok(Reader { is_over, thread }),
            Ok(Some(why)) => Err(why.into()),
            Err(_) => anyhow::bail!("the reader of flows' records has ended"),
        }
    }

    /// Takes what is in the ring, and ends.
    fn end(self) {
        self.is_over.store(true, Ordering::Release);
        // a thread that has panicked has reported so
        let _ = self.thread.join();
    }
}

/// Records of all flows under the agent's control.
pub struct Recorder {
    sink: Arc<Sink>,
    /// By the number of the datapath's clock.
    readers: BTreeMap<u32, Reader>,
    /// Datapaths whose ring could not be read, which was reported.
    refused: BTreeSet<u32>,
    /// Lost, of each datapath, and unwritten records when they were last reported.
    reported: (BTreeMap<u32, u64>, u64),
    log: EventLog,
}

impl Recorder {
    /// Writes to files in this folder, if there is one, so many bytes in all, and adds to these histograms.
    pub fn new(
        folder: Option<&Path>,
        most_bytes: u64,
        histograms: Arc<Histograms>,
        log: EventLog,
    ) -> Result<Recorder> {
        let open = |folder: &Path| {
            let why = || format!("writing flows' records to {}", printable_path(folder));
            RecordFiles::open(folder, most_bytes).with_context(why)
        };
        let sink = Sink {
            files: folder.map(open).transpose()?.map(Mutex::new),
            names: Mutex::default(),
            tallies: Mutex::default(),
            histograms,
            unwritten: AtomicU64::default(),
        };
        Ok(Recorder {
            sink: Arc::new(sink),
            readers: BTreeMap::new(),
            refused: BTreeSet::new(),
            reported: Default::default(),
            log,
        })
    }

    /// Reads the rings of these interfaces' datapaths, and no others. Reports what was lost since the last call.
    pub fn follow(&mut self, controlled: &[Pinned]) {
        self.note_names(controlled);
        let there: BTreeSet<u32> = controlled.iter().map(Pinned::clock_number).collect();
        let gone: Vec<u32> = self.readers.keys().filter(|number| !there.contains(number)).copied().collect();
        for number in gone {
            self.readers.remove(&number).into_iter().for_each(Reader::end);
            locked(&self.sink.tallies).remove(&number);
        }
        self.refused.retain(|number| there.contains(number));
        for pinned in controlled {
            let number = pinned.clock_number();
            if self.readers.contains_key(&number) || self.refused.contains(&number) {
                continue;
            }
            match Reader::start(pinned, self.sink.clone()) {
                Ok(reader) => drop(self.readers.insert(number, reader)),
                Err(why) => {
                    self.refused.insert(number);
                    let words = format!("no records of its flows: {why:#}");
                    self.log.warn_of(About::Device(pinned.iface()), words);
                }
            }
        }
        self.report_losses(controlled);
        self.sink.histograms.save();
    }

    fn note_names(&self, controlled: &[Pinned]) {
        let groups = controlled.first().and_then(|p| p.groups().ok()).unwrap_or_default();
        let of = |p: &Pinned| (p.ifindex(), (p.iface().to_string(), p.rule_names()));
        let names = Names {
            ifaces: controlled.iter().map(of).collect(),
            groups: groups.into_iter().map(|group| group.name).collect(),
        };
        *locked(&self.sink.names) = names;
    }

    fn report_losses(&mut self, controlled: &[Pinned]) {
        let (lost_before, unwritten_before) = &mut self.reported;
        for pinned in controlled {
            let Ok((_, lost)) = pinned.records_made() else { continue };
            let before = lost_before.entry(pinned.clock_number()).or_insert(lost);
            if lost > *before {
                let more = lost - *before;
                let words = format!("{more} records of flows were lost: more came than were written");
                self.log.warn_of(About::Device(pinned.iface()), words);
                *before = lost;
            }
        }
        let unwritten = self.sink.unwritten.load(Ordering::Relaxed);
        if unwritten > *unwritten_before {
            self.log.warn(format_args!(
                "{} records of flows could not be written: is the disk full?",
                unwritten - *unwritten_before
            ));
            *unwritten_before = unwritten;
        }
    }

    /// Records the flows behind an interface that is about to be released, the last one of its datapath.
    pub fn note_last(&self, pinned: &Pinned) {
        match pinned.last_records() {
            Ok(records) => records.iter().for_each(|record| self.sink.take(pinned.clock_number(), record)),
            Err(why) => {
                self.log.warn_of(About::Device(pinned.iface()), format_args!("no last records: {why}"));
            }
        }
    }

    /// Takes what is in the rings; they go on for the next agent.
    pub fn finish(self) {
        self.readers.into_values().for_each(Reader::end);
        self.sink.histograms.save();
    }
}
