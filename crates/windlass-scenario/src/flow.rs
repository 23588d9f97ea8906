//! Flows: which host sends what to which, and when. A flow is a connection on which responses follow each other, or a
//! connection for each response. What is random about it is drawn here, so that all homes send the same.

use crate::{Bytes, Dist, Fraction, Page, Rate, Span, cdf_file, scenario::MAX_TIME, unitless};
use rand::{RngCore, SeedableRng};
use rand_xoshiro::SplitMix64;
use serde::{Deserialize, Deserializer, Serialize};
use std::path::Path;

/// How many connections a flow makes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Connections {
    /// One, on which all responses come.
    #[default]
    Persistent,
    /// A new one for each response.
    PerResponse,
}

/// Which side connects, and which decides when a response begins.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Application {
    /// The receiver requests each response over HTTP; responses have heads.
    #[default]
    Http,
    /// The sender writes by its own clock, with neither requests nor heads. Only simulated.
    Push,
    /// The same, and the sender connects. Only simulated.
    Upload,
    /// The sender writes datagrams by its own clock, whatever becomes of them: a response is as many as it fills. Only simulated.
    Udp,
}

/// How long a response is.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Size {
    /// So many bytes.
    Bytes(Dist<Bytes>),
    /// What the flow has not sent yet of so much: { rest_of = "1 MB" }.
    RestOf(Bytes),
    /// It goes on until the flow stops, or the run: "unlimited".
    Unlimited,
    /// By the distribution in a file: { cdf_file = "websearch.cdf" }. A scenario that has been read has `Bytes` instead.
    CdfFile(String),
    /// It is a page of several objects: { objects = 40, each = "20 kB" }.
    Page(Page),
}

impl Size {
    /// Reads the file of a distribution, whose name counts from `folder`. An error begins with the key.
    pub(crate) fn load(&mut self, folder: &Path) -> Result<(), String> {
        match self {
            Size::CdfFile(file) => {
                let dist = cdf_file::load(folder, file).map_err(|what| format!("size: cdf_file: {what}"))?;
                *self = Size::Bytes(dist);
                Ok(())
            }
            Size::Page(page) => page.each.load(folder),
            Size::Bytes(_) | Size::RestOf(_) | Size::Unlimited => Ok(()),
        }
    }
}

impl<'de> Deserialize<'de> for Size {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        let value = toml::Value::deserialize(d)?;
        if value.as_str() == Some("unlimited") {
            return Ok(Size::Unlimited);
        }
        let wrong = serde::de::Error::custom;
        if let Some(file) = value.get("cdf_file") {
            let is_alone = value.as_table().is_some_and(|t| t.len() == 1);
            return match file.as_str().filter(|_| is_alone) {
                Some(file) => Ok(Size::CdfFile(file.into())),
                None => Err(wrong("cdf_file stands alone, with a name: { cdf_file = \"sizes.cdf\" }".into())),
            };
        }
        if value.get("objects").is_some() {
            return Page::deserialize(value).map(Size::Page).map_err(|e| wrong(e.message().to_string()));
        }
        match value.get("rest_of") {
            Some(_) if value.as_table().is_some_and(|t| t.len() > 1) => {
                Err(wrong("rest_of stands alone: { rest_of = \"1 MB\" }".into()))
            }
            Some(total) => {
                let total = Bytes::deserialize(total.clone());
                total.map(Size::RestOf).map_err(|e| wrong(format!("rest_of: {}", e.message())))
            }
            None => Dist::deserialize(value).map(Size::Bytes).map_err(|e| wrong(e.message().to_string())),
        }
    }
}

/// What names of Windlass' own algorithms begin with.
const OWN: &str = "wl_";

/// Responses that follow each other.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, expecting = "a train: a table with count, size and so on")]
pub struct Train {
    /// When the first one may be requested, from the beginning of the run; none: when the one before it is complete.
    pub start: Option<Span>,
    /// How many; none: until `until`.
    #[serde(default, deserialize_with = "unitless::whole_within::<1, { u32::MAX }, _>")]
    pub count: Option<u32>,
    /// How long each is.
    pub size: Size,
    /// From the end of one to the request of the next; neither this nor `interval`: 0.
    pub gap: Option<Dist<Span>>,
    /// From one request to the next, whether or not it was answered.
    pub interval: Option<Dist<Span>>,
    /// Payload that is requested per second in the mean, instead of `interval`: requests come as a Poisson process.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub load: Option<Load>,
    /// The same with even intervals: a constant bit rate.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rate: Option<Rate>,
    /// Nothing is requested from then on.
    pub until: Option<Span>,
}

