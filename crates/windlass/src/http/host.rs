//! Names by which a server may be called. A page in a browser could have any other name lead to it.

use std::net::IpAddr;

/// Values of the Host header that are served.
#[derive(Clone, Debug, Default)]
pub struct Hosts {
    /// No other than loopback names and those below.
    is_local: bool,
    /// No name but those below; addresses may be any.
    is_by_address: bool,
    names: Vec<String>,
}

impl Hosts {
    /// Loopback names where only this machine reaches the server, else any.
    pub fn of(is_local: bool) -> Hosts {
        Hosts { is_local, ..Hosts::default() }
    }

    /// The same, but of other servers only addresses; and these names.
    pub fn named(is_local: bool, names: Vec<String>) -> Hosts {
        Hosts { is_local, is_by_address: true, names }
    }

    /// Why requests to this host are not answered; none: they are.
    pub fn refuse(&self, host: &str) -> Option<&'static str> {
        let without_port = match host.strip_prefix('[') {
            Some(rest) => rest.split(']').next().unwrap_or_default(),
            None => host.split(':').next().unwrap_or_default(),
        };
        let address = without_port.parse::<IpAddr>().ok();
        let is_loopback =
            without_port.eq_ignore_ascii_case("localhost") || address.is_some_and(|ip| ip.is_loopback());
        if is_loopback || self.names.iter().any(|name| name.eq_ignore_ascii_case(without_port)) {
            return None;
        }
        if self.is_local {
            return Some("at this address only loopback names are served, as localhost");
        }
        (self.is_by_address && address.is_none())
            .then_some("only addresses are served, and names that --name has given")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_that_are_foreign_are_refused() {
        let is_served = |hosts: &Hosts, host| hosts.refuse(host).is_none();
        let local = Hosts::of(true);
        for host in ["localhost", "LOCALHOST:9464", "127.0.0.1", "127.1.2.3:80", "[::1]:9464"] {
            assert!(is_served(&local, host), "{host}");
        }
        for host in ["example.net", "localhost.example.net:9464", "192.0.2.1", "[2001:db8::1]", ""] {
            assert!(!is_served(&local, host), "{host}");
        }
        assert!(is_served(&Hosts::of(false), "example.net"));
        let named = Hosts::named(false, vec!["box.example.net".into()]);
        for (host, expected) in
            [("192.0.2.1:80", true), ("Box.example.net", true), ("example.net", false), ("", false)]
        {
            assert_eq!(is_served(&named, host), expected, "{host}");
        }
        assert!(is_served(&Hosts::named(true, vec!["box.example.net".into()]), "box.example.net:443"));
    }
}
