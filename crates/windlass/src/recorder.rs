//! The agent's records of flows: from each datapath's ring into files. A thread a datapath reads, so that whatever the agent waits for
//! holds up no record.

use crate::event_log::{About, EventLog};
use anyhow::{Context, Result};
use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
        mpsc,
    },
    thread::{self, JoinHandle},
    time::Duration,
};
use windlass_agent::{FlowRecord, Names, Pinned, RING_BYTES, RecordFiles, RecordReader};
use windlass_scenario::printable_path;

/// How long a reader waits for records before it looks whether it should end.
const WAIT: Duration = Duration::from_millis(100);

/// What readers and the agent have in common.
struct Sink {
    files: Mutex<RecordFiles>,
    names: Mutex<Names>,
    /// Records that could not be written, as on a full disk.
    unwritten: AtomicU64,
}

impl Sink {
    fn write(&self, record: &FlowRecord) {
        let mut files = self.files.lock().unwrap_or_else(PoisonError::into_inner);
        if files.write(record).is_err() {
            self.unwritten.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn names(&self) -> Names {
        self.names.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// The reader of one datapath's ring.
struct Reader {
    is_over: Arc<AtomicBool>,
    thread: JoinHandle<()>,
}

impl Reader {
    fn start(pinned: &Pinned, sink: Arc<Sink>) -> Result<Reader> {
        let ring = pinned.make_records(RING_BYTES)?;
        let is_over = Arc::new(AtomicBool::new(false));
        let ends = is_over.clone();
        let (started, has_started) = mpsc::channel();
        let thread = thread::spawn(move || {
            let take = move |record: &_| {
                let names = sink.names.lock().unwrap_or_else(PoisonError::into_inner);
                let record = FlowRecord::of(record, &names);
                drop(names);
                sink.write(&record);
            };
            let reader = match RecordReader::new(ring, take) {
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
    /// Writes to files in this folder, so many bytes in all.
    pub fn new(folder: &Path, most_bytes: u64, log: EventLog) -> Result<Recorder> {
        let files = RecordFiles::open(folder, most_bytes)
            .with_context(|| format!("writing flows' records to {}", printable_path(folder)))?;
        let sink =
            Sink { files: Mutex::new(files), names: Mutex::default(), unwritten: AtomicU64::default() };
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
        gone.iter().filter_map(|number| self.readers.remove(number)).for_each(Reader::end);
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
    }

    fn note_names(&self, controlled: &[Pinned]) {
        let groups = controlled.first().and_then(|p| p.groups().ok()).unwrap_or_default();
        let of = |p: &Pinned| (p.ifindex(), (p.iface().to_string(), p.rule_names()));
        let names = Names {
            ifaces: controlled.iter().map(of).collect(),
            groups: groups.into_iter().map(|group| group.name).collect(),
        };
        *self.sink.names.lock().unwrap_or_else(PoisonError::into_inner) = names;
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
        match pinned.last_records(&self.sink.names()) {
            Ok(records) => records.iter().for_each(|record| self.sink.write(record)),
            Err(why) => {
                self.log.warn_of(About::Device(pinned.iface()), format_args!("no last records: {why}"));
            }
        }
    }

    /// Takes what is in the rings; they go on for the next agent.
    pub fn finish(self) {
        self.readers.into_values().for_each(Reader::end);
    }
}
