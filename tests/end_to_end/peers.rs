//! What the two ends may agree on, and what they may do to a connection.

use crate::site::{Negotiated, PLAIN, Setup, Site, site_or_skip};
use std::{
    fs,
    io::{self, ErrorKind, Read, Write},
    net::{Shutdown, TcpStream},
    thread,
};
use windlass_lab::files;
use windlass_tests::process::until;

const BYTES: u64 = 1_000_000;
/// Together they hold much less than BYTES.
const SMALL_RCVBUF: (&str, &str) = ("net/ipv4/tcp_rmem", "4096 131072 262144");
const SMALL_SNDBUF: (&str, &str) = ("net/ipv4/tcp_wmem", "4096 131072 262144");
const NO_SACK: (&str, &str) = ("net/ipv4/tcp_sack", "0");
const NO_TIMESTAMPS: (&str, &str) = ("net/ipv4/tcp_timestamps", "0");
const NO_SCALING: (&str, &str) = ("net/ipv4/tcp_window_scaling", "0");
const ECN: (&str, &str) = ("net/ipv4/tcp_ecn", "1");

/// A site under control, or none after a word on why not.
fn controlled(test: &str, setup: Setup) -> Option<Site> {
    let mut site = site_or_skip(test, setup)?;
    site.control("bbr");
    Some(site)
}

/// Sends the file of so many bytes and ends the stream.
pub fn send(to: &TcpStream, bytes: u64) -> io::Result<()> {
    let file = files::file_of(bytes).expect("a file to send");
    io::copy(&mut fs::File::open(files::folder().join(file))?, &mut &*to)?;
    to.shutdown(Shutdown::Write)
}

/// Receives to the end of the stream and makes sure that it was the file of so many bytes.
pub fn receive(from: impl Read, bytes: u64) {
    let sum = files::digest_of(&files::file_of(bytes).expect("a file")).expect("its checksum");
    assert_eq!(files::digest(from).expect("a stream that ends well"), (sum, bytes));
}

/// Receives some bytes of a stream, for receive() to check with the rest.
fn receive_some(mut from: &TcpStream, bytes: usize) -> io::Cursor<Vec<u8>> {
    let mut some = vec![0; bytes];
    from.read_exact(&mut some).expect("the stream's beginning");
    io::Cursor::new(some)
}

/// The server sends, the client receives; nothing else.
fn transfer((client, server): &(TcpStream, TcpStream)) {
    thread::scope(|scope| {
        let sending = scope.spawn(|| send(server, BYTES));
        receive(client, BYTES);
        sending.join().expect("no panic").expect("sent");
    });
}

#[test]
#[ignore = "long: `make test-long` runs it"]
fn options_that_stacks_lack() {
    let all = Negotiated { timestamps: true, sack: true, ecn: false, client_wscale: None, mss_bytes: 0 };
    let test = "options_that_stacks_lack";
    // what, sysctls of the client, what is agreed on then; no scale here: whatever the kernel likes
    type Row = (&'static str, &'static [(&'static str, &'static str)], Negotiated, Option<Option<u8>>);
    let rows: [Row; 6] = [
        ("no window scale", &[NO_SCALING], all, Some(None)),
        ("window scale 14", &[("net/ipv4/tcp_rmem", "4096 131072 1073741824")], all, Some(Some(14))),
        ("no SACK", &[NO_SACK], Negotiated { sack: false, ..all }, None),
        ("no timestamps", &[NO_TIMESTAMPS], Negotiated { timestamps: false, ..all }, None),
        (
            "neither SACK nor timestamps",
            &[NO_SACK, NO_TIMESTAMPS],
            Negotiated { sack: false, timestamps: false, ..all },
            None,
        ),
        (
            "no option at all",
            &[NO_SACK, NO_TIMESTAMPS, NO_SCALING],
            Negotiated { sack: false, timestamps: false, ..all },
            Some(None),
        ),
    ];
    for (what, client_sysctls, expected, wscale) in rows {
        let name = format!("{test}: {what}");
        let Some(site) = controlled(&name, Setup { client_sysctls, ..PLAIN }) else { continue };
        let ends = site.connection();
        let agreed = Negotiated::of(&ends.0);
        let expected = Negotiated {
            client_wscale: wscale.unwrap_or(agreed.client_wscale),
            mss_bytes: agreed.mss_bytes,
            ..expected
        };
        assert_eq!(agreed, expected, "{name}");
        transfer(&ends);
        drop(ends);
        site.fetch(BYTES);
        site.finish().assert_repaired(&name);
    }
}

#[test]
#[ignore = "long: `make test-long` runs it"]
fn ecn_negotiated_end_to_end() {
    let test = "ecn_negotiated_end_to_end";
    let link =
        "rate = \"20 Mbit/s\"\ndelay = \"5 ms\"\nbuffer = \"8 BDP\"\necn = \"10 packets\"\nloss = \"1 %\"";
    let setup = Setup { link, server_sysctls: &[ECN], client_sysctls: &[ECN], ..PLAIN };
    let Some(mut site) = site_or_skip(test, setup) else { return };
    site.control("cubic");
    let ends = site.connection();
    assert!(Negotiated::of(&ends.0).ecn);
    transfer(&ends);
    drop(ends);
    site.fetch(2 * BYTES);
    let outcome = site.finish();
    outcome.assert_repaired(test);
    assert!(outcome.wan[0].marks > 0, "{outcome:#?}");
    assert!(outcome.counter("ece_hidden") > 0, "{outcome:#?}");
    // the client sends ECE until it sees CWR: one that never came would have it do so to the end
    assert!(outcome.counter("cwr_set") > 0, "{outcome:#?}");
}

