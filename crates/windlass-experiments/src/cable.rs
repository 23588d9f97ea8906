//! Three hosts in a row on plain cables, for what is measured without a network in between: server, router, client.

use crate::settings::Settings;
use anyhow::Result;
use windlass_lab::{
    BoxProcess, clean_leftovers,
    netns::{self, Netns},
};

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
        clean_leftovers();
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
    pub fn attach(&self, settings: &Settings, args: &[&str]) -> Result<BoxProcess> {
        let args: Vec<String> = args.iter().map(|a| a.to_string()).collect();
        BoxProcess::start(&self.router, &settings.windlass, "r1", &args)
    }
}
