//! `windlass agent`: looks after the interfaces and cgroups that its policy names.

use crate::{
    args::AgentArgs,
    control::{WATCH, options},
    dry_run::dry_run,
    event_log::EventLog,
    health::Health,
    http::Listening,
    interfaces::Interfaces,
    memory,
    metrics::Histograms,
    native::NativeHome,
    recorder::Recorder,
    signals::{Wish, Wishes},
    supervisors::Supervisors,
    watched::Watched,
};
use anyhow::{Result, bail};
use std::{
    process::ExitCode,
    sync::{Arc, mpsc::RecvTimeoutError},
    time::Instant,
};
use windlass_agent::{
    Duty, Error, Interrupt, Options, Policy, ReaderSocket, check_capable, confine, native::release_orphans,
};
use windlass_scenario::printable_path;

pub fn agent(args: AgentArgs) -> Result<ExitCode> {
    if args.dry_run {
        return dry_run(&args);
    }
    let log = EventLog::new(&args.log, args.json);
    let mut file = Watched::new(&args.policy);
    let (mut policy, hash) = Policy::from_file_with_hash(&args.policy)?;
    let options = Options { shares_groups: true, ..options(&args.sizes)? };
    let most_bytes = args.records_mib << 20;
    let histograms = Arc::new(Histograms::default());
    let has_histograms = args.metrics.is_some() && !args.no_histograms;
    let recorder = match args.records.as_deref() {
        None if !has_histograms => None,
        folder => Some(Recorder::new(folder, most_bytes, histograms.clone(), log)?),
    };
    let mut home = Homes {
        interfaces: Interfaces::new(options, recorder, log),
        native: NativeHome::new(&args.names.prefix, log),
        must_put_back: false,
    };
    check_capable("attaching a datapath")?;
    if let Err(why) = windlass_agent::mount_bpffs() {
        log.warn(why);
    }
    let detaches = args.detach_on_exit || windlass_agent::pins_are_private();
    if detaches && !args.detach_on_exit {
        log.warn(
            "control ends with this agent: what it pins goes with the mounts of this shell or container, as under \
             `ip netns exec`; use `nsenter --net=/run/netns/NAME` instead, or give a container the host's bpffs \
             (`-v /sys/fs/bpf:/sys/fs/bpf`)",
        );
    }
    let listening = args.metrics.map(|address| Listening::at(address, "--metrics")).transpose()?;
    // control does not depend on who looks at it
    let socket = ReaderSocket::listen().map_err(|why| {
        log.warn(format_args!("readers, as windlass web, find no socket of this agent: {why}"))
    });
    give_up_privileges(&args, &policy, log);
    let mut supervisors =
        Supervisors::start(listening, has_histograms.then_some(histograms), socket.ok(), log)?;
    supervisors.policy(&policy, hash);
    let wishes = Wishes::new(Wish::Reload)?;
    home.interfaces.follow_links(wishes.sender());
    // what is left of others that cannot be removed prevents no control
    match windlass_agent::remove_gone() {
        Ok(0) => {}
        Ok(gone) => log.of_leftovers(gone),
        Err(why) => log.warn(why),
    }
    if let Err(why) = windlass_agent::part_killed() {
        log.warn(why);
    }
    let complaints = home.cover(&policy, wishes.interrupt());
    home.interfaces.follow_records();
    if home.is_empty()
        && let Some((last, others)) = complaints.split_last()
    {
        others.iter().for_each(|why| log.warn(why));
        // of what it loaded nothing is of use any more
        home.finish(true, &policy)?;
        bail!("{last}");
    }
    complaints.iter().for_each(|why| log.warn(why));
    // what is not covered yet is no other agent's
    if !wishes.interrupt().is_raised() {
        if home.is_empty() {
            log.warn("no interface or cgroup matches the policy yet; waiting for one");
        }
        match home.others(&policy, wishes.interrupt()) {
            Ok(all) => all.iter().for_each(|why| log.warn(why)),
            Err(why) if matches!(why.downcast_ref(), Some(Error::Interrupted(_))) => {}
            // nothing that the agent looks after hangs on it
            Err(why) => log.warn(why),
        }
        home.interfaces.load_ahead(&policy);
    }
    memory::give_back();
    let ended = look_after(&mut home, &mut file, &mut policy, &wishes, &mut supervisors, log);
    supervisors.stopping(&home.health());
    home.finish(detaches, &policy)?;
    ended.map(|()| ExitCode::SUCCESS)
}