#[test]
fn data_in_both_directions() {
    let test = "data_in_both_directions";
    let link =
        "rate = \"50 Mbit/s\"\ndelay = \"5 ms\"\nbuffer = \"2 BDP\"\nloss = \"2 %\"\nloss_back = \"1 %\"";
    for (what, client_sysctls) in [("with SACK", [].as_slice()), ("without", &[NO_SACK])] {
        let name = format!("{test}: {what}");
        let Some(site) = controlled(&name, Setup { link, client_sysctls, ..PLAIN }) else { continue };
        let (client, server) = site.connection();
        thread::scope(|scope| {
            let sending = [(&server, 2 * BYTES), (&client, BYTES)];
            let sending = sending.map(|(end, bytes)| scope.spawn(move || send(end, bytes)));
            let up = scope.spawn(|| receive(&server, BYTES));
            receive(&client, 2 * BYTES);
            up.join().expect("the upload arrives");
            for end in sending {
                end.join().expect("no panic").expect("sent");
            }
        });
        drop((client, server));
        site.finish().assert_repaired(&name);
    }
}

#[test]
fn a_client_that_closes_its_half_early() {
    let test = "a_client_that_closes_its_half_early";
    let Some(site) = controlled(test, PLAIN) else { return };
    // before the first byte comes, and in the middle
    for read_before in [0, 200_000] {
        let (client, server) = site.connection();
        thread::scope(|scope| {
            let sending = scope.spawn(|| send(&server, BYTES));
            (&client).write_all(b"request").expect("sent");
            let begun = receive_some(&client, read_before);
            client.shutdown(Shutdown::Write).expect("half closed");
            let mut asked = String::new();
            (&server).read_to_string(&mut asked).expect("the server sees the end");
            assert_eq!(asked, "request");
            receive(begun.chain(&client), BYTES);
            sending.join().expect("no panic").expect("sent");
        });
    }
    let outcome = site.finish();
    outcome.assert_repaired(test);
    assert_eq!(outcome.counter("flows_created"), 2, "{outcome:#?}");
    assert_eq!(outcome.counter("flows_closed"), 2, "{outcome:#?}");
}

/// A socket that is closed while it holds unread data resets its connection.
fn reset(end: TcpStream) {
    end.peek(&mut [0]).expect("data to leave unread");
    drop(end);
}

#[test]
fn ports_used_again_after_a_reset() {
    let test = "ports_used_again_after_a_reset";
    // a client with one port to its name
    let one_port: &[_] = &[("net/ipv4/ip_local_port_range", "40000 40000")];
    let Some(site) = controlled(test, Setup { client_sysctls: one_port, ..PLAIN }) else { return };
    let (client, server) = site.connection();
    thread::scope(|scope| {
        let sending = scope.spawn(|| send(&server, 8 * BYTES));
        receive_some(&client, 300_000);
        reset(client);
        sending.join().expect("no panic").expect_err("the client has reset the connection");
    });
    drop(server);
    let (client, server) = site.connection();
    thread::scope(|scope| {
        scope.spawn(|| {
            // what is not read here has the server's kernel reset the connection
            (&client).write_all(b"never read").expect("sent");
            let error =
                io::copy(&mut &client, &mut io::sink()).expect_err("the server has reset the connection");
            assert_eq!(error.kind(), ErrorKind::ConnectionReset);
        });
        (&server).write_all(&[7; 500_000]).expect("sent");
        reset(server);
    });
    drop(client);
    let ends = site.connection();
    assert_eq!(ends.0.local_addr().expect("an address").port(), 40000);
    transfer(&ends);
    drop(ends);
    let outcome = site.finish();
    outcome.assert_repaired(test);
    assert_eq!(outcome.counter("flows_created"), 3, "{outcome:#?}");
    assert_eq!(outcome.counter("flows_closed"), 3, "{outcome:#?}");
}

#[test]
fn a_client_that_stops_reading_for_a_while() {
    let test = "a_client_that_stops_reading_for_a_while";
    let setup = Setup { server_sysctls: &[SMALL_SNDBUF], ..PLAIN };
    let rows: [(&str, &[_]); 2] = [("with SACK", &[SMALL_RCVBUF]), ("without", &[SMALL_RCVBUF, NO_SACK])];
    for (what, client_sysctls) in rows {
        let name = format!("{test}: {what}");
        let Some(site) = controlled(&name, Setup { client_sysctls, ..setup }) else { continue };
        let (client, server) = site.connection();
        thread::scope(|scope| {
            let sending = scope.spawn(|| send(&server, BYTES));
            let begun = receive_some(&client, 100_000);
            // until the client has reported so and the server has come to probe
            until("the server asks for a window", || {
                assert!(!sending.is_finished(), "{name}: the client's kernel took it all");
                site.counter_of(&site.client, "TCPToZeroWindowAdv") > 0
                    && site.counter_of(&site.servers[0], "TCPWinProbe") > 0
            });
            receive(begun.chain(&client), BYTES);
            sending.join().expect("no panic").expect("sent");
        });
        drop((client, server));
        let outcome = site.finish();
        // what the client has no room for it drops, and a silence of seconds is long for any server
        assert!(outcome.counter("repaired_segs") > 0, "{name}: {outcome:#?}");
    }
}
