//! The paths of `windlass web`.

use super::{agent::Agent, events::Events, files};
use crate::{
    event_log::{About, EventLog},
    http::{Answer, Asked, Site, plain, with},
    readers::{FlowName, Found, PAGE_MOST, Page, Question},
};
use hyper::{
    StatusCode,
    header::{CACHE_CONTROL, HeaderMap, HeaderName, HeaderValue},
};
use std::sync::{Arc, Once};

const JSON: &str = "application/json";

/// Of each answer. Nothing is fetched from elsewhere, nothing runs that is not a file of this program, no other site shows the pages
/// in a frame of its own or reads what they read.
const HEADERS: [(&str, &str); 7] = [
    (
        "content-security-policy",
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; base-uri 'none'; \
         form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'",
    ),
    ("x-content-type-options", "nosniff"),
    ("referrer-policy", "no-referrer"),
    ("cross-origin-opener-policy", "same-origin"),
    ("cross-origin-resource-policy", "same-origin"),
    ("permissions-policy", "camera=(), geolocation=(), microphone=()"),
    ("x-frame-options", "DENY"),
];

/// What is served: files, and the agent's answers.
#[derive(Debug)]
pub struct Pages {
    agent: Arc<Agent>,
    events: Arc<Events>,
    /// Words on top of all pages.
    notice: Option<String>,
    /// The first viewer is reported once.
    viewed: Once,
    log: EventLog,
}

impl Pages {
    pub fn new(agent: Agent, notice: Option<String>, log: EventLog) -> Pages {
        let agent = Arc::new(agent);
        Pages { agent, events: Arc::default(), notice, viewed: Once::new(), log }
    }

    async fn found(&self, asked: &Asked) -> Answer {
        if let (Some(notice), "/" | "/index.html") = (&self.notice, asked.path.as_str()) {
            let (content_type, text) = files::at("/").expect("the pages");
            return with(StatusCode::OK, content_type, with_notice(text, notice));
        }
        if let Some((content_type, text)) = files::at(&asked.path) {
            return with(StatusCode::OK, content_type, text);
        }
        match asked.path.as_str() {
            "/healthz" => plain(StatusCode::OK, "windlass web runs"),
            "/readyz" => match self.agent.ask(Question::Overview).await {
                (Found::Document, _) => plain(StatusCode::OK, "the agent answers"),
                (_, why) => plain(StatusCode::SERVICE_UNAVAILABLE, String::from_utf8_lossy(&why)),
            },
            "/api/v1/events" => match self.events.answer(&self.agent) {
                Some(answer) => {
                    self.viewed
                        .call_once(|| self.log.event("viewer", About::Command, "the pages have a viewer"));
                    answer
                }
                None => plain(StatusCode::SERVICE_UNAVAILABLE, "there are enough viewers"),
            },
            path => match path.strip_prefix("/api/v1/").map(|what| question(what, &asked.query)) {
                Some(Ok(Some(question))) => self.answer(question).await,
                Some(Err(why)) => of_why(StatusCode::BAD_REQUEST, &why),
                Some(Ok(None)) => of_why(
                    StatusCode::NOT_FOUND,
                    "below /api/v1/ there are overview, flows, flow, groups, counters and events",
                ),
                None => plain(StatusCode::NOT_FOUND, "there are /, /healthz, /readyz and /api/v1/"),
            },
        }
    }

    async fn answer(&self, question: Question) -> Answer {
        let (found, text) = self.agent.ask(question).await;
        let status = match found {
            Found::Document => return with(StatusCode::OK, JSON, text),
            Found::Nothing => StatusCode::NOT_FOUND,
            Found::Refused => StatusCode::BAD_REQUEST,
            Found::Failed => StatusCode::SERVICE_UNAVAILABLE,
        };
        of_why(status, &String::from_utf8_lossy(&text))
    }
}

/// The page with these words on top, whatever is in them.
fn with_notice(page: &str, notice: &str) -> String {
    let plain = notice.replace('&', "&amp;").replace('<', "&lt;");
    let before = "<p id=\"notice\"";
    page.replacen(before, &format!("<p class=\"notice given\">{plain}</p>\n{before}"), 1)
}

/// A document that has only the reason.
fn of_why(status: StatusCode, why: &str) -> Answer {
    with(status, JSON, serde_json::json!({ "why": why }).to_string())
}

fn add(headers: &mut HeaderMap) {
    for (name, value) in HEADERS {
        headers.insert(HeaderName::from_static(name), HeaderValue::from_static(value));
    }
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
}