/// What responses come to in the mean.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(untagged)]
pub enum Load {
    /// A rate of payload.
    Rate(Rate),
    /// A share of the rate of the sender's link.
    Share(Fraction),
}

impl<'de> Deserialize<'de> for Load {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        let value = toml::Value::deserialize(d)?;
        let wrong =
            || serde::de::Error::custom("write \"60 %\" of the sender's link, or \"6 Gbit/s\" of payload");
        let text = value.as_str().ok_or_else(wrong)?;
        let share = text.parse().map(Load::Share);
        share.or_else(|_| text.parse().map(Load::Rate)).map_err(|_: String| wrong())
    }
}

/// A flow from one host to another.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Flow {
    /// The sender.
    pub from: String,
    /// The receiver.
    pub to: String,
    /// With a connection for each response: each has a receiver of its own at random, of the hosts whose names begin so
    /// ("host-*"), and `to` is one of them; none: `to` receives all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub to_each: Option<String>,
    /// When the first connection begins.
    pub start: Span,
    /// When the flow ends, whatever it has sent by then; none: when all is sent.
    pub stop: Option<Span>,
    /// Congestion control of the sender's own kernel.
    pub algorithm: String,
    /// Kind of flow, for reports and claims; may be empty.
    pub class: String,
    /// Whose flow it is, for reports and claims; may be empty.
    pub tenant: String,
    /// Group that the sender's own kernel couples it in; none: it is on its own.
    pub group: Option<String>,
    /// Weight in its group, that of the box included; of the whole sending host if the group has weights per server.
    pub weight: i64,
    /// Most that its receiver ever offers; none: as much as the system has.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub receive_window_max: Option<Bytes>,
    /// Of its packets where a link has strict priorities: 0, which is sent first, to 7.
    #[serde(skip_serializing_if = "is_first")]
    pub priority: u8,
    /// How many connections it makes.
    pub connections: Connections,
    /// Which side decides when a response begins.
    pub application: Application,
    /// What is sent, one train after the other.
    pub trains: Vec<Train>,
}

fn is_first(priority: &u8) -> bool {
    *priority == 0
}

impl Flow {
    /// A transfer of `size` at once, by CUBIC.
    pub fn transfer(from: &str, to: &str, size: Bytes) -> Flow {
        Flow {
            from: from.into(),
            to: to.into(),
            to_each: None,
            start: Span(0.0),
            stop: None,
            algorithm: "cubic".into(),
            class: String::new(),
            tenant: String::new(),
            group: None,
            weight: 1,
            receive_window_max: None,
            priority: 0,
            connections: Connections::Persistent,
            application: Application::Http,
            trains: vec![Train::once(Size::Bytes(Dist::Constant(size)))],
        }
    }

    /// "a > b", or "a > host-*"
    pub fn name(&self) -> String {
        format!("{} > {}", self.from, self.to_each.as_ref().unwrap_or(&self.to))
    }

    /// Name of the algorithm of Windlass that its sender's kernel runs: "bbr" of "wl_bbr"; none: it is one of the kernel.
    pub fn own_algorithm(&self) -> Option<&str> {
        self.algorithm.strip_prefix(OWN)
    }

    /// Whether it goes on until it is stopped, or the run is.
    pub fn is_unlimited(&self) -> bool {
        self.trains.iter().any(|t| t.size == Size::Unlimited)
    }

    /// Whether it loads pages.
    pub fn loads_pages(&self) -> bool {
        self.trains.iter().any(|t| matches!(t.size, Size::Page(_)))
    }

    /// What is fetched, if the flow is one response of a fixed size, requested at once.
    pub fn single_size(&self) -> Option<u64> {
        match self.trains.as_slice() {
            [
                Train {
                    start: None,
                    count: Some(1),
                    size: Size::Bytes(Dist::Constant(size)),
                    until: None,
                    ..
                },
            ] if self.stop.is_none() => Some(size.count()),
            _ => None,
        }
    }
}

