//! The native home: native load, unload and list, attach --native, detach --cgroup, and the agent's part.

use crate::{
    algorithm,
    args::{AttachArgs, NativeCommand},
    control::{WATCH, first_error},
    event_log::{About, EventLog},
    health::Health,
    print,
    retries::Retries,
    signals::{self, Wish},
};
use anyhow::{Result, bail};
use serde::Serialize;
use serde_json::{Value, json};
use std::{
    fs::File,
    io, mem,
    os::{fd::AsFd, unix::fs::FileTypeExt},
    path::{Path, PathBuf},
    process::ExitCode,
    sync::mpsc::RecvTimeoutError,
};
use windlass_agent::{
    CoupledStats, Coupling, Duty, Error, GroupInfo, Mode, Native, PinnedSelector, Policy, Selector,
    check_root, confine,
    native::{
        check_prefix, ensure_loaded, is_still_loaded, list, prefixes, release_and_unload, release_orphans,
        unload_unused,
    },
    remove_gone_cgroups, root_cgroup,
};
use windlass_scenario::{Parameters, printable_path};

/// The default congestion control of the namespace.
const DEFAULT: &str = "/proc/sys/net/ipv4/tcp_congestion_control";
/// Reported of a cgroup that had been under control.
const GONE: &str = "the cgroup is gone";

pub fn native(command: NativeCommand) -> Result<ExitCode> {
    match command {
        NativeCommand::Load { names, path, hold: true, log, json } => {
            hold(&names.prefix, &path.parameters()?, EventLog::new(&log, json))?;
        }
        NativeCommand::Load { names, path, hold: false, log, json } => {
            let parameters = path.parameters()?;
            let is_new = if parameters == Parameters::default() {
                ensure_loaded(&names.prefix)?
            } else {
                // what is there may have other parameters
                Native::load_with(&names.prefix, &parameters)?.into_pinned()?;
                true
            };
            let mine = list()?.into_iter().map(|i| i.name).filter(|n| n.starts_with(&names.prefix));
            say_loaded(is_new, &mine.collect::<Vec<_>>(), EventLog::new(&log, json));
        }
        NativeCommand::Unload { names, json } => remove(&names.prefix, json)?,
        NativeCommand::List { json } => show(json)?,
    }
    Ok(ExitCode::SUCCESS)
}

fn say_loaded(is_new: bool, names: &[String], log: EventLog) {
    let words = format!("{}: {}", if is_new { "loaded" } else { "loaded already" }, names.join(", "));
    log.must_reach("loaded", About::Command, &words, || json!({ "is_new": is_new, "loaded": names }));
}

fn remove(prefix: &str, json: bool) -> Result<()> {
    // before anything is released
    check_prefix(prefix)?;
    check_root("unloading congestion control")?;
    let (released, unloaded) = release_and_unload(prefix);
    if !json {
        released.iter().for_each(|cgroup| print::line(format_args!("{}: released", printable_path(cgroup))));
    }
    let unloaded = unloaded?;
    if json {
        println!("{}", json!({ "released": released, "unloaded": unloaded }));
    } else {
        unloaded.iter().for_each(|i| {
            print::line(format_args!("{}: unloaded; {}", i.name, left(i.sockets, i.algorithm)))
        });
    }
    let default = std::fs::read_to_string(DEFAULT).unwrap_or_default();
    if default.starts_with(prefix) {
        tracing::warn!(
            "{} is still the default here, and means the kernel's own; `sysctl -w \
             net.ipv4.tcp_congestion_control=cubic` changes it",
            default.trim()
        );
    }
    Ok(())
}

fn left(sockets: u64, algorithm: &str) -> String {
    match sockets {
        0 => "no socket used it".into(),
        n => format!("{n} socket(s) go over to the kernel's own {algorithm}"),
    }
}

