//! Answers: a text, or a stream that goes on.

use http_body_util::{
    Either, Full,
    channel::{Channel, Sender},
};
use hyper::{
    Response, StatusCode,
    body::Bytes,
    header::{CONTENT_TYPE, HeaderValue},
};
use std::io;

type Body = Either<Full<Bytes>, Channel<Bytes, io::Error>>;

pub type Answer = Response<Body>;

/// Among the extensions of an answer: it goes on until its client, or who sends it, ends it.
#[derive(Clone, Copy, Debug)]
pub struct Endless;

/// This text, of that type.
pub fn with(status: StatusCode, content_type: &'static str, text: impl Into<Bytes>) -> Answer {
    let mut answer = Response::new(Either::Left(Full::new(text.into())));
    *answer.status_mut() = status;
    answer.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    answer
}

/// A line for people.
pub fn plain(status: StatusCode, words: impl Into<String>) -> Answer {
    with(status, "text/plain; charset=utf-8", words.into() + "\n")
}

/// A stream of that type, and what sends it: one part is on its way at most.
pub fn stream(content_type: &'static str) -> (Answer, Sender<Bytes, io::Error>) {
    let (sender, body) = Channel::new(1);
    let mut answer = Response::new(Either::Right(body));
    answer.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    answer.extensions_mut().insert(Endless);
    (answer, sender)
}