impl Train {
    /// One response, requested as soon as possible.
    pub fn once(size: Size) -> Train {
        Train {
            start: None,
            count: Some(1),
            size,
            gap: None,
            interval: None,
            load: None,
            rate: None,
            until: None,
        }
    }

    /// Reads the file of its sizes, whose name counts from `folder`. An error begins with the key.
    pub(crate) fn load_size(&mut self, folder: &Path) -> Result<(), String> {
        self.size.load(folder)
    }

    /// Has requests come at its load, of a sender whose link has this rate.
    pub(crate) fn set_interval(&mut self, link: Result<Rate, String>) -> Result<(), String> {
        let Some(load) = self.load.or(self.rate.map(Load::Rate)) else { return Ok(()) };
        let key = if self.load.is_some() { "load" } else { "rate" };
        let wrong = |what: String| Err(format!("{key}: {what}"));
        if self.interval.is_some() || self.gap.is_some() {
            return wrong(
                "the time from one request to the next follows from it; leave out interval and gap".into(),
            );
        }
        if self.load.is_some() && self.rate.is_some() {
            return wrong("random intervals; rate has even ones: leave one of them out".into());
        }
        let mean = match &self.size {
            Size::Bytes(size) => size.mean(),
            Size::Page(page) => page.mean(),
            Size::RestOf(_) | Size::Unlimited | Size::CdfFile(_) => {
                return wrong("it needs a size in the mean; give a value or a distribution".into());
            }
        };
        let rate = match load {
            Load::Rate(rate) => rate,
            Load::Share(share) => Rate(link.map_err(|what| format!("load: {what}"))?.0 * share.0),
        };
        if rate.0 <= 0.0 {
            return wrong("more than 0".into());
        }
        let mean = Span(mean.0 * 8.0 / rate.0);
        self.interval =
            Some(if self.load.is_some() { Dist::Exponential(mean) } else { Dist::Constant(mean) });
        Ok(())
    }

    /// Whether time passes from one response to the next, whatever the network.
    fn has_pauses(&self) -> bool {
        let pause = self.interval.as_ref().or(self.gap.as_ref());
        self.load.is_some()
            || self.rate.is_some()
            || pause.is_some_and(|p| p.most().is_none_or(|most| most.ns() > 0))
    }

    /// Whether its content can be done; an error begins with the key. `is_last`: no other follows.
    pub fn check(&self, is_last: bool) -> Result<(), String> {
        if self.gap.is_some() && self.interval.is_some() {
            return Err(
                "gap and interval exclude each other: a gap begins when a response is complete".into()
            );
        }
        let start = self.start.map(Dist::Constant);
        for (key, span) in [("start", &start), ("gap", &self.gap), ("interval", &self.interval)] {
            // of one without a bound, its mean
            let is_too_long = |dist: &Dist<Span>| dist.most().unwrap_or_else(|| dist.mean()) > MAX_TIME;
            if span.as_ref().is_some_and(is_too_long) {
                return Err(format!("{key}: at most {MAX_TIME}, as long as a run"));
            }
        }
        match (self.count, self.until) {
            (None, None) => return Err("count: how many responses? Give a count, or until".into()),
            // nothing would ever end it
            (None, _) if !self.has_pauses() => {
                return Err("until: without a gap or interval their number is not known; give one".into());
            }
            _ => {}
        }
        if let (Some(start), Some(until)) = (self.start, self.until)
            && until <= start
        {
            return Err(format!("until = \"{until}\": the train begins at {start}; end it later"));
        }
        if self.size == Size::Unlimited && (self.count != Some(1) || !is_last) {
            return Err(
                "size: nothing can follow what is unlimited; give it count = 1, as the last train".into()
            );
        }
        if let Size::Page(page) = &self.size {
            page.check().map_err(|what| format!("size: {what}"))?;
        }
        let bytes = match &self.size {
            Size::Page(page) => Some((page.each().least(), page.each().most())),
            Size::Bytes(dist) => Some((dist.least(), dist.most())),
            Size::RestOf(total) => Some((*total, Some(*total))),
            Size::Unlimited | Size::CdfFile(_) => None,
        };
        match bytes {
            // what is drawn from 0 on is 1 B at least
            Some((least, Some(_))) if least.count() == 0 => Err("size: at least 1 B".into()),
            Some((_, most)) if most.is_some_and(|m| m.0 > MAX_SIZE_BYTES) => {
                Err(format!("size: at most {}", Bytes(MAX_SIZE_BYTES)))
            }
            _ => Ok(()),
        }
    }
}

