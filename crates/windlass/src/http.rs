//! An HTTP server for what is read of an agent: its metrics, and pages in a browser. Whatever clients do, its memory and its time are
//! bounded. It runs in a thread without capabilities.

mod answer;
mod host;

pub use answer::{Answer, Endless, plain, stream, with};
pub use host::Hosts;

use crate::event_log::{About, EventLog};
use anyhow::{Context, Result};
use hyper::{
    Method, Request, StatusCode,
    body::Incoming,
    header::{ACCEPT, ALLOW, HOST, HeaderValue},
    server::conn::http1,
    service::service_fn,
};
use hyper_util::rt::{TokioIo, TokioTimer};
use std::{
    convert::Infallible,
    io,
    net::{SocketAddr, TcpListener},
    pin::pin,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::Duration,
};
use tokio::{net::TcpStream, sync::Semaphore, time::timeout};

/// A request must have come within so long.
const REQUEST_WITHIN: Duration = Duration::from_secs(5);
/// ... and its answer must be read, unless it has no end.
const ANSWER_WITHIN: Duration = Duration::from_secs(10);
/// A request has neither more bytes, which is the least that hyper takes, nor more headers.
const REQUEST_MOST_BYTES: usize = 8 << 10;
const HEADERS_MOST: usize = 32;
/// How long it pauses when no connection can be taken, as there are too many open files.
const PAUSE: Duration = Duration::from_millis(100);

/// A socket that waits for connections. It is made before the process gives up what that takes.
#[derive(Debug)]
pub struct Listening {
    listener: TcpListener,
    pub address: SocketAddr,
}

impl Listening {
    /// At this address, which `option` names; of port 0 the kernel chooses another.
    pub fn at(address: SocketAddr, option: &str) -> Result<Listening> {
        let listen = || {
            let listener = TcpListener::bind(address)?;
            listener.set_nonblocking(true)?;
            let address = listener.local_addr()?;
            io::Result::Ok(Listening { listener, address })
        };
        listen().with_context(|| format!("{option} {address}"))
    }

    /// Can only this machine reach it?
    pub fn is_local(&self) -> bool {
        self.address.ip().is_loopback()
    }
}

/// What a client asks for.
#[derive(Debug)]
pub struct Asked {
    pub path: String,
    /// What follows the path's question mark.
    pub query: String,
    /// The header of that name.
    pub accept: Option<String>,
}

/// What is served.
pub trait Site: Send + Sync + 'static {
    /// Its name, for the log.
    const NAME: &'static str;
    /// Connections at once; further ones are closed.
    const CONNECTIONS_MOST: usize;

    /// What it has for GET. The thread is that of all connections: it must not wait for long but by `await`.
    fn answer(self: Arc<Self>, asked: Asked) -> impl Future<Output = Answer> + Send;
}

/// Answers requests from now on, in a thread of its own.
pub fn serve<S: Site>(listening: Listening, hosts: Hosts, site: Arc<S>, log: EventLog) -> Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().enable_time().build()?;
    let serve = move || {
        // what is read needs none
        if let Err(why) = windlass_agent::drop_all_capabilities() {
            log.warn(format_args!("the thread that serves {} keeps its capabilities: {why}", S::NAME));
        }
        runtime.block_on(accept(listening, Arc::new(hosts), site, log));
    };
    thread::Builder::new()
        .name(S::NAME.into())
        .spawn(serve)
        .with_context(|| format!("a thread for {}", S::NAME))?;
    Ok(())
}

async fn accept<S: Site>(listening: Listening, hosts: Arc<Hosts>, site: Arc<S>, log: EventLog) {
    let listener = match tokio::net::TcpListener::from_std(listening.listener) {
        Ok(listener) => listener,
        Err(why) => return log.warn(format_args!("no {} are served: {why}", S::NAME)),
    };
    // tasks are this thread's, one after the other
    let room = Arc::new(Semaphore::new(S::CONNECTIONS_MOST));
    loop {
        let stream = match listener.accept().await {
            Ok((stream, _)) => stream,
            Err(why) => {
                log.debug(About::Command, format_args!("no connection for {}: {why}", S::NAME));
                tokio::time::sleep(PAUSE).await;
                continue;
            }
        };
        // the connection is closed
        let Ok(place) = room.clone().try_acquire_owned() else { continue };
        let (hosts, site) = (hosts.clone(), site.clone());
        tokio::spawn(async move {
            connection(stream, hosts, site).await;
            drop(place);
        });
    }
}

/// Answers one request.
async fn connection<S: Site>(stream: TcpStream, hosts: Arc<Hosts>, site: Arc<S>) {
    let has_no_end = Arc::new(AtomicBool::new(false));
    let answer = service_fn(|request| {
        let (hosts, site, has_no_end) = (hosts.clone(), site.clone(), has_no_end.clone());
        async move {
            let answer = checked(&request, &hosts, site).await;
            has_no_end.store(answer.extensions().get::<Endless>().is_some(), Ordering::Relaxed);
            Ok::<_, Infallible>(answer)
        }
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(REQUEST_WITHIN)
        .max_buf_size(REQUEST_MOST_BYTES)
        .max_headers(HEADERS_MOST)
        .keep_alive(false)
        .serve_connection(TokioIo::new(stream), answer);
    let mut connection = pin!(connection);
    // what a client does wrong, or does not do, is its own affair
    let is_late = timeout(ANSWER_WITHIN, &mut connection).await.is_err();
    if is_late && has_no_end.load(Ordering::Relaxed) {
        let _ = connection.await;
    }
}

/// What the site has for a request that may be made.
async fn checked<S: Site>(request: &Request<Incoming>, hosts: &Hosts, site: Arc<S>) -> Answer {
    let header =
        |name| request.headers().get(name).map(|value: &HeaderValue| value.to_str().unwrap_or_default());
    let host = header(HOST).or_else(|| request.uri().authority().map(|authority| authority.as_str()));
    if let Some(why) = host.and_then(|host| hosts.refuse(host)) {
        return plain(StatusCode::FORBIDDEN, why);
    }
    if request.method() != Method::GET && request.method() != Method::HEAD {
        let mut answer = plain(StatusCode::METHOD_NOT_ALLOWED, "GET and HEAD");
        answer.headers_mut().insert(ALLOW, HeaderValue::from_static("GET, HEAD"));
        return answer;
    }
    let uri = request.uri();
    let asked = Asked {
        path: uri.path().into(),
        query: uri.query().unwrap_or_default().into(),
        accept: header(ACCEPT).map(String::from),
    };
    site.answer(asked).await
}
