//! One request, one answer, over a connection of its own: to etcd, and to the agent of this machine.

use http_body_util::{BodyExt, Full, Limited};
use hyper::{
    Method, Request, StatusCode,
    body::{Bytes, Incoming},
    client::conn::http1,
    header::{CONTENT_TYPE, HOST},
};
use hyper_util::rt::TokioIo;
use std::{fmt, str::FromStr, time::Duration};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::{TcpStream, UnixStream},
    time::timeout,
};

/// An answer that has not come by then does not.
pub const ANSWER_WITHIN: Duration = Duration::from_secs(5);
/// Longer answers are refused: the statuses of ten thousand nodes are shorter.
const ANSWER_MOST_BYTES: usize = 64 << 20;

/// A server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Endpoint {
    /// At this host and port.
    Tcp(String),
    /// At this socket of this machine.
    Unix(String),
}

impl FromStr for Endpoint {
    type Err = String;

    fn from_str(text: &str) -> Result<Endpoint, String> {
        if let Some(path) = text.strip_prefix("unix:") {
            let path = path.strip_prefix("//").unwrap_or(path);
            return match path.is_empty() {
                true => Err(format!("'{text}': a socket's path comes behind unix:")),
                false => Ok(Endpoint::Unix(path.into())),
            };
        }
        if text.starts_with("https://") {
            return Err(format!(
                "'{text}': this program has no TLS; let a tunnel of this machine have it, as stunnel or `ssh -L`, and name that"
            ));
        }
        let rest = text
            .strip_prefix("http://")
            .ok_or_else(|| format!("'{text}': write http://HOST:PORT or unix:PATH"))?;
        let address = rest.strip_suffix('/').unwrap_or(rest);
        let port = address.rsplit_once(':').and_then(|(host, port)| {
            let is_host = !host.is_empty() && !host.contains(['/', '@', '?', '#', ' ']);
            is_host.then(|| port.parse::<u16>().ok()).flatten()
        });
        match port {
            Some(1..) => Ok(Endpoint::Tcp(address.into())),
            _ => Err(format!("'{text}': write http://HOST:PORT")),
        }
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Endpoint::Tcp(address) => write!(f, "http://{address}"),
            Endpoint::Unix(path) => write!(f, "unix:{path}"),
        }
    }
}

/// An answer whose body is still to come.
pub struct Answer {
    /// What the server thinks of the request.
    pub status: StatusCode,
    body: Incoming,
}

impl Answer {
    /// All of its body.
    pub async fn text(self) -> Result<String, String> {
        let body = timeout(ANSWER_WITHIN, Limited::new(self.body, ANSWER_MOST_BYTES).collect());
        let body = body.await.map_err(|_| late())?.map_err(|why| why.to_string())?;
        String::from_utf8(body.to_bytes().into()).map_err(|_| "the answer is no UTF-8".into())
    }

    /// The next part of a body that goes on, whenever it comes. None: it has ended.
    pub async fn next_part(&mut self) -> Result<Option<Bytes>, String> {
        loop {
            match self.body.frame().await {
                None => return Ok(None),
                Some(Err(why)) => return Err(why.to_string()),
                Some(Ok(frame)) => {
                    if let Ok(data) = frame.into_data() {
                        return Ok(Some(data));
                    }
                }
            }
        }
    }
}

fn late() -> String {
    format!("no answer within {} s", ANSWER_WITHIN.as_secs())
}

/// Sends a request with this body, none: a GET; returns once the head of its answer is there.
pub async fn request(endpoint: &Endpoint, path: &str, body: Option<String>) -> Result<Answer, String> {
    let (method, host) = (
        if body.is_some() { Method::POST } else { Method::GET },
        match endpoint {
            Endpoint::Tcp(address) => address.as_str(),
            Endpoint::Unix(_) => "localhost",
        },
    );
    let request = Request::builder()
        .method(method)
        .uri(path)
        .header(HOST, host)
        .header(CONTENT_TYPE, "application/json")
        .body(Full::new(Bytes::from(body.unwrap_or_default())))
        .map_err(|why| why.to_string())?;
    let answer = async {
        match endpoint {
            Endpoint::Tcp(address) => over(TcpStream::connect(address).await, request).await,
            Endpoint::Unix(path) => over(UnixStream::connect(path).await, request).await,
        }
    };
    timeout(ANSWER_WITHIN, answer).await.map_err(|_| late())?
}

async fn over<S>(stream: std::io::Result<S>, request: Request<Full<Bytes>>) -> Result<Answer, String>
where
    S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    let stream = stream.map_err(|why| why.to_string())?;
    let (mut sender, connection) =
        http1::handshake(TokioIo::new(stream)).await.map_err(|why| why.to_string())?;
    // ends with the answer's body, or when that is dropped
    tokio::spawn(connection);
    let answer = sender.send_request(request).await.map_err(|why| why.to_string())?;
    let status = answer.status();
    Ok(Answer { status, body: answer.into_body() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn endpoints_are_http_or_a_socket_of_this_machine() {
        let read = |text: &str| text.parse::<Endpoint>();
        assert_eq!(read("http://10.0.0.1:2379/"), Ok(Endpoint::Tcp("10.0.0.1:2379".into())));
        assert_eq!(read("http://[::1]:2379").unwrap().to_string(), "http://[::1]:2379");
        assert_eq!(read("unix:/run/etcd.sock"), Ok(Endpoint::Unix("/run/etcd.sock".into())));
        assert_eq!(read("unix:///run/etcd.sock").unwrap().to_string(), "unix:/run/etcd.sock");
        assert!(read("https://etcd:2379").unwrap_err().contains("stunnel"));
        for wrong in [
            "",
            "etcd:2379",
            "http://",
            "http://etcd",
            "http://etcd:0",
            "http://etcd:70000",
            "http://a/b:1",
            "unix:",
        ] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
    }
}
