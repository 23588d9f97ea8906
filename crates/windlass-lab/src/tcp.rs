//! Table `tcp` of a scenario for real kernels: settings of a namespace, and words for its routes and devices.

use crate::own_prefix::OWN_PREFIX_LETTERS;
use anyhow::{Result, bail};
use windlass_core::Algorithm;
use windlass_scenario::{Ecn, Scenario, Tcp};

/// Refuses what no kernel can be set to.
pub fn check(scenario: &Scenario) -> Result<()> {
    let tcp = &scenario.tcp;
    if tcp.validate_window == Some(false) {
        bail!("[tcp]: validate_window: real kernels always do: leave it out, or run it with --on sim");
    }
    if tcp.delayed_ack.is_some_and(|delay| delay.0 > 0.0) {
        bail!(
            "[tcp]: delayed_ack: real kernels choose the delay themselves; it can only be \"0 s\": give that, leave it \
             out, or run it with --on sim"
        );
    }
    if tcp.new_reno == Some(false) {
        bail!(
            "[tcp]: new_reno: real kernels repair one hole after another: leave it out, or run it with --on sim"
        );
    }
    let own = scenario.flows.iter().find(|f| !needs_ecn(&f.algorithm));
    if let (Some(Ecn::Exact), Some(flow)) = (tcp.ecn, own) {
        bail!(
            "[tcp]: ecn = \"exact\": flow {} has {}, and real kernels echo exactly for dctcp and l2dct only, for which \
             it need not be said: leave it out, or run it with --on sim",
            flow.name(),
            flow.algorithm
        );
    }
    Ok(())
}

/// Whether both ends must run this algorithm: "dctcp", the kernel's, or ours, whatever its name begins with.
pub fn needs_ecn(algorithm: &str) -> bool {
    let after_underscore = algorithm.rsplit('_').next();
    let after_own_prefix = algorithm.get(OWN_PREFIX_LETTERS..);
    let names = after_underscore.into_iter().chain(after_own_prefix);
    names.filter_map(Algorithm::by_name).any(|a| a.needs_ecn())
}

/// What to write where below /proc/sys/net/ipv4/ of each end system.
pub fn settings(tcp: &Tcp) -> Vec<(&'static str, String)> {
    let mut settings = Vec::new();
    match tcp.ecn {
        Some(Ecn::Off) => settings.push(("tcp_ecn", "0".to_string())),
        Some(Ecn::Classic) => settings.push(("tcp_ecn", "1".to_string())),
        Some(Ecn::Exact) | None => {}
    }
    if let Some(restarts) = tcp.restart_after_idle {
        settings.push(("tcp_slow_start_after_idle", u8::from(restarts).to_string()));
    }
    if let Some(probes) = tcp.tail_probes {
        // 3: probes after two round trips; 0: none
        settings.push(("tcp_early_retrans", if probes { "3" } else { "0" }.to_string()));
    }
    if let Some(sack) = tcp.sack {
        settings.push(("tcp_sack", u8::from(sack).to_string()));
    }
    if let Some(window) = tcp.receive_window {
        // half of a receive buffer is for the kernel's own (tcp_adv_win_scale)
        let bytes = 2 * window.count();
        settings.push(("tcp_rmem", format!("4096 {bytes} {}", bytes.max(1 << 25))));
    }
    if let Some(buffer) = tcp.send_buffer {
        settings.push(("tcp_wmem", format!("4096 {0} {0}", buffer.count())));
    }
    settings
}

/// What to add to each route of an end system.
pub fn route_words(tcp: &Tcp) -> Vec<String> {
    let mut words = Vec::new();
    if let Some(rto) = tcp.rto_min {
        words.extend(["rto_min".into(), format!("{}ms", (rto.0 * 1e3).round() as u64)]);
    }
    if let Some(segs) = tcp.initial_window {
        words.extend(["initcwnd".into(), segs.to_string()]);
    }
    if tcp.delayed_ack.is_some() {
        words.extend(["quickack".into(), "1".into()]);
    }
    words
}

/// What to set each device to; empty: nothing.
pub fn device_words(tcp: &Tcp) -> Vec<String> {
    let mut words = Vec::new();
    if tcp.mtu.is_some() {
        words.extend(["mtu".into(), tcp.mtu_bytes().to_string()]);
    }
    if tcp.offload == Some(false) {
        words.extend(["gso_max_segs".into(), "1".into()]);
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;
    use windlass_scenario::{Bytes, Span};

    #[test]
    fn ecn_is_needed_by_dctcp_whatever_its_name_begins_with() {
        let own = crate::own_prefix('w', 3) + "dctcp";
        for name in ["dctcp", "l2dct", "windlass_dctcp", &own] {
            assert!(needs_ecn(name), "{name}");
        }
        let own = crate::own_prefix('w', 3) + "reno";
        for name in ["reno", "windlass_bbr", &own, "éééé"] {
            assert!(!needs_ecn(name), "{name}");
        }
    }

    #[test]
    fn hosts_that_are_not_described_stay_as_they_are() {
        assert!(settings(&Tcp::default()).is_empty());
        assert!(route_words(&Tcp::default()).is_empty());
        assert!(device_words(&Tcp::default()).is_empty());
    }

    #[test]
    fn what_is_described_is_set() {
        let tcp = Tcp {
            rto_min: Some(Span(0.01)),
            initial_window: Some(2),
            delayed_ack: Some(Span(0.0)),
            ecn: Some(Ecn::Classic),
            restart_after_idle: Some(false),
            tail_probes: Some(false),
            sack: Some(false),
            receive_window: Some(Bytes(4e6)),
            send_buffer: Some(Bytes(64e6)),
            offload: Some(false),
            validate_window: None,
            new_reno: None,
            mtu: Some(Bytes(9e3)),
        };
        assert_eq!(device_words(&tcp).join(" "), "mtu 9000 gso_max_segs 1");
        assert_eq!(route_words(&tcp).join(" "), "rto_min 10ms initcwnd 2 quickack 1");
        let expected = [
            ("tcp_ecn", "1"),
            ("tcp_slow_start_after_idle", "0"),
            ("tcp_early_retrans", "0"),
            ("tcp_sack", "0"),
            ("tcp_rmem", "4096 8000000 33554432"),
            ("tcp_wmem", "4096 64000000 64000000"),
        ];
        assert_eq!(settings(&tcp), expected.map(|(name, value)| (name, value.to_string())));
    }

    #[test]
    fn both_ends_run_what_needs_exact_echoes() {
        assert!(["dctcp", "wl_dctcp", "w12fa_l2dct"].into_iter().all(needs_ecn));
        assert!(!["cubic", "bbr", "wl_trim", "w12fa_reno"].into_iter().any(needs_ecn));
    }
}
