//! How an agent is, for whatever supervises it: a service manager, a load balancer, a person.

/// What an agent looks after, and what is wrong with it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Health {
    /// Interfaces under control.
    pub interfaces: usize,
    /// Cgroups under control.
    pub cgroups: usize,
    /// What the policy names, is there, and could not be controlled.
    pub refused: Vec<String>,
    /// What the policy names, and another process has released.
    pub released: Vec<String>,
    /// Interfaces whose clock stands still: servers repair their losses themselves.
    pub standing: Vec<String>,
    /// All other clocks were seen to go round since their interfaces were taken under control.
    pub are_clocks_seen: bool,
    /// Nothing else that the policy names waits to be taken under control.
    pub is_covered: bool,
}

impl Health {
    /// Does what is under control work, as far as is known?
    pub fn is_running(&self) -> bool {
        self.standing.is_empty() && self.are_clocks_seen
    }

    /// Is all under control that the policy names, and does it work?
    pub fn is_ready(&self) -> bool {
        self.is_running() && self.is_covered && self.refused.is_empty() && self.released.is_empty()
    }

    /// In a line.
    pub fn in_words(&self) -> String {
        let mut words = match (self.interfaces, self.cgroups) {
            (0, 0) => "nothing under control yet".into(),
            (n, 0) => format!("{n} interface(s) under control"),
            (0, n) => format!("{n} cgroup(s) under control"),
            (n, m) => format!("{n} interface(s) and {m} cgroup(s) under control"),
        };
        let lists = [
            ("clock stands still", &self.standing),
            ("not under control", &self.refused),
            ("released by another process", &self.released),
        ];
        for (what, names) in lists.into_iter().filter(|(_, names)| !names.is_empty()) {
            words += &format!("; {what}: {}", names.join(", "));
        }
        words
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn health_is_readiness_only_with_all_that_is_named_and_a_clock_that_runs() {
        let well = Health { interfaces: 2, are_clocks_seen: true, is_covered: true, ..Health::default() };
        assert!(well.is_running() && well.is_ready());
        assert_eq!(well.in_words(), "2 interface(s) under control");
        let name = || vec!["tap0".to_string()];
        let standing = Health { standing: name(), ..well.clone() };
        assert!(!standing.is_running() && !standing.is_ready());
        assert_eq!(standing.in_words(), "2 interface(s) under control; clock stands still: tap0");
        assert!(!Health { are_clocks_seen: false, ..well.clone() }.is_running(), "not known yet");
        let others = [
            Health { refused: name(), ..well.clone() },
            Health { released: name(), ..well.clone() },
            Health { is_covered: false, ..well },
        ];
        assert!(others.iter().all(|other| other.is_running() && !other.is_ready()));
        assert_eq!(others[0].in_words(), "2 interface(s) under control; not under control: tap0");
    }
}
