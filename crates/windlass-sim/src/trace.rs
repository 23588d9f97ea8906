//! Traces of a run, written as it goes, so that memory does not grow: windows, round-trip times and throughput of flows
//! and queues of links in equal intervals as CSV, what the box wants of them beside it, and the captures of the [`Tap`].

use crate::{
    boxed::WindlassBox,
    fetch::Fetch,
    network::Network,
    session::Session,
    tap::Tap,
    tcp::{Config, Phase},
    time::seconds,
};
use std::{
    fs::{self, File},
    io::{self, BufWriter, Write},
    num::NonZeroU64,
    path::Path,
};
use windlass_core::Flow as BoxFlow;
use windlass_scenario::{Connections, Response, RunReport, Scenario};

/// What to trace.
#[derive(Clone, Copy, Debug)]
pub struct TraceOptions<'a> {
    /// Folder for the files, made if need be.
    pub folder: &'a Path,
    /// Time from one look at flows and links to the next.
    pub interval_ns: NonZeroU64,
}

/// The tables of a trace.
#[derive(Debug)]
pub struct Trace {
    flows: BufWriter<File>,
    links: BufWriter<File>,
    responses: BufWriter<File>,
    /// None: there is no box.
    boxed: Option<BufWriter<File>>,
    /// When the next look is due.
    pub due_ns: u64,
    interval_ns: u64,
    /// When the last look was.
    looked_ns: u64,
    /// Payload of each flow at the last look.
    arrived_bytes: Vec<u64>,
    /// Names of the directions of links that are looked at, with their numbers.
    link_names: Vec<(usize, String)>,
    error: Option<io::Error>,
}

fn table(path: &Path, header: &str) -> io::Result<BufWriter<File>> {
    let mut file = BufWriter::new(File::create(path)?);
    writeln!(file, "{header}")?;
    Ok(file)
}

/// What there is to be seen at one time.
pub struct Scene<'a> {
    pub now_ns: u64,
    pub scenario: &'a Scenario,
    pub net: &'a Network,
    pub fetches: &'a [Fetch],
    pub sessions: &'a [Session],
    pub boxed: Option<&'a WindlassBox>,
    /// Payload of each flow that its client has.
    pub arrived_bytes: &'a [u64],
}

const BOX_COLUMNS: &str = "cwnd_segs,pacing_bps,inflight_segs,sacked_segs,lost_segs,srtt_us,min_rtt_us";

/// What the box wants of a flow, and what it knows.
fn box_columns(flow: &BoxFlow) -> String {
    let state = flow.state();
    let segs = |bytes: u32| bytes / u32::from(state.mss_bytes);
    let cwnd = segs(state.decision.cwnd_bytes);
    let pacing = state.decision.rate_bytes_ps().map_or(String::new(), |bytes_ps| (8 * bytes_ps).to_string());
    let [inflight, sacked, lost] = [flow.pipe_bytes(), state.sacked_bytes, state.lost_bytes].map(segs);
    format!("{cwnd},{pacing},{inflight},{sacked},{lost},{},{}", state.srtt_us, state.min_rtt_us)
}

impl Trace {
    /// Begins the files of a trace.
    pub fn new(options: &TraceOptions, scenario: &Scenario, config: &Config) -> io::Result<(Trace, Tap)> {
        let folder = options.folder;
        fs::create_dir_all(folder)?;
        let numbers = (0..2 * scenario.links.len()).filter(|i| scenario.links[i / 2].is_emulated());
        let interval_ns = options.interval_ns.get();
        let boxed = scenario
            .windlass
            .as_ref()
            .map(|_| table(&folder.join("box.csv"), &format!("time_s,flow,name,{BOX_COLUMNS}")));
        let trace = Trace {
            flows: table(
                &folder.join("flows.csv"),
                "time_s,flow,name,cwnd_segs,ssthresh_segs,inflight_segs,srtt_us,throughput_bps",
            )?,
            links: table(&folder.join("links.csv"), "time_s,link,queue_packets,drops_tail,marks")?,
            responses: table(&folder.join("responses.csv"), "flow,name,asked_s,took_s,bytes")?,
            boxed: boxed.transpose()?,
            due_ns: interval_ns,
            interval_ns,
            looked_ns: 0,
            arrived_bytes: vec![0; scenario.flows.len()],
            link_names: numbers.zip(scenario.link_names()).collect(),
            error: None,
        };
        Ok((trace, Tap::new(folder, config)?))
    }

