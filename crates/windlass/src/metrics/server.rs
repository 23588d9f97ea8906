//! The agent's HTTP server: /metrics, /healthz and /readyz. A thread of its own, without capabilities; whatever clients do, its memory
//! and its time are bounded.

use super::{exposition::Format, published::Published};
use crate::event_log::{About, EventLog};
use anyhow::{Context, Result};
use http_body_util::Full;
use hyper::{
    Method, Request, Response, StatusCode,
    body::{Bytes, Incoming},
    header::{ACCEPT, ALLOW, CONTENT_TYPE, HOST, HeaderValue},
    server::conn::http1,
    service::service_fn,
};
use hyper_util::rt::{TokioIo, TokioTimer};
use std::{
    convert::Infallible,
    io,
    net::{IpAddr, SocketAddr, TcpListener},
    sync::Arc,
    thread,
    time::Duration,
};
use tokio::{sync::Semaphore, time::timeout};

/// Connections at once; further ones are closed.
const CONNECTIONS_MOST: usize = 32;
/// A request must have come within so long.
const REQUEST_WITHIN: Duration = Duration::from_secs(5);
/// ... and its answer must be read.
const ANSWER_WITHIN: Duration = Duration::from_secs(10);
/// A request has neither more bytes, which is the least that hyper takes, nor more headers.
const REQUEST_MOST_BYTES: usize = 8 << 10;
const HEADERS_MOST: usize = 32;
/// How long it pauses when no connection can be taken, as there are too many open files.
const PAUSE: Duration = Duration::from_millis(100);

/// A socket that waits for connections. It is made before the agent gives up what that takes.
#[derive(Debug)]
pub struct Listening {
    listener: TcpListener,
    pub address: SocketAddr,
}

impl Listening {
    /// At this address; of port 0 the kernel chooses another.
    pub fn at(address: SocketAddr) -> Result<Listening> {
        let listen = || {
            let listener = TcpListener::bind(address)?;
            listener.set_nonblocking(true)?;
            let address = listener.local_addr()?;
            io::Result::Ok(Listening { listener, address })
        };
        listen().with_context(|| format!("--metrics {address}"))
    }

    /// Can only this machine reach it?
    pub fn is_local(&self) -> bool {
        self.address.ip().is_loopback()
    }
}

/// Answers requests from now on.
pub fn serve(listening: Listening, published: Arc<Published>, log: EventLog) -> Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().enable_time().build()?;
    let serve = move || {
        // what is read needs none
        if let Err(why) = windlass_agent::drop_all_capabilities() {
            log.warn(format_args!("the thread that serves metrics keeps its capabilities: {why}"));
        }
        runtime.block_on(accept(listening, published, log));
    };
    thread::Builder::new().name("metrics".into()).spawn(serve).context("a thread for metrics")?;
    Ok(())
}

async fn accept(listening: Listening, published: Arc<Published>, log: EventLog) {
    let is_local = listening.is_local();
    let listener = match tokio::net::TcpListener::from_std(listening.listener) {
        Ok(listener) => listener,
        Err(why) => return log.warn(format_args!("no metrics are served: {why}")),
    };
    // tasks are this thread's, one after the other
    let room = Arc::new(Semaphore::new(CONNECTIONS_MOST));
    loop {
        let stream = match listener.accept().await {
            Ok((stream, _)) => stream,
            Err(why) => {
                log.debug(About::Command, format_args!("no connection for metrics: {why}"));
                tokio::time::sleep(PAUSE).await;
                continue;
            }
        };
        // the connection is closed
        let Ok(place) = room.clone().try_acquire_owned() else { continue };
        let published = published.clone();
        tokio::spawn(async move {
            let answer = service_fn(|request| {
                let answer = answer(&request, &published, is_local);
                async move { Ok::<_, Infallible>(answer) }
            });
            let connection = http1::Builder::new()
                .timer(TokioTimer::new())
                .header_read_timeout(REQUEST_WITHIN)
                .max_buf_size(REQUEST_MOST_BYTES)
                .max_headers(HEADERS_MOST)
                .keep_alive(false)
                .serve_connection(TokioIo::new(stream), answer);
            // what a client does wrong, or does not do, is its own affair
            let _ = timeout(ANSWER_WITHIN, connection).await;
            drop(place);
        });
    }
}

type Answer = Response<Full<Bytes>>;

fn plain(status: StatusCode, words: impl Into<String>) -> Answer {
    let mut answer = Response::new(Full::new(Bytes::from(words.into() + "\n")));
    *answer.status_mut() = status;
    answer.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
    answer
}

fn answer(request: &Request<Incoming>, published: &Published, is_local: bool) -> Answer {
    let header =
        |name| request.headers().get(name).map(|value: &HeaderValue| value.to_str().unwrap_or_default());
    let host = header(HOST).or_else(|| request.uri().authority().map(|authority| authority.as_str()));
    if is_local && host.is_some_and(|host| !is_loopback(host)) {
        return plain(StatusCode::FORBIDDEN, "at this address only loopback names are served, as localhost");
    }
    if request.method() != Method::GET && request.method() != Method::HEAD {
        let mut answer = plain(StatusCode::METHOD_NOT_ALLOWED, "GET and HEAD");
        answer.headers_mut().insert(ALLOW, HeaderValue::from_static("GET, HEAD"));
        return answer;
    }
    match request.uri().path() {
        "/metrics" => {
            let format = Format::accepted(header(ACCEPT));
            match published.metrics(format) {
                Ok(text) => {
                    let mut answer = Response::new(Full::new(Bytes::from(text)));
                    let of_type = HeaderValue::from_static(format.content_type());
                    answer.headers_mut().insert(CONTENT_TYPE, of_type);
                    answer
                }
                Err(why) => plain(StatusCode::INTERNAL_SERVER_ERROR, why),
            }
        }
        "/healthz" => plain(StatusCode::OK, "the agent runs"),
        "/readyz" => match published.readiness() {
            Ok(words) => plain(StatusCode::OK, words),
            Err(why) => plain(StatusCode::SERVICE_UNAVAILABLE, why),
        },
        _ => plain(StatusCode::NOT_FOUND, "there are /metrics, /healthz and /readyz"),
    }
}

/// Whether a Host header names this machine itself. A page in a browser of this machine could have any other name lead here.
fn is_loopback(host: &str) -> bool {
    let without_port = match host.strip_prefix('[') {
        Some(rest) => rest.split(']').next().unwrap_or_default(),
        None => host.split(':').next().unwrap_or_default(),
    };
    let is_address = || without_port.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback());
    without_port.eq_ignore_ascii_case("localhost") || is_address()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{args::LogArgs, health::Health, metrics::Publisher};
    use std::{
        io::{Read, Write},
        net::{Shutdown, TcpStream},
    };

    /// A server of this test's own.
    fn server() -> (SocketAddr, Publisher) {
        let publisher = Publisher::default();
        let listening = Listening::at(([127, 0, 0, 1], 0).into()).expect("a free port");
        let address = listening.address;
        serve(listening, publisher.published(), EventLog::new(&LogArgs::default(), false)).expect("a thread");
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
        let silent: Vec<TcpStream> =
            (0..CONNECTIONS_MOST).map(|_| TcpStream::connect(address).expect("it listens")).collect();
        let mut further = TcpStream::connect(address).expect("it listens");
        assert_eq!(further.read(&mut [0; 16]).unwrap_or(0), 0, "it is closed");
        drop(silent);
        while !get(address, "/healthz", "").contains(" 200 ") {
            thread::yield_now();
        }
    }
}