fn show(json: bool) -> Result<()> {
    check_root("looking at what is loaded")?;
    let all = list()?;
    let selectors = PinnedSelector::all();
    let cgroups: Vec<_> = selectors.iter().filter_map(|s| s.info().transpose()).collect::<Result<_, _>>()?;
    let groups = Groups::of_all()?;
    if json {
        println!("{}", json!({ "native": all, "cgroups": cgroups, "groups": groups }));
        return Ok(());
    }
    let rows: Vec<Vec<String>> = all
        .iter()
        .map(|i| {
            vec![
                i.name.clone(),
                i.algorithm.into(),
                i.sockets.to_string(),
                i.started.to_string(),
                i.handed_back.to_string(),
            ]
        })
        .collect();
    print::table(&["name", "algorithm", "sockets", "so far", "handed back"], &rows);
    for c in cgroups {
        print::line(format_args!(
            "{}: {} socket(s) got the algorithm of their rule, {} could not, {} were left alone",
            printable_path(&c.cgroup),
            c.chosen,
            c.refused,
            c.unmatched
        ));
    }
    groups.iter().for_each(Groups::print);
    Ok(())
}

/// The groups of the algorithms under one prefix.
#[derive(Serialize)]
struct Groups {
    prefix: String,
    #[serde(flatten)]
    stats: CoupledStats,
    groups: Vec<GroupInfo>,
}

impl Groups {
    fn of(prefix: &str, coupling: &Coupling) -> Result<Groups> {
        let (stats, groups) = (coupling.stats()?, coupling.groups()?);
        Ok(Groups { prefix: prefix.to_string(), stats, groups })
    }

    /// Of all prefixes whose algorithms are of this build.
    fn of_all() -> Result<Vec<Groups>> {
        let mine = prefixes().into_iter().filter_map(|p| Some((Coupling::pinned(&p).ok()?, p)));
        mine.map(|(coupling, prefix)| Groups::of(&prefix, &coupling)).collect()
    }

    /// The names that the counters of interfaces have.
    fn counters(&self) -> Value {
        let CoupledStats { joined, refused, contended, collected } = self.stats;
        json!({
            "group_joined": joined, "group_refused": refused, "group_contended": contended, "group_collected": collected
        })
    }

    fn print(&self) {
        for group in &self.groups {
            print::line(print::group(group, &format!(" of {}*", self.prefix)));
        }
        if !self.groups.is_empty() {
            let stats = &self.stats;
            print::line(format_args!(
                "groups of {}*: {} joined, {} refused, {} reports not made for contention, {} members collected",
                self.prefix, stats.joined, stats.refused, stats.contended, stats.collected
            ));
        }
    }
}

/// Does what takes more than a command needs that looks after algorithms and cgroups, and gives up the rest.
pub fn give_up_privileges(prefix: &str, log: EventLog) {
    release_orphans(prefix);
    confine(Duty::Sockets).iter().for_each(|why| log.warn(why));
}

/// Keeps the algorithms registered until stopped.
fn hold(prefix: &str, parameters: &Parameters, log: EventLog) -> Result<()> {
    give_up_privileges(prefix, log);
    let (stop, stopped) = signals::wishes(Wish::Stop)?;
    let native = Native::load_with(prefix, parameters)?;
    say_loaded(true, &native.names(), log);
    if is_pipe(&io::stdin()) {
        signals::stop_when_closed(&io::stdin(), stop);
    }
    // the sender lives as long as the signal handler: an error cannot be
    let _ = stopped.recv();
    Ok(())
}

fn is_pipe(stream: &impl AsFd) -> bool {
    let file = stream.as_fd().try_clone_to_owned().map(File::from);
    file.and_then(|f| f.metadata()).is_ok_and(|m| m.file_type().is_fifo())
}

