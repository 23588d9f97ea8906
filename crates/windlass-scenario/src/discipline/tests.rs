use super::*;
use crate::{LinkModel, Rate, Scenario, Verdict};

const MS: u64 = 1_000_000;

/// One that came at 0.
pub(super) fn packet(bytes: u64, flow: u32, ecn: Codepoint) -> Waiting<u64> {
    let label = Label { bytes, flow, ecn, ..Label::default() };
    Waiting { label, arrived_ns: 0, number: 0, is_marked: false, packet: 0 }
}

/// A link of hosts whose full packets have 1514 bytes.
pub(super) fn cable() -> Link {
    Link::cable(["a".into(), "b".into()])
}

/// 1250 bytes take 1 ms.
fn link(discipline: &str, buffer: Buffer) -> Link {
    #[derive(Deserialize)]
    struct Table {
        discipline: Discipline,
    }
    let table: Table =
        toml::from_str(&format!("discipline = {discipline}")).unwrap_or_else(|e| panic!("{e}"));
    Link { rate: Some(Rate(10e6)), buffer: Some(buffer), discipline: Some(table.discipline), ..cable() }
}

/// A direction of a link, as a home plays it.
struct Direction {
    model: LinkModel,
    queue: DisciplineQueue<u64>,
    out: Vec<(u64, u64)>,
    dropped: Vec<u64>,
}

impl Direction {
    fn new(link: &Link) -> Direction {
        let queue = DisciplineQueue::new(link, 1).expect("it has a discipline");
        Direction { model: LinkModel::new(link, false, 1), queue, out: Vec::new(), dropped: Vec::new() }
    }

    /// Packet `number` comes.
    fn offer(&mut self, now_ns: u64, label: Label, number: u64) {
        self.send_until(now_ns);
        self.queue.offer(&mut self.model, now_ns, label, number);
        self.dropped.extend(std::iter::from_fn(|| self.queue.take_dropped()));
        if self.model.idle_from_ns() <= now_ns {
            self.send(now_ns);
        }
    }

    fn send(&mut self, now_ns: u64) {
        if let Some((number, Verdict::Deliver { at_ns, .. })) = self.queue.next(&mut self.model, now_ns) {
            self.out.push((number, at_ns));
        }
        self.dropped.extend(std::iter::from_fn(|| self.queue.take_dropped()));
    }

    fn send_until(&mut self, until_ns: u64) {
        while !self.queue.is_empty() && self.model.idle_from_ns() <= until_ns {
            self.send(self.model.idle_from_ns());
        }
    }
}

fn label(flow: u32) -> Label {
    Label { bytes: 1250, flow, ..Label::default() }
}

/// Ten at once: the first is being sent, three more find room behind it.
#[test]
fn a_discipline_has_the_buffer_of_its_link() {
    for buffer in [Buffer::Packets(4), Buffer::Bytes(5000)] {
        for discipline in ["\"codel\"", "\"pie\"", "\"priority\""] {
            let mut direction = Direction::new(&link(discipline, buffer));
            (0..10).for_each(|number| direction.offer(5 * MS, label(0), number));
            direction.send_until(u64::MAX);
            let expected: Vec<(u64, u64)> = (0..4).map(|number| (number, (6 + number) * MS)).collect();
            assert_eq!((direction.out, direction.dropped.len()), (expected, 6), "{discipline}");
            let stats = direction.model.finish();
            assert_eq!((stats.drops_tail, stats.drops_early, stats.queue_max_packets), (6, 0, 4));
            // 0, 1, 2 and 3 ms, and 4 ms in which it sent
            assert_eq!((stats.queued_ns, stats.mean_queue_packets), (6 * MS, 2.5));
        }
    }
}