const MAX_SIZE_BYTES: f64 = 1e11;

/// When a response is requested, besides the train's own times.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum After {
    /// So many ns after the response before it is complete.
    Response(u64),
    /// So many ns after the request before it.
    Request(u64),
}

/// A response to be requested.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Planned {
    /// Its length; none: unlimited.
    pub size_bytes: Option<u64>,
    /// When, after what came before it; the first one of a flow has nothing before it.
    pub after: After,
    /// But not earlier than this, from the beginning of the run.
    pub not_before_ns: u64,
    /// If that is not before this, its train is over; none: no matter.
    pub until_ns: Option<u64>,
    /// Of a page, its train and the seed of its objects, whose lengths add up to `size_bytes`; none: it is one response.
    pub page: Option<(u32, u64)>,
}

/// Draws the responses of a flow, one after the other.
#[derive(Clone, Debug)]
pub struct Plan {
    rng: SplitMix64,
    train: u32,
    /// Responses of this train that were drawn.
    drawn: u32,
    /// Bytes of all that were drawn and not left out.
    total_bytes: u64,
}

impl Plan {
    /// The responses of flow `index` of a scenario with this seed.
    pub fn new(scenario_seed: u64, index: usize) -> Plan {
        let place = (index as u64 + 1) << 24;
        Plan { rng: SplitMix64::seed_from_u64(scenario_seed ^ place), train: 0, drawn: 0, total_bytes: 0 }
    }

    /// The next one; none: that was all.
    pub fn next(&mut self, flow: &Flow) -> Option<Planned> {
        let train = loop {
            let train = flow.trains.get(self.train as usize)?;
            let is_empty = matches!(train.size, Size::RestOf(total) if total.count() <= self.total_bytes);
            if train.count.is_none_or(|count| self.drawn < count) && !is_empty {
                break train;
            }
            self.begin_next_train();
        };
        let is_first = self.drawn == 0;
        self.drawn += 1;
        let mut page = None;
        let size_bytes = match &train.size {
            Size::Page(objects) => {
                let seed = self.rng.next_u64();
                page = Some((self.train, seed));
                Some(objects.draw(seed).iter().sum())
            }
            // less than a byte is no response
            Size::Bytes(dist) => Some(dist.draw(&mut self.rng).count().max(1)),
            Size::RestOf(total) => Some(total.count() - self.total_bytes),
            Size::Unlimited | Size::CdfFile(_) => None,
        };
        self.total_bytes += size_bytes.unwrap_or(0);
        let after = match (is_first, &train.interval, &train.gap) {
            // at a load the first is random as well, or flows that begin together would all request at once
            (true, Some(interval), _) if train.load.is_some() => {
                After::Request(interval.draw(&mut self.rng).ns())
            }
            (true, ..) => After::Response(0),
            (false, Some(interval), _) => After::Request(interval.draw(&mut self.rng).ns()),
            (false, None, Some(gap)) => After::Response(gap.draw(&mut self.rng).ns()),
            (false, None, None) => After::Response(0),
        };
        let not_before_ns = train.start.filter(|_| is_first).map_or(0, Span::ns);
        Some(Planned { size_bytes, after, not_before_ns, until_ns: train.until.map(Span::ns), page })
    }

    /// Leaves the rest of the train out, `next` first, which was drawn but will not be requested.
    pub fn skip_train(&mut self, next: &Planned) {
        self.total_bytes -= next.size_bytes.unwrap_or(0);
        self.begin_next_train();
    }