    /// Looks at all flows and links; what goes wrong is reported at the end.
    pub fn look(&mut self, scene: &Scene) {
        if self.error.is_none() {
            self.error = self.write_look(scene).err();
        }
        self.arrived_bytes.copy_from_slice(scene.arrived_bytes);
        self.looked_ns = scene.now_ns;
        self.due_ns += self.interval_ns;
    }

    /// Looks at all flows that are going on, and at all links. A flow with a connection for each response has no window
    /// of its own.
    fn write_look(&mut self, scene: &Scene) -> io::Result<()> {
        let Scene { now_ns, scenario, net, fetches, sessions, .. } = *scene;
        let time_s = seconds(now_ns);
        let length_s = seconds(now_ns - self.looked_ns).max(1e-9);
        for (index, (flow, session)) in scenario.flows.iter().zip(sessions).enumerate() {
            let bytes = scene.arrived_bytes[index] - self.arrived_bytes[index];
            if session.started_at_ns.is_none() || (session.is_over() && bytes == 0) {
                continue;
            }
            let row = format!("{time_s:.9},{index},{},", flow.name());
            write!(self.flows, "{row}")?;
            match flow.connections {
                // before the handshake the algorithm has not computed a window
                Connections::Persistent if fetches[index].ends[1].phase() == Phase::Established => {
                    let sender = &fetches[index].ends[1].sender;
                    let ssthresh = sender.ssthresh_segs().map_or(String::new(), |s| s.to_string());
                    let (cwnd, inflight) = (sender.cwnd_segs(), sender.inflight_segs());
                    write!(self.flows, "{cwnd},{ssthresh},{inflight},{}", sender.srtt_us())?;
                }
                _ => write!(self.flows, ",,,")?,
            }
            writeln!(self.flows, ",{:.0}", bytes as f64 * 8.0 / length_s)?;
            let seen = scene.boxed.filter(|_| flow.connections == Connections::Persistent);
            if let (Some(table), Some(known)) = (&mut self.boxed, seen.and_then(|b| b.flow(index))) {
                writeln!(table, "{row}{}", box_columns(known))?;
            }
        }
        for (number, name) in &self.link_names {
            let model = &net.links[*number].model;
            let (queue, stats) = (model.queued_packets(now_ns), &model.stats);
            writeln!(self.links, "{time_s:.9},{name},{queue},{},{}", stats.drops_tail, stats.marks)?;
        }
        Ok(())
    }

    /// Ends the files.
    pub fn finish(mut self, tap: Option<Box<Tap>>, report: &RunReport) -> io::Result<()> {
        for (index, flow) in report.flows.iter().enumerate() {
            // of a flow that is one response the report has no list: its times are the flow's
            let only = flow.completion_s.filter(|_| flow.responses.is_empty());
            let only = only.map(|took_s| Response { asked_s: flow.started_s, took_s, bytes: flow.bytes });
            for r in flow.responses.iter().chain(&only) {
                let name = &flow.name;
                writeln!(self.responses, "{index},{name},{:.9},{:.9},{}", r.asked_s, r.took_s, r.bytes)?;
            }
        }
        for file in [&mut self.flows, &mut self.links, &mut self.responses].into_iter().chain(&mut self.boxed)
        {
            file.flush()?;
        }
        match self.error {
            Some(error) => Err(error),
            None => tap.map_or(Ok(()), |tap| tap.finish()),
        }
    }
}
