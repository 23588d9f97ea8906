//! The agent's HTTP paths: /metrics, /healthz and /readyz.

use super::{exposition::Format, published::Published};
use crate::http::{Answer, Asked, Site, plain, with};
use hyper::StatusCode;
use std::sync::Arc;

impl Site for Published {
    const NAME: &'static str = "metrics";
    const CONNECTIONS_MOST: usize = 32;

    async fn answer(self: Arc<Self>, asked: Asked) -> Answer {
        match asked.path.as_str() {
            "/metrics" => {
                let format = Format::accepted(asked.accept.as_deref());
                match self.metrics(format) {
                    Ok(text) => with(StatusCode::OK, format.content_type(), text),
                    Err(why) => plain(StatusCode::INTERNAL_SERVER_ERROR, why),
                }
            }
            "/healthz" => plain(StatusCode::OK, "the agent runs"),
            "/readyz" => match self.readiness() {
                Ok(words) => plain(StatusCode::OK, words),
                Err(why) => plain(StatusCode::SERVICE_UNAVAILABLE, why),
            },
            _ => plain(StatusCode::NOT_FOUND, "there are /metrics, /healthz and /readyz"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        args::LogArgs,
        event_log::EventLog,
        health::Health,
        http::{Hosts, Listening, serve},
        metrics::Publisher,
    };
    use std::{
        io::{Read, Write},
        net::{Shutdown, SocketAddr, TcpStream},
        thread,
    };

    /// A server of this test's own.
    fn server() -> (SocketAddr, Publisher) {
        let publisher = Publisher::default();
        let listening = Listening::at(([127, 0, 0, 1], 0).into(), "--metrics").expect("a free port");
        let address = listening.address;
        let log = EventLog::new(&LogArgs::default(), false);
        serve(listening, Hosts::of(true), publisher.published(), log).expect("a thread");
        (address, publisher)
    }

    /// What it answers to these bytes until it closes the connection.
    fn answer_to(address: SocketAddr, request: &str) -> String {
        let mut stream = TcpStream::connect(address).expect("it listens");
        // it may have closed it already
        let _ = stream.write_all(request.as_bytes());
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
        String::from_utf8_lossy(&answer).into_owned()
    }

    fn get(address: SocketAddr, path: &str, more: &str) -> String {
        answer_to(address, &format!("GET {path} HTTP/1.1\r\nHost: {address}\r\n{more}\r\n"))
    }

    #[test]
    fn metrics_server_has_metrics_in_the_format_that_is_accepted() {
        let (address, _publisher) = server();
        let text = get(address, "/metrics", "");
        assert!(text.starts_with("HTTP/1.1 200 OK\r\n"), "{text}");
        assert!(text.contains("text/plain; version=0.0.4") && text.contains("windlass_build_info"), "{text}");
        let text = get(address, "/metrics", "Accept: application/openmetrics-text; version=1.0.0\r\n");
        assert!(text.contains("openmetrics-text") && text.ends_with("# EOF\n"), "{text}");
    }

    #[test]
    fn metrics_server_is_healthy_and_ready_only_when_the_agent_is() {
        let (address, publisher) = server();
        assert!(get(address, "/healthz", "").starts_with("HTTP/1.1 200"));
        assert!(get(address, "/readyz", "").starts_with("HTTP/1.1 503"));
        let well = Health { are_clocks_seen: true, is_covered: true, ..Health::default() };
        publisher.health(well.clone());
        assert!(get(address, "/readyz", "").starts_with("HTTP/1.1 200"));
        publisher.health(Health { standing: vec!["tap0".into()], ..well });
        let text = get(address, "/readyz", "");
        assert!(text.starts_with("HTTP/1.1 503") && text.contains("clock stands still: tap0"), "{text}");
    }

    #[test]
    fn metrics_server_refuses_foreign_names_other_methods_and_what_is_not_there() {
        let (address, _publisher) = server();
        let of = |host: &str| answer_to(address, &format!("GET /healthz HTTP/1.1\r\nHost: {host}\r\n\r\n"));
        for host in ["localhost", "LOCALHOST:9464", "127.0.0.1", "127.1.2.3:80", "[::1]:9464"] {
            assert!(of(host).starts_with("HTTP/1.1 200"), "{host}");
        }
        for host in ["example.net", "localhost.example.net:9464", "192.0.2.1", "[2001:db8::1]", ""] {
            assert!(of(host).starts_with("HTTP/1.1 403"), "{host}");
        }
        let absolute = "GET http://example.net/healthz HTTP/1.1\r\n\r\n";
        assert!(answer_to(address, absolute).starts_with("HTTP/1.1 403"));
        let post = format!("POST /metrics HTTP/1.1\r\nHost: {address}\r\nContent-Length: 0\r\n\r\n");
        assert!(answer_to(address, &post).starts_with("HTTP/1.1 405"));
        assert!(get(address, "/other", "").starts_with("HTTP/1.1 404"));
    }

    #[test]
    fn metrics_server_survives_huge_and_malformed_requests_and_more_connections_than_it_takes() {
        let (address, _publisher) = server();
        let huge = format!("GET /{} HTTP/1.1\r\n", "x".repeat(100_000));
        let many = "X: y\r\n".repeat(1000);
        for request in [huge.as_str(), "\0\0\0", "GET", "GET / HTTP/9.9\r\n\r\n", "\r\n\r\n\r\n"] {
            let mut stream = TcpStream::connect(address).expect("it listens");
            let _ = stream.write_all(request.as_bytes());
            let _ = stream.shutdown(Shutdown::Write);
            let mut answer = Vec::new();
            let _ = stream.read_to_end(&mut answer);
            assert!(!String::from_utf8_lossy(&answer).contains(" 200 "), "{request:.20}");
        }
        assert!(!get(address, "/healthz", &many).contains(" 200 "));
        // as many as it takes, which send nothing; further ones are closed at once
        let silent: Vec<TcpStream> = (0..Published::CONNECTIONS_MOST)
            .map(|_| TcpStream::connect(address).expect("it listens"))
            .collect();
        let mut further = TcpStream::connect(address).expect("it listens");
        assert_eq!(further.read(&mut [0; 16]).unwrap_or(0), 0, "it is closed");
        drop(silent);
        while !get(address, "/healthz", "").contains(" 200 ") {
            thread::yield_now();
        }
    }
}