    fn begin_next_train(&mut self) {
        self.train += 1;
        self.drawn = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flow(trains: &str) -> Flow {
        #[derive(Deserialize)]
        struct Table {
            train: Vec<Train>,
        }
        let table: Table = toml::from_str(trains).unwrap_or_else(|e| panic!("{e}"));
        for (i, train) in table.train.iter().enumerate() {
            train.check(i + 1 == table.train.len()).unwrap();
        }
        Flow { trains: table.train, ..Flow::transfer("a", "b", Bytes(1.0)) }
    }

    fn all(flow: &Flow, seed: u64) -> Vec<Planned> {
        let mut plan = Plan::new(seed, 0);
        std::iter::from_fn(|| plan.next(flow)).collect()
    }

    #[test]
    fn a_transfer_is_one_response() {
        let flow = Flow::transfer("a", "b", Bytes(1000.0));
        let only = Planned {
            size_bytes: Some(1000),
            after: After::Response(0),
            not_before_ns: 0,
            until_ns: None,
            page: None,
        };
        assert_eq!(all(&flow, 1), [only]);
        assert_eq!(flow.single_size(), Some(1000));
    }

    #[test]
    fn trains_follow_each_other() {
        let flow = flow(
            "[[train]]\nstart = \"100 ms\"\ncount = 3\nsize = { uniform = [\"2 kB\", \"10 kB\"] }\n\
             interval = \"1 ms\"\n[[train]]\nstart = \"500 ms\"\ncount = 1\nsize = { rest_of = \"1 MB\" }\n",
        );
        let planned = all(&flow, 1);
        assert_eq!(planned.len(), 4);
        assert_eq!(planned.iter().map(|p| p.size_bytes.unwrap()).sum::<u64>(), 1_000_000);
        assert_eq!(planned[0].not_before_ns, 100_000_000);
        assert_eq!((planned[1].after, planned[1].not_before_ns), (After::Request(1_000_000), 0));
        assert_eq!((planned[3].after, planned[3].not_before_ns), (After::Response(0), 500_000_000));
        assert_ne!(all(&flow, 2), planned, "another seed, other sizes");
        assert_eq!(all(&flow, 1), planned);
    }

    #[test]
    fn a_train_can_be_left() {
        let flow = flow(
            "[[train]]\nuntil = \"1 s\"\nsize = \"1 kB\"\ngap = { exponential = \"1 ms\" }\n\
             [[train]]\ncount = 1\nsize = \"unlimited\"\n",
        );
        let mut plan = Plan::new(1, 0);
        for _ in 0..100 {
            assert_eq!(plan.next(&flow).unwrap().until_ns, Some(1_000_000_000));
        }
        let last = plan.next(&flow).unwrap();
        plan.skip_train(&last);
        assert_eq!(plan.next(&flow).unwrap().size_bytes, None);
        assert_eq!(plan.next(&flow), None);
        assert!(flow.is_unlimited() && flow.single_size().is_none());
    }

    #[test]
    fn mistakes_name_their_key() {
        let error = |text: &str| {
            let train: Train = toml::from_str(text).unwrap_or_else(|e| panic!("{e}"));
            train.check(false).unwrap_err()
        };
        assert!(error("size = \"1 kB\"").starts_with("count"));
        assert!(error("size = \"1 kB\"\nuntil = \"1 s\"").starts_with("until"));
        // less than half a nanosecond is none
        assert!(error("size = \"1 kB\"\nuntil = \"1 s\"\ninterval = \"0.0004 us\"").starts_with("until"));
        assert!(error("size = \"1 kB\"\ncount = 1\nstart = \"2 s\"\nuntil = \"1 s\"").starts_with("until"));
        assert!(error("size = \"unlimited\"\ncount = 1").starts_with("size"));
        assert!(error("size = \"0 B\"\ncount = 1").starts_with("size"));
        assert!(error("size = \"1000 GB\"\ncount = 1").starts_with("size"));
        for key in [
            "start = \"86401 s\"",
            "gap = { uniform = [\"0 s\", \"1000000 s\"] }",
            "interval = \"4503600 s\"",
        ] {
            let e = error(&format!("size = \"1 kB\"\ncount = 1\n{key}"));
            assert!(key.starts_with(e.split(':').next().unwrap()) && e.contains("at most 86400 s"), "{e}");
        }
        assert!(error("size = \"1 kB\"\ncount = 1\ngap = \"1 s\"\ninterval = \"1 s\"").starts_with("gap"));
        let wrong = |text: &str| toml::from_str::<Train>(text).unwrap_err().message().to_string();
        assert!(wrong("size = \"1 kb\"\ncount = 1").contains("kB"));
        let e = wrong("size = { rest_of = 5 }\ncount = 1");
        assert!(e.starts_with("rest_of: ") && e.contains("in quotes, e.g. \"10 MB\""), "{e}");
        assert!(wrong("size = \"1 kB\"\ncount = 0").contains("a whole number from 1 to 4294967295"));
    }
}