/// Does what takes more than the agent needs from then on, and gives up the rest.
fn give_up_privileges(args: &AgentArgs, policy: &Policy, log: EventLog) {
    if !policy.cgroups().is_empty() {
        release_orphans(&args.names.prefix);
    }
    confine(Duty::InterfacesAndReaders).iter().for_each(|why| log.warn(why));
    // root reads other users' files only by a capability that is given up
    if let Err(Error::Io { path, why }) = Policy::from_file(&args.policy) {
        log.warn(format_args!(
            "{}: {why}; changes of it will not be seen: the agent reads what root may read without CAP_DAC_OVERRIDE, so keep it, \
             and the folders above it, root's, as in /etc/windlass",
            printable_path(&path)
        ));
    }
}

/// All that the agent looks after.
struct Homes {
    interfaces: Interfaces,
    native: NativeHome,
    /// A policy that failed somewhere may still be in force elsewhere.
    must_put_back: bool,
}

impl Homes {
    fn is_empty(&self) -> bool {
        self.interfaces.is_empty() && self.native.is_empty()
    }

    /// Was the last interface or cgroup just released, and nothing else is left or tried again? Without that the
    /// agent waits for what its policy names to come.
    fn is_all_released(&mut self) -> bool {
        // both are queried: what is not new to this look is not new to a later one
        let is_news = self.interfaces.are_newly_released() | self.native.are_newly_released();
        let is_left = !self.is_empty() || self.interfaces.are_refused() || self.native.are_refused();
        is_news && !is_left
    }

    /// How all of it is, as of the last looks.
    fn health(&self) -> Health {
        let mut health = self.interfaces.health();
        self.native.add_to(&mut health);
        health
    }

    /// Brings everything that the policy names under control; after an interrupt, what is left is for the next call. Returns why
    /// some could not be, where that is new.
    fn cover(&mut self, policy: &Policy, interrupt: &Interrupt) -> Vec<String> {
        let mut complaints = self.interfaces.cover(policy, interrupt);
        if !interrupt.is_raised() {
            complaints.extend(self.native.cover(policy));
        }
        complaints
    }

    /// Puts a new policy in force everywhere, or, if that fails somewhere, nowhere.
    fn replace(&mut self, old: &Policy, new: &Policy) -> Result<()> {
        // what was released before this policy came is taken back by it
        self.interfaces.notice_released();
        if let Err(why) = self.put(new) {
            self.put_back(old);
            return Err(why);
        }
        self.must_put_back = false;
        self.interfaces.begin_again();
        self.native.begin_again();
        self.interfaces.release_others(new);
        self.native.release_others(new);
        Ok(())
    }

    /// What to report of interfaces and cgroups that are not looked after, as the policy no longer names them.
    fn others(&self, policy: &Policy, interrupt: &Interrupt) -> Result<Vec<String>> {
        let is_still = |what: &str, words: &str| {
            format!(
                "{what} is still under the rules of an earlier agent; `windlass detach {words}` releases it"
            )
        };
        let mut all: Vec<String> = windlass_agent::unattended_here(interrupt)?
            .iter()
            .filter(|iface| !policy.is_of_iface(iface))
            .map(|iface| is_still(iface, iface))
            .collect();
        let cgroups = self.native.others(policy)?;
        all.extend(cgroups.iter().map(|c| is_still(c, &format!("--cgroup {c}"))));
        Ok(all)
    }

    fn put(&mut self, policy: &Policy) -> Result<()> {
        self.interfaces.set_policy(policy)?;
        self.native.set_policy(policy)
    }

