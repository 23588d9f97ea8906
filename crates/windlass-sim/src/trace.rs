//! Traces of a run, written as it goes, so that memory does not grow: windows, round-trip times and throughput of flows
//! and queues of links in equal intervals as CSV, what the box wants of them beside it.

use crate::{
    boxed::WindlassBox, fetch::Fetch, network::Network, session::Session, tcp::Phase, time::seconds,
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

/// The window of a flow at one time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    /// Congestion window.
    pub cwnd_segs: u32,
    /// Slow start threshold; none: there was no reason for one yet.
    pub ssthresh_segs: Option<u32>,
    /// In the network.
    pub inflight_segs: u32,
    /// Smoothed round-trip time; 0: none was measured yet.
    pub srtt_us: u64,
}

/// A flow at one time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FlowRow {
    /// When.
    pub at_ns: u64,
    /// Its number in the scenario.
    pub flow: usize,
    /// Of a flow with a connection that it keeps, once that is established.
    pub window: Option<Window>,
    /// Payload that arrived since the look before.
    pub throughput_bps: f64,
}

/// A direction of a link at one time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinkRow {
    /// When.
    pub at_ns: u64,
    /// Its place among [`Scenario::link_names`].
    pub link: usize,
    /// Queued or being sent.
    pub queue_packets: usize,
    /// Dropped by a full buffer, so far.
    pub drops_tail: u64,
    /// Marked CE, so far.
    pub marks: u64,
}

/// Looks at flows and links in equal intervals, and at the end of the run.
#[derive(Debug)]
pub struct Looks {
    /// When the next look is due.
    pub due_ns: u64,
    /// At flows that were going on.
    pub flows: Vec<FlowRow>,
    /// At links.
    pub links: Vec<LinkRow>,
    interval_ns: u64,
    /// When the last look was.
    looked_ns: u64,
    /// Payload of each flow at the last look.
    arrived_bytes: Vec<u64>,
    /// Directions of links that are looked at.
    link_numbers: Vec<usize>,
}

impl Looks {
    /// None yet.
    pub fn new(interval_ns: NonZeroU64, scenario: &Scenario) -> Looks {
        let numbers = (0..2 * scenario.links.len()).filter(|i| scenario.links[i / 2].is_emulated());
        Looks {
            due_ns: interval_ns.get(),
            flows: Vec::new(),
            links: Vec::new(),
            interval_ns: interval_ns.get(),
            looked_ns: 0,
            arrived_bytes: vec![0; scenario.flows.len()],
            link_numbers: numbers.collect(),
        }
    }

    /// Looks at all flows that are going on, and at all links. A flow with a connection for each response has no window
    /// of its own.
    pub fn look(&mut self, scene: &Scene) {
        let Scene { now_ns, scenario, net, fetches, sessions, .. } = *scene;
        let length_s = seconds(now_ns - self.looked_ns).max(1e-9);
        for (flow, (spec, session)) in scenario.flows.iter().zip(sessions).enumerate() {
            let bytes = scene.arrived_bytes[flow] - self.arrived_bytes[flow];
            if session.started_at_ns.is_none() || (session.is_over() && bytes == 0) {
                continue;
            }
            let window = match spec.connections {
                // before the handshake the algorithm has not computed a window
                Connections::Persistent if fetches[flow].ends[1].phase() == Phase::Established => {
                    let sender = &fetches[flow].ends[1].sender;
                    Some(Window {
                        cwnd_segs: sender.cwnd_segs(),
                        ssthresh_segs: sender.ssthresh_segs(),
                        inflight_segs: sender.inflight_segs(),
                        srtt_us: sender.srtt_us(),
                    })
                }
                _ => None,
            };
            let throughput_bps = bytes as f64 * 8.0 / length_s;
            self.flows.push(FlowRow { at_ns: now_ns, flow, window, throughput_bps });
        }
        for (link, number) in self.link_numbers.iter().enumerate() {
            let model = &net.links[*number].model;
            let (queue_packets, stats) = (model.queued_packets(now_ns), &model.stats);
            let (drops_tail, marks) = (stats.drops_tail, stats.marks);
            self.links.push(LinkRow { at_ns: now_ns, link, queue_packets, drops_tail, marks });
        }
        self.arrived_bytes.copy_from_slice(scene.arrived_bytes);
        self.looked_ns = now_ns;
        self.due_ns += self.interval_ns;
    }
}

/// The tables of a trace.
#[derive(Debug)]
pub struct Trace {
    flows: BufWriter<File>,
    links: BufWriter<File>,
    responses: BufWriter<File>,
    /// None: there is no box.
    boxed: Option<BufWriter<File>>,
    looks: Looks,
    /// Names of the directions of links that are looked at.
    link_names: Vec<String>,
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
    pub fn new(options: &TraceOptions, scenario: &Scenario) -> io::Result<Trace> {
        let folder = options.folder;
        fs::create_dir_all(folder)?;
        let boxed = scenario
            .windlass
            .as_ref()
            .map(|_| table(&folder.join("box.csv"), &format!("time_s,flow,name,{BOX_COLUMNS}")));
        Ok(Trace {
            flows: table(
                &folder.join("flows.csv"),
                "time_s,flow,name,cwnd_segs,ssthresh_segs,inflight_segs,srtt_us,throughput_bps",
            )?,
            links: table(&folder.join("links.csv"), "time_s,link,queue_packets,drops_tail,marks")?,
            responses: table(&folder.join("responses.csv"), "flow,name,asked_s,took_s,bytes")?,
            boxed: boxed.transpose()?,
            looks: Looks::new(options.interval_ns, scenario),
            link_names: scenario.link_names(),
            error: None,
        })
    }

    /// When the next look is due.
    pub fn due_ns(&self) -> u64 {
        self.looks.due_ns
    }

    /// Looks at all flows and links; what goes wrong is reported at the end.
    pub fn look(&mut self, scene: &Scene) {
        self.looks.look(scene);
        if self.error.is_none() {
            self.error = self.write_look(scene).err();
        }
        self.looks.flows.clear();
        self.looks.links.clear();
    }

    fn write_look(&mut self, scene: &Scene) -> io::Result<()> {
        for FlowRow { at_ns, flow, window, throughput_bps } in &self.looks.flows {
            let spec = &scene.scenario.flows[*flow];
            let row = format!("{:.9},{flow},{},", seconds(*at_ns), spec.name());
            write!(self.flows, "{row}")?;
            match window {
                Some(Window { cwnd_segs, ssthresh_segs, inflight_segs, srtt_us }) => {
                    let ssthresh = ssthresh_segs.map_or(String::new(), |s| s.to_string());
                    write!(self.flows, "{cwnd_segs},{ssthresh},{inflight_segs},{srtt_us}")?;
                }
                None => write!(self.flows, ",,,")?,
            }
            writeln!(self.flows, ",{throughput_bps:.0}")?;
            let seen = scene.boxed.filter(|_| spec.connections == Connections::Persistent);
            if let (Some(table), Some(known)) = (&mut self.boxed, seen.and_then(|b| b.flow(*flow))) {
                writeln!(table, "{row}{}", box_columns(known))?;
            }
        }
        for LinkRow { at_ns, link, queue_packets, drops_tail, marks } in &self.looks.links {
            let (time_s, name) = (seconds(*at_ns), &self.link_names[*link]);
            writeln!(self.links, "{time_s:.9},{name},{queue_packets},{drops_tail},{marks}")?;
        }
        Ok(())
    }

    /// Ends the files.
    pub fn finish(mut self, report: &RunReport) -> io::Result<()> {
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
        self.error.map_or(Ok(()), Err)
    }
}