/// `windlass attach --native`.
pub fn attach(args: &AttachArgs) -> Result<ExitCode> {
    check_prefix(&args.prefix)?;
    let folder = |given: Option<&Path>| given.map_or_else(root_cgroup, |c| Ok(c.to_path_buf()));
    let policy = match &args.policy {
        Some(file) => Policy::from_file(file)?,
        None => Policy::simple(algorithm::named(&args.alg)?, Mode::Native, args.port.clone(), false)?,
    };
    let cgroups: Vec<PathBuf> = match &args.policy {
        Some(_) => policy.cgroups().into_iter().map(folder).collect::<Result<_, Error>>()?,
        None => vec![folder(args.cgroup.as_deref())?],
    };
    if cgroups.is_empty() {
        bail!("no rule of the policy has mode \"native\"; without --native it is for interfaces");
    }
    let log = EventLog::new(&args.log, args.json);
    give_up_privileges(&args.prefix, log);
    let (stop, stopped) = signals::wishes(Wish::Stop)?;
    signals::stop_when_closed(&io::stdout(), stop);
    let parameters = args.path.parameters()?;
    let may_share = parameters == Parameters::default() && is_still_loaded(&args.prefix);
    let native = if may_share { None } else { Some(Native::load_with(&args.prefix, &parameters)?) };
    let coupling = || match &native {
        Some(native) => Coupling::of(native),
        None => Coupling::pinned(&args.prefix),
    };
    let own = coupling()?;
    let attach = |cgroup: &PathBuf| Selector::attach(cgroup, &policy, &args.prefix, Some(coupling()?));
    let selectors: Vec<Selector> = cgroups.iter().map(attach).collect::<Result<_, Error>>()?;
    let name = match &args.policy {
        Some(file) => file.display().to_string(),
        None => format!("{}{}", args.prefix, args.alg),
    };
    for cgroup in &cgroups {
        let words = format!("{name} for all sockets that connect; Ctrl-C ends it");
        log.must_reach(
            "attached",
            About::Cgroup(cgroup),
            &words,
            || json!({ "event": "attached", "cgroup": cgroup, "algorithm": name }),
        );
    }
    while stopped.recv_timeout(WATCH) == Err(RecvTimeoutError::Timeout) {
        if native.is_none() && !own.is_in_force(&args.prefix) {
            bail!(
                "the algorithms under '{}*' were unloaded or loaded anew; sockets that connect from now on would not \
                 get them, or not be in their groups; start again",
                args.prefix
            );
        }
    }
    let infos: Vec<_> = selectors.iter().map(Selector::info).collect::<Result<_, _>>()?;
    let groups = Groups::of(&args.prefix, &own)?;
    drop(selectors);
    drop(native);
    for info in &infos {
        let words =
            format!("released: {} socket(s) had {name}, {} could not get it", info.chosen, info.refused);
        log.must_reach("detached", About::Command, &words, || {
            json!({ "event": "detached", "sockets": info, "counters": groups.counters(), "groups": groups })
        });
    }
    if !args.json {
        groups.print();
    }
    Ok(ExitCode::SUCCESS)
}

/// `windlass detach --cgroup`.
pub fn detach(cgroup: &Path, as_json: bool) -> Result<ExitCode> {
    check_root("releasing a cgroup")?;
    let by_path = || PinnedSelector::all().into_iter().find(|s| s.cgroup() == cgroup);
    let Some(selector) = PinnedSelector::of(cgroup).or_else(by_path) else {
        let known: Vec<String> =
            PinnedSelector::all().iter().map(|s| s.cgroup().display().to_string()).collect();
        let known = if known.is_empty() { "none".into() } else { known.join(", ") };
        bail!("{} is under no agent's control; under control: {known}", printable_path(cgroup));
    };
    selector.remove()?;
    if as_json {
        println!("{}", json!({ "released": [cgroup] }));
    } else {
        print::line(format_args!("{}: released", printable_path(cgroup)));
    }
    Ok(ExitCode::SUCCESS)
}

/// What an agent sets up for the rules of mode native: the algorithms, and a selector for each cgroup.
pub struct NativeHome {
    prefix: String,
    has_loaded: bool,
    /// What was loaded when a cgroup was last brought under control; none: none was.
    loaded: Option<Coupling>,
    selectors: Vec<PinnedSelector>,
    /// Of cgroups that another process released: left alone until another policy names them, or another cgroup is there.
    released: Vec<PinnedSelector>,
    /// One was, since the last call.
    is_newly_released: bool,
    retries: Retries,
    log: EventLog,
}

impl NativeHome {
    pub fn new(prefix: &str, log: EventLog) -> NativeHome {
        NativeHome {
            prefix: prefix.to_string(),
            has_loaded: false,
            loaded: None,
            selectors: Vec::new(),
            released: Vec::new(),
            is_newly_released: false,
            retries: Retries::default(),
            log,
        }
    }

