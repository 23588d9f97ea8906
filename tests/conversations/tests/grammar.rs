//! The grammar of scripts: what is written is read back as it was, and no text makes the reader panic.

use proptest::{collection::vec, option, prelude::*};
use windlass_conversations::{
    packet::{Packet, Timestamps},
    script::{Action, Place, Script, Seen},
};
use windlass_oracle::wire::URG;

fn timestamps() -> impl Strategy<Value = Timestamps> {
    prop_oneof![
        Just(Timestamps::Implied),
        Just(Timestamps::Absent),
        any::<(u32, u32)>().prop_map(|(value, echo)| Timestamps::Given(value, echo)),
    ]
}

/// Numbers of a packet: range, acknowledgement, window, SACK blocks, and what counts from the last ones.
fn numbers() -> impl Strategy<Value = Packet> {
    let range = (any::<u32>(), 0..100_000u32).prop_map(|(start, len)| (start, start.wrapping_add(len)));
    (
        option::of(range),
        option::of(1..100_000u32),
        option::of(any::<u32>()),
        option::of(1..100_000u32),
        option::of(any::<u32>()),
        vec(any::<(u32, u32)>(), 0..5),
    )
        .prop_map(|(range, next_bytes, ack, ack_more_bytes, window_bytes, sack)| Packet {
            range,
            next_bytes: next_bytes.filter(|_| range.is_none()),
            ack,
            ack_more_bytes: ack_more_bytes.filter(|_| ack.is_none()),
            window_bytes,
            sack,
            ..Packet::default()
        })
}

fn packet() -> impl Strategy<Value = Packet> {
    let marks = (any::<u8>(), any::<[bool; 5]>(), option::of(any::<u16>()), timestamps());
    let options =
        (option::of(any::<u16>()), option::of(any::<u8>()), vec(any::<u8>(), 0..40), option::of(1..9000u32));
    (numbers(), marks, options).prop_map(|(numbers, marks, options)| {
        let (flags, [has_ae, permits_sack, has_other_bytes, is_forged, is_damaged], urgent, timestamps) =
            marks;
        let (mss_bytes, wscale, options, gso_bytes) = options;
        Packet {
            flags: if urgent.is_some() { flags | URG } else { flags },
            has_ae,
            urgent,
            timestamps,
            mss_bytes,
            wscale,
            permits_sack,
            options,
            gso_bytes,
            has_other_bytes,
            is_forged,
            is_damaged,
            ..numbers
        }
    })
}

fn place() -> impl Strategy<Value = Place> {
    prop_oneof![Just(Place::Server), Just(Place::Client), Just(Place::Box)]
}

/// Words that scripts have, and some that they have not, in any order.
fn words() -> impl Strategy<Value = String> {
    let known = prop::sample::select(vec![
        "server",
        "client/b",
        "box",
        ">",
        "<",
        "S.",
        ".",
        "1:1461",
        "+1460",
        "+20ms",
        "+9s",
        "ack",
        "+7",
        "win",
        "sack",
        "3:1,5:6",
        "ts",
        "none",
        "nothing",
        "anything",
        "open",
        "rtt",
        "repeat",
        "end",
        "99999999",
        "mode",
        "watch",
        "clock",
        "stops",
        "setup",
        "flows",
        "connection",
        "mss",
        "option",
        "fd28",
        "expect failure:",
        "#",
        "\n",
        "\n",
    ]);
    let any = prop_oneof![8 => known.prop_map(String::from), 1 => "\\PC{0,6}"];
    vec(any, 0..40).prop_map(|words| words.join(" "))
}

proptest! {
    #[test]
    fn a_line_that_is_written_is_read_back(
        place in place(), is_to_client: bool, name in "[a-z0-9]{0,4}", packet in packet(),
    ) {
        let seen = Seen { place, connection: name.clone(), is_to_client, packet: Some(packet) };
        let connection = if name.is_empty() { String::new() } else { format!("connection/{name}\n") };
        let text = format!("# why\n{connection}+3ms {seen}\n");
        let script = Script::parse(&text).map_err(|e| TestCaseError::fail(format!("{text}{e:#}")))?;
        prop_assert_eq!(&script.steps[0].action, &Action::Packet(seen), "{}", text);
        prop_assert_eq!(script.steps[0].after_us, 3000);
    }

    #[test]
    fn no_text_makes_the_reader_panic(text in words(), bytes in "\\PC{0,80}") {
        let _ = Script::parse(&text);
        let _ = Script::parse(&format!("# why\n{text}"));
        let _ = Script::parse(&format!("# why\n{bytes}"));
    }
}

#[test]
fn what_cannot_be_read_is_named_with_its_line() {
    for (text, message) in [
        ("# why\nopen\nserver 1:1461", "line 3: server: > (to the client) or < (to the server) is missing"),
        ("# why\n+20 open", "line 2: 20: durations are written 500us, 20ms or 3s"),
        (
            "# why\nserver > X. 1:2",
            "line 2: X.: flags are letters of SFRPUEWA and a dot for ACK, or - for none",
        ),
        ("# why\nserver/b > . 1:2", "line 2: b: no such connection; `connection/b` makes it"),
        (
            "open",
            "a script begins with one to 3 lines of comment: mechanism, section of the RFC, what is right",
        ),
        ("# why\nrepeat 3\nopen", "`repeat` without `end`"),
    ] {
        let error = Script::parse(text).expect_err(text);
        assert_eq!(format!("{error:#}"), message);
    }
}
