//! Pages of a demo or of a scenario's run: `windlass web` as a process of its own, which reads what an agent of the testbed answers.

use crate::signals::stop_with_parent;
use anyhow::{Context, Result, bail};
use serde_json::Value;
use std::{
    fs::{self, Permissions},
    io::{BufRead, BufReader},
    net::SocketAddr,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::{
        atomic::{AtomicBool, Ordering},
        mpsc::{self, Receiver, RecvTimeoutError},
    },
    thread,
    time::{Duration, Instant},
};
use tempfile::TempDir;

/// So long the run waits for a browser that shows the pages.
const BROWSER_WITHIN: Duration = Duration::from_secs(60);
const LOOK: Duration = Duration::from_millis(100);

/// The pages are there as long as this lives.
#[derive(Debug)]
pub struct DemoPages {
    web: Child,
    events: Receiver<Value>,
    /// Has the link to the agent's socket.
    folder: TempDir,
}

impl DemoPages {
    /// At this address, with a notice on top of all pages.
    pub fn start(windlass: &Path, address: SocketAddr, notice: &str) -> Result<DemoPages> {
        let folder = tempfile::tempdir().context("a folder for a link")?;
        // the pages may be another user's process, as the service's; there is nothing in it but a link
        fs::set_permissions(folder.path(), Permissions::from_mode(0o755)).context("a folder for a link")?;
        let mut command = Command::new(windlass);
        command.args(["web", "--json", "--listen", &address.to_string(), "--notice", notice, "--agent"]);
        command.arg(link_in(&folder)).stdin(Stdio::null()).stdout(Stdio::piped());
        stop_with_parent(&mut command);
        let mut web = command.spawn().context("windlass web")?;
        let lines = BufReader::new(web.stdout.take().context("piped")?).lines();
        let (sender, events) = mpsc::channel();
        thread::spawn(move || {
            let lines = lines.map_while(Result::ok);
            lines.filter_map(|line| serde_json::from_str(&line).ok()).try_for_each(|event| sender.send(event))
        });
        let pages = DemoPages { web, events, folder };
        loop {
            let event = pages.events.recv().context("`windlass web` did not start")?;
            if event["event"] == "web" {
                let address = event["address"].as_str().unwrap_or_default();
                eprintln!(
                    "pages at http://{address}/: it begins when a browser shows them, or in {} s",
                    BROWSER_WITHIN.as_secs()
                );
                return Ok(pages);
            }
        }
    }

    /// Where the link to the agent's socket should be.
    pub fn link(&self) -> PathBuf {
        link_in(&self.folder)
    }

    /// Waits until a browser shows the pages, for a while.
    pub fn wait(&self, cancel: &AtomicBool) -> Result<()> {
        let end = Instant::now() + BROWSER_WITHIN;
        while !cancel.load(Ordering::Relaxed) && Instant::now() < end {
            match self.events.recv_timeout(LOOK) {
                Ok(event) if event["event"] == "viewer" => return Ok(()),
                Err(RecvTimeoutError::Disconnected) => bail!("`windlass web` has ended"),
                _ => {}
            }
        }
        Ok(())
    }
}

fn link_in(folder: &TempDir) -> PathBuf {
    folder.path().join("agent.sock")
}

impl Drop for DemoPages {
    fn drop(&mut self) {
        let _ = self.web.kill();
        let _ = self.web.wait();
    }
}
