//! The guest agent: between the kernel's flows and the port.

use crate::{
    Session,
    error::Result,
    port::Port,
    session::Event,
    wire::{Reply, Report},
};
use std::{io, os::fd::RawFd, time::Instant};

/// How often a port is looked at that has no program at its other end, and whether to stop.
const LOOK_MS: u64 = 50;
/// Reads of the port at once: a program that writes without end does not keep the agent from everything else.
const READS_MOST: usize = 16;

/// Where reports come from and answers go: the kernel of the guest.
pub trait Kernel {
    /// For poll(): readable when there are reports.
    fn fd(&self) -> RawFd;
    /// What the flows have reported since.
    fn reports(&mut self) -> Result<Vec<Report>>;
    /// A flow's share. Whether the kernel took it: for want of memory it need not, and the flow goes on by itself.
    fn grant(&mut self, reply: &Reply) -> Result<bool>;
    /// The flow has ended.
    fn forget(&mut self, flow: u64) -> Result<()>;
    /// Nothing granted so far counts any longer.
    fn revoke_all(&mut self) -> Result<()>;
}

/// What the agent did so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct Counts {
    /// Reports that were taken from the kernel.
    pub reports: u64,
    /// Shares that were passed to it.
    pub grants: u64,
    /// Shares that the kernel did not take.
    pub not_taken: u64,
    /// Reports of flows for which the host had no room.
    pub refused: u64,
    /// Times that flows were left to themselves.
    pub alone: u64,
}

/// Couples the kernel's flows through the port until `is_over` returns true. `tell` is called when the host begins to
/// answer and when it ceases to.
pub fn run(
    kernel: &mut dyn Kernel,
    port: &mut Port,
    is_over: &mut dyn FnMut() -> bool,
    tell: &mut dyn FnMut(&Event),
) -> Result<Counts> {
    let mut agent =
        Agent { kernel, port, tell, session: Session::default(), counts: Counts::default(), look_at_us: 0 };
    let started = Instant::now();
    let mut buffer = vec![0; 64 << 10];
    while !is_over() {
        let now_us = || started.elapsed().as_micros() as u64;
        agent.follow_port(now_us())?;
        agent.wait(now_us());
        agent.take_reports(now_us())?;
        agent.read_port(&mut buffer, now_us())?;
        let events = agent.session.tick(now_us());
        agent.act(events)?;
        agent.session.flush(now_us());
        agent.write_port()?;
    }
    agent.session.finish();
    agent.write_port()?;
    agent.kernel.revoke_all()?;
    Ok(agent.counts)
}

struct Agent<'a> {
    kernel: &'a mut dyn Kernel,
    port: &'a mut Port,
    tell: &'a mut dyn FnMut(&Event),
    session: Session,
    counts: Counts,
    /// When a port without a program at its other end is looked at again.
    look_at_us: u64,
}

impl Agent<'_> {
    /// Notices that a program has come to the other end of the port.
    fn follow_port(&mut self, now_us: u64) -> Result<()> {
        if self.session.is_connected() || now_us < self.look_at_us {
            return Ok(());
        }
        self.look_at_us = now_us + LOOK_MS * 1000;
        if self.port.is_connected() {
            self.session.connected(now_us);
            self.write_port()?;
        }
        Ok(())
    }

    /// Waits until there is something to do.
    fn wait(&mut self, now_us: u64) {
        let ms = self.session.next_at_us().map_or(LOOK_MS, |at| at.saturating_sub(now_us).div_ceil(1000));
        let mut polls = [libc::pollfd { fd: self.kernel.fd(), events: libc::POLLIN, revents: 0 }; 2];
        let mut count = 1;
        // a port without a program at its other end is always ready, and has nothing
        if let Some(fd) = self.port.fd().filter(|_| self.session.is_connected()) {
            let out = if self.session.outgoing().is_empty() { 0 } else { libc::POLLOUT };
            polls[1] = libc::pollfd { fd, events: libc::POLLIN | out, revents: 0 };
            count = 2;
        }
        // SAFETY: `count` valid elements. Interrupted or not: everything is looked at afterwards.
        unsafe { libc::poll(polls.as_mut_ptr(), count, ms.min(LOOK_MS) as i32) };
    }

    fn take_reports(&mut self, now_us: u64) -> Result<()> {
        for report in self.kernel.reports()? {
            self.counts.reports += 1;
            if report.op == crate::wire::Op::Leave {
                self.kernel.forget(report.flow)?;
            }
            self.session.report(report, now_us);
        }
        Ok(())
    }

    fn read_port(&mut self, buffer: &mut [u8], now_us: u64) -> Result<()> {
        for _ in 0..READS_MOST {
            if !self.session.is_connected() {
                return Ok(());
            }
            match self.port.read(buffer) {
                Ok(None) => return Ok(()),
                Ok(Some(n)) if n > 0 => {
                    let events = self.session.receive(&buffer[..n], now_us);
                    self.act(events)?;
                }
                Ok(Some(_)) | Err(_) => self.lost()?,
            }
        }
        Ok(())
    }

    fn write_port(&mut self) -> Result<()> {
        while self.session.is_connected() && !self.session.outgoing().is_empty() {
            match self.port.write(self.session.outgoing()) {
                Ok(None) => return Ok(()),
                Ok(Some(n)) if n > 0 => self.session.written(n),
                Ok(Some(_)) => self.lost()?,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => self.lost()?,
            }
        }
        Ok(())
    }

    fn lost(&mut self) -> Result<()> {
        self.port.close();
        let event = self.session.disconnected();
        self.act(event)
    }

    fn act(&mut self, events: impl IntoIterator<Item = Event>) -> Result<()> {
        for event in events {
            match &event {
                Event::Answer(reply) => {
                    match self.kernel.grant(reply)? {
                        true => self.counts.grants += 1,
                        false => self.counts.not_taken += 1,
                    }
                    continue;
                }
                Event::Forgotten(flow) => {
                    self.kernel.forget(*flow)?;
                    continue;
                }
                Event::Refused(_) => {
                    self.counts.refused += 1;
                    continue;
                }
                Event::Alone(_) => {
                    self.counts.alone += 1;
                    self.kernel.revoke_all()?;
                }
                Event::Coupled => {}
            }
            (self.tell)(&event);
        }
        Ok(())
    }
}
