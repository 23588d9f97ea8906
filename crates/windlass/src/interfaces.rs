//! The agent's interfaces: those that its policy names, and that are there.

use crate::{
    control::{clock_is_new, hand_back},
    refused::Refused,
    voice::Voice,
};
use anyhow::Result;
use std::mem;
use windlass_agent::{Datapath, Error, Options, Pinned, Policy, is_of_clock};

/// What is under control, and what could not be.
pub struct Interfaces {
    options: Options,
    controlled: Vec<Pinned>,
    refused: Refused,
    /// Interfaces that somebody else released, by name and index: left alone until another policy is in force, or another
    /// interface has the name.
    released: Vec<(String, u32)>,
    /// One was, since that was last asked.
    is_newly_released: bool,
    voice: Voice,
}

impl Interfaces {
    pub fn new(options: Options, voice: Voice) -> Interfaces {
        Interfaces {
            options,
            controlled: Vec::new(),
            refused: Refused::default(),
            released: Vec::new(),
            is_newly_released: false,
            voice,
        }
    }

    pub fn is_empty(&self) -> bool {
        self.controlled.is_empty()
    }

    /// Is one there that could not be controlled, and is tried again?
    pub fn are_refused(&self) -> bool {
        self.refused.names().any(|iface| windlass_agent::interface_index(iface).is_some())
    }

    /// Has somebody else released one since this was last asked?
    pub fn are_newly_released(&mut self) -> bool {
        mem::take(&mut self.is_newly_released)
    }

    /// Brings every interface that the policy names under control: takes over what is pinned, attaches the rest. Returns why
    /// some could not be, where that is news.
    pub fn cover(&mut self, policy: &Policy) -> Vec<String> {
        let mut complaints = Vec::new();
        for iface in policy.interfaces() {
            let is_known =
                self.controlled.iter().any(|p| p.iface() == iface) || self.refused.is_recent(&iface);
            let is_released = self.released.iter().any(|(name, _)| *name == iface);
            if is_known || is_released || is_of_clock(&iface) {
                continue;
            }
            let index = windlass_agent::interface_index(&iface);
            match self.control(&iface, policy) {
                // it carries nothing that could be controlled
                Ok(()) | Err(Error::NotEthernet(_)) => {}
                // it went meanwhile; another one of its name is for the next look
                Err(_) if windlass_agent::interface_index(&iface) != index => {}
                Err(why) => complaints.extend(self.refused.note(&iface, why)),
            }
        }
        complaints
    }

    /// Brings one interface under control, which from then on outlives the agent.
    fn control(&mut self, iface: &str, policy: &Policy) -> Result<(), Error> {
        let (pinned, is_taken_over) = Datapath::attach_or_take_over(iface, policy, &self.options)?;
        match is_taken_over {
            true => self.voice.of_iface("taken_over", iface, "taken over"),
            false => self.voice.of_iface("attached", iface, "under control"),
        }
        self.controlled.push(pinned);
        self.refused.forget(iface);
        Ok(())
    }

    /// Forgets interfaces that are gone, and with them that they were released.
    pub fn notice_gone(&mut self) {
        self.released.retain(|(iface, index)| windlass_agent::interface_index(iface) == Some(*index));
        let (alive, gone): (Vec<_>, Vec<_>) = self.controlled.drain(..).partition(Pinned::is_alive);
        self.controlled = alive;
        for pinned in gone {
            self.voice.of_iface("gone", pinned.iface(), "the interface is gone");
            // the next agent that starts removes what stays
            if let Err(why) = pinned.remove() {
                self.voice.complain(why);
            }
        }
    }

    /// Sets clocks going again that stand still, and notices what somebody else released.
    pub fn watch_clocks(&mut self) {
        for at in (0..self.controlled.len()).rev() {
            match self.controlled[at].watch_clock() {
                Ok(true) => self.voice.complain(clock_is_new(self.controlled[at].iface())),
                Ok(false) => {}
                // it is under control as before
                Err(why @ Error::Locked { .. }) => self.voice.complain(why),
                Err(why) => {
                    // what is there under its name, if anything, is not ours
                    let pinned = self.controlled.remove(at);
                    if let Error::Released(_) = why {
                        self.note_released(&pinned);
                    } else {
                        let news = self.refused.note(pinned.iface(), why);
                        news.iter().for_each(|why| self.voice.complain(why));
                    }
                }
            }
        }
    }

    /// Notices what somebody else released, whatever its clock does.
    pub fn notice_released(&mut self) {
        // who cannot look, as somebody has the lock, will at the next look
        let is_released = |pinned: &Pinned| pinned.is_released().unwrap_or(false);
        for pinned in self.controlled.extract_if(.., |p| is_released(p)).collect::<Vec<_>>() {
            self.note_released(&pinned);
        }
    }

    fn note_released(&mut self, pinned: &Pinned) {
        self.voice.complain(pinned.released());
        self.released.push((pinned.iface().to_string(), pinned.ifindex()));
        self.is_newly_released = true;
    }

    /// Another policy is in force on those interfaces that it names.
    pub fn set_policy(&self, policy: &Policy) -> Result<()> {
        for pinned in self.controlled.iter().filter(|p| policy.is_of_iface(p.iface())) {
            match pinned.set_policy(policy) {
                // it was a moment ago, and the next look notices
                Ok(()) | Err(Error::Released(_)) => {}
                Err(why) => return Err(why.into()),
            }
        }
        Ok(())
    }

    /// Another policy is in force everywhere: what it names is tried again, whatever became of that before.
    pub fn begin_again(&mut self) {
        self.refused = Refused::default();
        self.released.clear();
        self.is_newly_released = false;
    }

    /// Releases the interfaces that the policy in force does not name.
    pub fn release_others(&mut self, policy: &Policy) {
        let (kept, dropped) = self.controlled.drain(..).partition(|p| policy.is_of_iface(p.iface()));
        self.controlled = kept;
        if let Err(why) = self.release(dropped) {
            self.voice.complain(why);
        }
    }

    /// Ends control of these. What fails does not keep the rest from it; the first error is returned.
    fn release(&self, all: Vec<Pinned>) -> Result<()> {
        let mut ended = hand_back(&all);
        for pinned in all {
            let iface = pinned.iface().to_string();
            match pinned.remove() {
                Ok(()) => self.voice.of_iface("detached", &iface, "released"),
                Err(why) => ended = ended.and(Err(why.into())),
            }
        }
        ended
    }

    /// The agent ends. What fails does not keep the rest from it; the first error is returned.
    pub fn finish(mut self, is_detaching: bool) -> Result<()> {
        if !is_detaching {
            for iface in self.controlled.iter().map(Pinned::iface) {
                let words = format!("stays under control; `windlass detach {iface}` releases it");
                self.voice.of_iface("stays", iface, &words);
            }
            return Ok(());
        }
        let all = mem::take(&mut self.controlled);
        self.release(all)
    }
}