    /// After another policy has failed somewhere this one is in force again everywhere; what fails now is for the next look.
    fn put_back(&mut self, policy: &Policy) {
        let interfaces = self.interfaces.set_policy(policy);
        let native = self.native.set_policy(policy);
        self.must_put_back = interfaces.is_err() || native.is_err();
    }

    /// The agent ends, under this policy; it releases what that names if it `is_detaching`, also what an earlier agent left and this one
    /// has not taken over yet.
    fn finish(mut self, is_detaching: bool, policy: &Policy) -> Result<()> {
        if is_detaching {
            self.interfaces.take_unattended(policy);
            self.native.take_unattended(policy);
        }
        let native = self.native.finish(is_detaching);
        let interfaces = self.interfaces.finish(is_detaching);
        native.and(interfaces)
    }
}

/// Looks after everything until stopped, and follows the policy's file.
fn look_after(
    home: &mut Homes,
    file: &mut Watched<'_>,
    policy: &mut Policy,
    wishes: &Wishes,
    supervisors: &mut Supervisors,
    log: EventLog,
) -> Result<()> {
    // what was last reported of the file
    let mut refused: Option<String> = None;
    let mut next_watch = Instant::now() + WATCH;
    let mut next_look = None;
    loop {
        supervisors.look(home.health(), &home.interfaces);
        let next = next_look.map_or(next_watch, |look: Instant| look.min(next_watch));
        let is_asked = match wishes.next_within(next.saturating_duration_since(Instant::now())) {
            Ok(Wish::Reload) => true,
            Ok(Wish::Look) => {
                next_look = Some(home.interfaces.next_look());
                continue;
            }
            Err(RecvTimeoutError::Timeout) => false,
            _ => return Ok(()),
        };
        next_look = None;
        home.interfaces.notice_links();
        home.interfaces.release_leaving();
        let is_watch = Instant::now() >= next_watch;
        if !is_asked && !is_watch {
            // interfaces came, went or changed
            home.cover(policy, wishes.interrupt()).iter().for_each(|why| log.warn(why));
            continue;
        }
        if is_watch {
            home.interfaces.watch_programs();
            home.interfaces.watch_directions();
        }
        if home.must_put_back {
            home.put_back(policy);
        }
        if file.is_due(is_asked) {
            if is_asked {
                supervisors.reloading();
            }
            let put = match Policy::from_file_with_hash(file.path) {
                // written again, or its permissions changed: what was released stays released
                Ok((new, hash)) if new == *policy && !is_asked => {
                    supervisors.policy(policy, hash);
                    if refused.take().is_some() {
                        log.of_policy(
                            "in_force",
                            file.path,
                            "in force as before; nothing is wrong with the file any more",
                        );
                    }
                    Ok(())
                }
                Ok((new, hash)) => home.replace(policy, &new).map(|()| {
                    supervisors.policy(&new, hash);
                    *policy = new;
                    refused = None;
                    log.of_policy("in_force", file.path, "in force");
                }),
                Err(why) => Err(why.into()),
            };
            // a mistake must not take traffic out of control
            if let Err(why) = put {
                let why = format!("{why:#}; the policy in force stays");
                supervisors.policy_refused(file.path);
                if file.is_settled || refused.as_ref() != Some(&why) {
                    log.warn(&why);
                }
                refused = Some(why);
            }
        }
        // right after another watch a clock that has not moved yet is no clock that stands still
        if is_watch {
            home.interfaces.watch_clocks();
            // the next look comes soon
            let _ = windlass_agent::part_killed();
        }
        home.cover(policy, wishes.interrupt()).iter().for_each(|why| log.warn(why));
        home.interfaces.follow_records();
        if home.is_all_released() {
            bail!(
                "nothing is left under control, and what was released is left alone; start the agent again to take it back"
            );
        }
        if is_watch {
            home.interfaces.load_ahead(policy);
            next_watch = Instant::now() + WATCH;
        }
    }
}
