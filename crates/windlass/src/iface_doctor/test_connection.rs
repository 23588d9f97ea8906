//! `windlass doctor IFACE --test HOST:PORT`: a connection from this machine to a server behind the interface, and what became of it
//! in the flow table.

use super::verdict::{self, Reason};
use crate::flow_table::{FlowTable, Seen};
use anyhow::{Context, Result};
use serde::Serialize;
use std::{
    net::{SocketAddr, TcpStream, ToSocketAddrs},
    thread,
    time::{Duration, Instant},
};
use windlass_agent::route_device;

/// For an answer.
const CONNECT: Duration = Duration::from_secs(5);
/// By then a connection that passes the interface is in the flow table.
const SEEN: Duration = Duration::from_secs(1);
const PAUSE: Duration = Duration::from_millis(20);

/// What became of it.
#[derive(Debug, Serialize)]
pub struct TestConnection {
    server: SocketAddr,
    /// None: there was no connection, for that reason.
    connected_in_ms: Option<f64>,
    why_not: Option<String>,
    /// By which interface packets to the server leave.
    route_by: Option<String>,
    /// What is done with it behind the interface, as `windlass flows` has it; none: it is not in the flow table.
    state: Option<&'static str>,
    /// Name of its rule.
    rule: Option<String>,
    /// Shift of the windows that this machine announced, as the box observed it.
    rcv_wscale: Option<u8>,
}

impl TestConnection {
    /// Connects to `to`, an address or a name with a port, and looks for that behind `iface`.
    pub fn make(to: &str, iface: &str) -> Result<TestConnection> {
        let example = || format!("--test {to}: a host and its port, e.g. 192.0.2.1:443 or [2001:db8::1]:443");
        let server = to.to_socket_addrs().with_context(example)?.next().with_context(example)?;
        let begin = Instant::now();
        let stream = TcpStream::connect_timeout(&server, CONNECT);
        let elapsed_ms = begin.elapsed().as_micros() as f64 / 1e3;
        let mut test = TestConnection {
            server,
            connected_in_ms: stream.is_ok().then_some(elapsed_ms),
            why_not: None,
            route_by: route_device(server.ip()),
            state: None,
            rule: None,
            rcv_wscale: None,
        };
        match &stream {
            Ok(stream) => {
                if let Some(seen) = in_flow_table(iface, server, stream.local_addr()?)? {
                    (test.state, test.rcv_wscale) = (Some(seen.state()), seen.flow.rcv_wscale);
                    test.rule = Some(seen.rule_name);
                }
            }
            Err(why) => test.why_not = Some(why.to_string()),
        }
        Ok(test)
    }

    pub fn in_words(&self) -> String {
        let server = self.server;
        match (self.connected_in_ms, &self.why_not, self.state) {
            (Some(ms), _, Some(state)) => {
                let rule = self.rule.as_deref().unwrap_or("-");
                let scale = self.rcv_wscale.map_or("not known".into(), |shift| shift.to_string());
                format!("{server} answers in {ms:.1} ms; {state}, rule {rule}, window scale {scale}")
            }
            (Some(ms), ..) => format!("{server} answers in {ms:.1} ms; not in the flow table"),
            (None, why, _) => format!("{server} cannot be reached: {}", why.as_deref().unwrap_or("-")),
        }
    }

    /// What it has against full control.
    pub fn reason(&self) -> Option<Reason> {
        let by = self.route_by.as_deref().unwrap_or("no interface");
        match (self.connected_in_ms, self.state) {
            (None, _) => Some(verdict::partial(format!(
                "the test connection to {} failed; its packets leave by {by}",
                self.server
            ))),
            (Some(_), None) => Some(verdict::partial(format!(
                "the test connection did not pass here in both directions; its packets leave by {by}"
            ))),
            (Some(_), Some("controlled")) => None,
            (Some(_), Some(state)) => {
                Some(verdict::partial(format!("the test connection is not controlled, its state is {state}")))
            }
        }
    }
}

/// The flow of that connection, as soon as it is there.
fn in_flow_table(iface: &str, server: SocketAddr, own: SocketAddr) -> Result<Option<Seen>> {
    let end = Instant::now() + SEEN;
    loop {
        let flows = FlowTable::read()?.flows;
        let is_it =
            |seen: &Seen| seen.iface == iface && (seen.flow.sender, seen.flow.receiver) == (server, own);
        let found = flows.into_iter().find(is_it);
        if found.is_some() || Instant::now() >= end {
            return Ok(found);
        }
        thread::sleep(PAUSE);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    #[test]
    fn a_test_connection_needs_a_host_with_a_port() {
        let refused = TestConnection::make("192.0.2.1", "lo").unwrap_err();
        assert!(format!("{refused:#}").contains("e.g. 192.0.2.1:443"), "{refused:#}");
    }

    #[test]
    fn a_test_connection_that_is_refused_has_the_reason() {
        // free again when it is dropped
        let server = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let test = TestConnection::make(&server.to_string(), "lo").unwrap();
        assert!(test.in_words().contains("cannot be reached"), "{test:?}");
        assert!(test.reason().unwrap().why.contains("leave by lo"), "{test:?}");
    }
}