    pub fn is_empty(&self) -> bool {
        self.selectors.is_empty()
    }

    /// Is one there that could not be controlled, and is tried again?
    pub fn are_refused(&self) -> bool {
        self.retries.names().any(|cgroup| Path::new(cgroup).is_dir())
    }

    /// Adds to how the agent is what is under control here, and what could not be.
    pub fn add_to(&self, health: &mut Health) {
        health.cgroups += self.selectors.len();
        let is_there = |cgroup: &&str| Path::new(cgroup).is_dir();
        health.refused.extend(self.retries.names().filter(is_there).map(String::from));
        health.released.extend(self.released.iter().map(|s| s.cgroup().display().to_string()));
    }

    /// Has another process released one since the last call, other than by unloading the algorithms?
    pub fn are_newly_released(&mut self) -> bool {
        mem::take(&mut self.is_newly_released)
    }

    /// Cgroups that the policy names, by their folders.
    fn wanted(policy: &Policy) -> Result<Vec<PathBuf>> {
        let folder = |c: Option<&Path>| c.map_or_else(root_cgroup, |c| Ok(c.to_path_buf()));
        Ok(policy.cgroups().into_iter().map(folder).collect::<Result<_, Error>>()?)
    }

    /// Brings every cgroup that the policy names under control, as soon as it is there. Returns why some could not be, where
    /// that is new.
    pub fn cover(&mut self, policy: &Policy) -> Vec<String> {
        let mut complaints = Vec::new();
        if let Err(why) = self.notice_gone() {
            complaints.extend(self.retries.note("a cgroup that is gone", why));
        }
        let wanted = match Self::wanted(policy) {
            Ok(wanted) => wanted,
            Err(why) => {
                complaints.extend(self.retries.note("the root cgroup", why));
                return complaints;
            }
        };
        for cgroup in wanted {
            let name = cgroup.display().to_string();
            let is_known =
                self.selectors.iter().any(|s| s.cgroup() == cgroup) || self.retries.is_recent(&name);
            let is_released = self.released.iter().any(|s| s.cgroup() == cgroup);
            if is_known || is_released || !cgroup.is_dir() {
                continue;
            }
            match self.control(&cgroup, policy) {
                Ok(()) => {}
                // it went meanwhile
                Err(_) if !cgroup.is_dir() => {}
                Err(why) => complaints.extend(self.retries.note(&name, why)),
            }
        }
        complaints
    }

    /// Brings one cgroup under control, which from then on outlives the agent.
    fn control(&mut self, cgroup: &Path, policy: &Policy) -> Result<(), Error> {
        self.has_loaded |= ensure_loaded(&self.prefix)?;
        self.loaded = Coupling::pinned(&self.prefix).ok();
        let (selector, is_taken_over) = PinnedSelector::attach_or_take_over(cgroup, policy, &self.prefix)?;
        match is_taken_over {
            true => self.log.of_cgroup("taken_over", cgroup, "taken over"),
            false => self.log.of_cgroup("attached", cgroup, "under control"),
        }
        self.selectors.push(selector);
        self.retries.forget(&cgroup.display().to_string());
        Ok(())
    }

    /// Forgets cgroups that are gone, also those that an earlier agent controlled, and those that another process released.
    fn notice_gone(&mut self) -> Result<(), Error> {
        let mut looked = Ok(());
        self.released.retain(PinnedSelector::is_alive);
        for selector in mem::take(&mut self.selectors) {
            // in this order: what chose for one that is gone any agent may have removed
            let is_released = selector.is_released();
            match (is_released, selector.is_alive()) {
                (false, true) => self.selectors.push(selector),
                (true, true) => {
                    self.log.warn(selector.released());
                    self.released.push(selector);
                    // unless what it had to choose is unloaded, and so released: other may be loaded, and be for it
                    let has_choice =
                        self.loaded.as_ref().is_some_and(|loaded| loaded.is_still_in_force(&self.prefix));
                    self.is_newly_released |= has_choice;
                }
                (_, false) => {
                    self.log.of_cgroup("gone", selector.cgroup(), GONE);
                    looked = looked.and(selector.remove());
                }
            }
        }
        remove_gone_cgroups()?.iter().for_each(|cgroup| self.log.of_cgroup("gone", cgroup, GONE));
        looked
    }