impl Site for Pages {
    const NAME: &'static str = "pages";
    // a browser has up to six for each of its windows
    const CONNECTIONS_MOST: usize = 64;

    async fn answer(self: Arc<Self>, asked: Asked) -> Answer {
        let mut answer = self.found(&asked).await;
        add(answer.headers_mut());
        answer
    }
}

/// The question of a path below /api/v1/; none: there is no such path.
///
/// # Errors
/// A part of the query is none.
fn question(what: &str, query: &str) -> Result<Option<Question>, String> {
    let fields = || form_urlencoded::parse(query.as_bytes());
    let none_but = |known: &[&str]| match fields().find(|(name, _)| !known.contains(&name.as_ref())) {
        Some((name, _)) => Err(format!("no field '{name}'; there are: {}", known.join(", "))),
        None => Ok(()),
    };
    let field = |name: &str| fields().find(|(own, _)| own == name).map(|(_, value)| value.into_owned());
    let number = |name: &str, default: usize| match field(name) {
        None => Ok(default),
        Some(text) => text.parse::<usize>().map_err(|_| format!("{name} '{text}' is no number")),
    };
    let address = |name: &str| {
        let text = field(name).ok_or_else(|| format!("{name} is missing"))?;
        text.parse().map_err(|_| format!("{name} '{text}' is no address with its port, as 192.0.2.1:443"))
    };
    let question = match what {
        "overview" => Question::Overview,
        "groups" => Question::Groups,
        "counters" => Question::Counters,
        "flows" => {
            none_but(&["filter", "sort", "reverse", "offset", "limit"])?;
            Question::Flows(Page {
                filter: field("filter").unwrap_or_default(),
                sort: field("sort").filter(|name| !name.is_empty()),
                reverse: matches!(field("reverse").as_deref(), Some("1" | "true")),
                offset: number("offset", 0)?,
                limit: number("limit", 100)?.min(PAGE_MOST),
            })
        }
        "flow" => {
            none_but(&["iface", "sender", "receiver"])?;
            let iface = field("iface").ok_or("iface is missing")?;
            Question::Flow(FlowName { iface, sender: address("sender")?, receiver: address("receiver")? })
        }
        _ => return Ok(None),
    };
    if matches!(what, "overview" | "groups" | "counters") {
        none_but(&[])?;
    }
    Ok(Some(question))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_notice_is_on_top_of_the_page_as_words_only() {
        let (_, page) = files::at("/").expect("the pages");
        let page = with_notice(page, "a demo of <b> & more");
        let at = page.find("<p class=\"notice given\">a demo of &lt;b> &amp; more</p>").expect("it is there");
        assert!(page.find("<p id=\"notice\"").is_some_and(|other| at < other));
    }

    #[test]
    fn questions_are_made_of_paths_and_queries() {
        let query = "filter=state+controlled%20and%20dst%20192.0.2.0%2F24&sort=rate&offset=200&limit=9999";
        let page = Page {
            filter: "state controlled and dst 192.0.2.0/24".into(),
            sort: Some("rate".into()),
            reverse: false,
            offset: 200,
            limit: PAGE_MOST,
        };
        assert_eq!(question("flows", query), Ok(Some(Question::Flows(page))));
        assert_eq!(question("flows", ""), Ok(Some(Question::Flows(Page { limit: 100, ..Page::default() }))));
        let name = FlowName {
            iface: "tap0".into(),
            sender: "[2001:db8::1]:80".parse().unwrap(),
            receiver: "192.0.2.7:40112".parse().unwrap(),
        };
        let query = "iface=tap0&sender=%5B2001:db8::1%5D:80&receiver=192.0.2.7:40112";
        assert_eq!(question("flow", query), Ok(Some(Question::Flow(name))));
        assert_eq!(question("other", ""), Ok(None));
    }

    #[test]
    fn questions_with_fields_that_are_none_are_refused() {
        for (what, query, why) in [
            ("flows", "colour=1", "no field 'colour'; there are: filter"),
            ("flows", "offset=-1", "offset '-1' is no number"),
            ("flow", "iface=tap0&receiver=1.2.3.4:5", "sender is missing"),
            ("flow", "iface=tap0&sender=x", "sender 'x' is no address"),
            ("counters", "x", "no field 'x'"),
        ] {
            assert!(question(what, query).unwrap_err().contains(why), "{what} {query}");
        }
    }
}