/// What no discipline drops leaves as it does without one.
#[test]
fn a_discipline_keeps_the_rate_of_its_link() {
    let with = link("{ kind = \"codel\", target = \"9 s\", interval = \"10 s\" }", Buffer::Packets(1000));
    let mut plain =
        LinkModel::new(&Link { discipline: None, rate: Some(Rate(7e6)), ..with.clone() }, false, 1);
    let mut direction = Direction::new(&Link { rate: Some(Rate(7e6)), ..with });
    let mut expected = Vec::new();
    for number in 0..500u64 {
        let now_ns = number * number % 97 + number * 1_400_000;
        direction.offer(now_ns, label(number as u32), number);
        if let Verdict::Deliver { at_ns, .. } = plain.offer(now_ns, 1250, false) {
            expected.push((number, at_ns));
        }
    }
    direction.send_until(u64::MAX);
    assert_eq!(direction.out, expected);
    let (stats, plain) = (direction.model.finish(), plain.finish());
    assert_eq!((stats.queued_ns, stats.utilisation), (plain.queued_ns, plain.utilisation));
}

/// Of five ACKs of a flow at once, the first is being sent and the last one waits; data and another flow's ACK stay.
#[test]
fn an_ack_filter_leaves_the_newest_ack_of_each_flow() {
    for discipline in [None, Some(Discipline::Codel(CodelKeys::default()))] {
        let link = Link { ack_filter: true, discipline, ..link("\"codel\"", Buffer::Packets(4)) };
        let mut direction = Direction::new(&link);
        let ack = |flow, ack| Label { ack: Some(ack), ..label(flow) };
        direction.offer(0, ack(1, 0), 0);
        direction.offer(0, ack(2, 0), 10);
        direction.offer(0, label(1), 11);
        (1..5).for_each(|number| direction.offer(0, ack(1, number), number));
        direction.send_until(u64::MAX);
        let out: Vec<u64> = direction.out.iter().map(|(number, _)| *number).collect();
        assert_eq!((out, direction.dropped.len()), (vec![0, 10, 11, 4], 3));
        let stats = direction.model.finish();
        assert_eq!((stats.acks_filtered, stats.drops_tail, stats.queue_max_packets), (3, 0, 4));
    }
}

#[test]
fn codel_holds_a_queue_that_does_not_yield_until_it_drops_enough() {
    let mut direction = Direction::new(&link("\"codel\"", Buffer::Packets(1000)));
    // 25 % more than the link can send, for ten seconds
    (0..12_500u64).for_each(|number| direction.offer(number * 800_000, label(0), number));
    let stats = direction.model.finish();
    assert!(stats.drops_early > 900 && stats.drops_early == direction.dropped.len() as u64, "{stats:?}");
}