    /// Another policy is in force: its rules for sockets that connect from now on. What fails does not keep the rest from it;
    /// the first error is returned.
    pub fn set_policy(&mut self, policy: &Policy) -> Result<()> {
        // an error is for the next look
        let _ = self.notice_gone();
        let wanted = Self::wanted(policy)?;
        let named = self.selectors.iter().filter(|s| wanted.iter().any(|w| w == s.cgroup()));
        Ok(first_error(named.map(|selector| match selector.set_policy(policy) {
            // the next look notices
            Err(Error::Released(_)) => Ok(()),
            other => other,
        }))?)
    }

    /// Another policy is in force everywhere: what it names is tried again, whatever became of that before.
    pub fn begin_again(&mut self) {
        self.retries = Retries::default();
        self.released.clear();
        self.is_newly_released = false;
    }

    /// Cgroups that an earlier agent controls, and that the policy does not name.
    pub fn others(&self, policy: &Policy) -> Result<Vec<String>> {
        // what the policy names and could not be controlled was complained of
        let Ok(wanted) = Self::wanted(policy) else { return Ok(Vec::new()) };
        let mut all = PinnedSelector::unattended()?;
        all.retain(|s| !wanted.iter().any(|w| w == s.cgroup()));
        Ok(all.iter().map(|s| s.cgroup().display().to_string()).collect())
    }

    /// Releases the cgroups that the policy in force does not name.
    pub fn release_others(&mut self, policy: &Policy) {
        // without a root cgroup it is not known which those are
        let Ok(wanted) = Self::wanted(policy) else { return };
        let (kept, dropped): (Vec<_>, Vec<_>) =
            self.selectors.drain(..).partition(|s| wanted.iter().any(|w| w == s.cgroup()));
        self.selectors = kept;
        for selector in dropped {
            let cgroup = selector.cgroup().to_path_buf();
            match selector.remove() {
                Ok(()) => self.log.of_cgroup("detached", &cgroup, "released"),
                Err(why) => self.log.warn(why),
            }
        }
    }

    /// Looks after what an earlier agent left of the cgroups that the policy names, where an interrupt came before this one took them
    /// over, so that it is released with the rest. What could not be taken over stays, as was reported.
    pub fn take_unattended(&mut self, policy: &Policy) {
        for cgroup in Self::wanted(policy).unwrap_or_default() {
            let name = cgroup.display().to_string();
            let is_known = self.selectors.iter().chain(&self.released).any(|s| s.cgroup() == cgroup)
                || self.retries.names().any(|other| other == name);
            if is_known || !cgroup.is_dir() {
                continue;
            }
            match PinnedSelector::take_unattended(&cgroup) {
                Ok(selector) => self.selectors.extend(selector),
                Err(why) => self.log.warn(format_args!(
                    "{name} stays under the rules of an earlier agent: {why}; `windlass detach --cgroup {name}` releases it"
                )),
            }
        }
    }

    /// The agent ends. What fails does not keep the rest from it; the first error is returned.
    pub fn finish(self, is_detaching: bool) -> Result<()> {
        let mut ended = Ok(());
        for selector in self.selectors.into_iter().filter(|s| !s.is_released()) {
            let cgroup = selector.cgroup().to_path_buf();
            if is_detaching {
                match selector.remove() {
                    Ok(()) => self.log.of_cgroup("detached", &cgroup, "released"),
                    Err(why) => ended = ended.and(Err(why)),
                }
            } else {
                let name = cgroup.display();
                let words = format!("stays under control; `windlass detach --cgroup {name}` releases it");
                self.log.of_cgroup("stays", &cgroup, &words);
            }
        }
        if is_detaching && self.has_loaded {
            ended = ended.and(unload_unused(&self.prefix));
        }
        Ok(ended?)
    }
}
