//! Three hosts in a row on plain cables, for what is measured without a network in between: server, router, client.

use crate::runner::Settings;
use anyhow::{Context, Result, bail};
use serde_json::Value;
use std::{
    io::{BufRead, BufReader, Read},
    process::{Child, ChildStdout, Stdio},
};
use windlass_lab::netns::{self, Netns};

/// Address of the server.
pub const SERVER: &str = "10.78.1.2";
/// Address of the client.
pub const CLIENT: &str = "10.78.2.2";

/// server -- router -- client over veth.
pub struct Cable {
    pub server: Netns,
    pub router: Netns,
    pub client: Netns,
}

impl Cable {
    /// Makes the hosts; the router limits its way to the client if `limit` is given.
    pub fn create(limit: Option<&str>) -> Result<Cable> {
        let run = netns::next_run();
        let cable = Cable {
            server: Netns::create(run, "server")?,
            router: Netns::create(run, "router")?,
            client: Netns::create(run, "client")?,
        };
        for (host, subnet) in [(&cable.server, 1), (&cable.client, 2)] {
            let (device, own, gateway) =
                (format!("r{subnet}"), format!("10.78.{subnet}.2/24"), format!("10.78.{subnet}.1"));
            let name = cable.router.name();
            host.run(&["ip", "link", "add", "eth0", "type", "veth", "peer", "name", &device, "netns", name])?;
            host.run(&["ip", "addr", "add", &own, "dev", "eth0"])?;
            host.run(&["ip", "link", "set", "eth0", "up"])?;
            cable.router.run(&["ip", "addr", "add", &format!("{gateway}/24"), "dev", &device])?;
            cable.router.run(&["ip", "link", "set", &device, "up"])?;
            host.run(&["ip", "route", "add", "default", "via", &gateway])?;
        }
        cable.router.run(&["sysctl", "-qw", "net.ipv4.ip_forward=1"])?;
        cable.server.run(&["ip", "route", "replace", "default", "via", "10.78.1.1", "congctl", "cubic"])?;
        if let Some(rate) = limit {
            let words = [
                "tc", "qdisc", "add", "dev", "r2", "root", "tbf", "rate", rate, "burst", "1m", "limit", "4m",
            ];
            cable.router.run(&words)?;
        }
        Ok(cable)
    }

    /// `windlass attach` on the router's side of the server, with these arguments.
    pub fn attach(&self, settings: &Settings, args: &[&str]) -> Result<Attachment> {
        let program = settings.windlass.to_str().context("the binary's path is no UTF-8")?;
        let mut child = self
            .router
            .command(program)
            .args(["attach", "r1", "--json"])
            .args(args)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()?;
        let mut line = String::new();
        let mut out = BufReader::new(child.stdout.take().context("piped")?);
        out.read_line(&mut line)?;
        let attached: Value = serde_json::from_str(&line).unwrap_or_default();
        if attached["event"] != "attached" {
            let mut said = String::new();
            if let Some(mut stderr) = child.stderr.take() {
                stderr.read_to_string(&mut said)?;
            }
            bail!("`windlass attach` did not start: {}", said.trim());
        }
        Ok(Attachment { child, out, attached })
    }
}

/// A running `windlass attach`; killed when dropped, released by release().
pub struct Attachment {
    child: Child,
    out: BufReader<ChildStdout>,
    /// What it said when it began.
    pub attached: Value,
}

impl Attachment {
    /// Ends it; returns what it says at the end.
    pub fn release(mut self) -> Result<Value> {
        // SAFETY: our own child, not yet waited for.
        unsafe { libc::kill(self.child.id() as i32, libc::SIGINT) };
        let mut line = String::new();
        self.out.read_line(&mut line)?;
        self.child.wait()?;
        serde_json::from_str(&line).with_context(|| format!("`windlass attach` said at its end: {line}"))
    }
}

impl Drop for Attachment {
    fn drop(&mut self) {
        // after wait() these do nothing
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