#[test]
fn a_discipline_is_written_as_a_name_or_a_table() {
    let parse = |keys: &str| {
        let text = format!(
            "name = \"t\"\n[[host]]\nname = \"a\"\n[[host]]\nname = \"b\"\n[[link]]\nbetween = [\"a\", \"b\"]\n{keys}\n"
        );
        Scenario::parse("t", &text)
    };
    let rate = "rate = \"10 Mbit/s\"\n";
    let sound = parse(&format!("{rate}discipline = \"codel\"")).unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(sound.links[0].discipline, Some(Discipline::Codel(CodelKeys::default())));
    assert_eq!(sound.port(0, false).buffer, Some(Buffer::Packets(1000)));
    let keys =
        "discipline = { kind = \"fq-codel\", target = \"2 ms\", flows = 64 }\nbuffer = \"100 packets\"";
    let sound = parse(&format!("{rate}{keys}")).unwrap_or_else(|e| panic!("{e}"));
    let expected = FqCodelKeys { target: Span(0.002), flows: 64, ..FqCodelKeys::default() };
    assert_eq!(sound.links[0].discipline, Some(Discipline::FqCodel(expected)));
    assert_eq!(sound.port(0, true).buffer, Some(Buffer::Packets(100)));
    let error = |keys: &str| {
        let e = parse(keys).expect_err(keys);
        assert_eq!(e.line, 8, "{keys}: {e}");
        e.what
    };
    for (keys, parts) in [
        ("discipline = \"cake\"", &["no \"cake\"", "\"fq-codel\""][..]),
        ("discipline = 5", &["discipline: write \"codel\""]),
        ("discipline = { target = \"5 ms\" }", &["kind is missing", "kind = \"codel\""]),
        ("discipline = { kind = \"codel\", goal = \"5 ms\" }", &["codel: unknown field `goal`", "`target`"]),
        ("discipline = { kind = \"codel\", target = \"5\" }", &["codel: ", "units are us, ms, s"]),
        ("discipline = \"codel\"", &["discipline without a rate", "give a rate"]),
    ] {
        let what = error(keys);
        assert!(parts.iter().all(|part| what.contains(part)) && what.starts_with("discipline"), "{what}");
    }
    for (keys, part) in [
        ("{ kind = \"codel\", target = \"200 ms\" }", "not below the interval"),
        ("{ kind = \"codel\", interval = \"0 s\" }", "1 us to 10 s"),
        ("{ kind = \"fq-codel\", flows = 0 }", "1 to 65536"),
        ("{ kind = \"fq-codel\", quantum = \"1 B\" }", "64 B to 1 MB"),
        ("{ kind = \"pie\", alpha = 0.0 }", "more than 0"),
        ("{ kind = \"dualpi2\", classic_share = \"100 %\" }", "less than 100 %"),
        ("{ kind = \"dualpi2\", coupling = 99.0 }", "0.1 to 10"),
        ("\"priority\"", "give a buffer"),
    ] {
        let what = error(&format!("discipline = {keys}\n{rate}"));
        assert!(what.starts_with("discipline: ") && what.contains(part), "{what}");
    }
    let red = |min: &str, max: &str, more: &str| {
        let keys = format!("{{ kind = \"red\", min = \"{min}\", max = \"{max}\"{more} }}");
        error(&format!("discipline = {keys}\n{rate}buffer = \"100 packets\""))
    };
    assert!(red("15 packets", "5 packets", "").contains("is not more than the min"));
    assert!(red("15 packets", "64 kB", "").contains("give both in packets"));
    assert!(red("5 packets", "15 packets", ", weight = \"0 %\"").contains("more than 0 %"));
    assert!(red("1 BDP", "15 packets", "").contains("needs a rate and a delay"));
    let what = parse(&format!("{rate}discipline = \"pie\"\necn = \"5 packets\"")).unwrap_err();
    assert!(
        what.line == 10 && what.what.contains("the discipline decides which packets are marked"),
        "{what}"
    );
}

#[test]
fn the_ports_of_a_switch_have_its_discipline() {
    let text = "name = \"t\"\n[topology]\nshape = \"dumbbell\"\npairs = 1\nedge = { rate = \"1 Gbit/s\" }\n\
                bottleneck = { rate = \"10 Mbit/s\", discipline = \"pie\" }\nswitch = { discipline = \"codel\" }\n";
    let scenario = Scenario::parse("t", text).unwrap_or_else(|e| panic!("{e}"));
    let of =
        |index, backward| scenario.port(index, backward).discipline.map(|d| d.default_buffer().is_some());
    // the host's own queue has none
    assert_eq!((of(0, false), of(0, true)), (None, Some(true)));
    assert!(matches!(scenario.port(1, false).discipline, Some(Discipline::Pie(_))));
    let e =
        Scenario::parse("t", &text.replace("\"codel\"", "\"codel\", shared_buffer = \"1 MB\"")).unwrap_err();
    assert!(e.what.contains("shared_buffer") && e.what.contains("port_buffer"), "{e}");
    let rest = "[[switch]]\nname = \"s\"\nshared_buffer = \"1 MB\"\n[[link]]\nbetween = [\"left-1\", \"s\"]\n\
                rate = \"1 Mbit/s\"\ndiscipline = \"codel\"\n";
    let e = Scenario::parse("t", &format!("{text}{rest}")).unwrap_err();
    assert!(e.what.starts_with("discipline: switch \"s\" has a shared_buffer"), "{e}");
}
