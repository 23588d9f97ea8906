//! Runs as comma-separated values.

use crate::record::RunRecord;
use std::fmt::Write as _;

fn number(value: Option<f64>) -> String {
    value.map_or(String::new(), |v| format!("{v:.6}"))
}

fn count(value: Option<u64>) -> String {
    value.map_or(String::new(), |v| v.to_string())
}

/// One line for each run; of one that could not begin, only its names.
pub fn runs(runs: &[RunRecord]) -> String {
    let mut csv = String::from(
        "point,variant,seed,completion_s,bytes,checksum_ok,mean_rtt_ms,sender_retrans_segs,sender_timeouts,\
         repaired_segs,drops_tail,drops_random,stored_bdp,on,ended_s,marks\n",
    );
    for r in runs {
        let known = |value: u64| count(r.has_begun().then_some(value));
        let _ = writeln!(
            csv,
            "{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{}",
            r.point,
            r.variant,
            r.seed,
            number(r.completion_s),
            known(r.bytes),
            r.checksum_ok,
            r.mean_rtt_ms.map_or(String::new(), |ms| format!("{ms:.2}")),
            known(r.sender_retrans_segs),
            known(r.sender_timeouts),
            known(r.repaired_segs),
            known(r.drops_tail),
            known(r.drops_random),
            r.stored_bdp.map_or(String::new(), |b| format!("{b:.3}")),
            r.on,
            number(r.has_begun().then_some(r.ended_s)),
            known(r.marks)
        );
    }
    csv
}

/// One line for each flow of each run.
pub fn flows(runs: &[RunRecord]) -> String {
    let mut csv = String::from(
        "point,variant,seed,flow,name,class,tenant,started_s,completion_s,bytes,goodput_bps,timeouts,retrans_segs\n",
    );
    for r in runs {
        for (index, f) in r.flows.iter().enumerate() {
            let _ = writeln!(
                csv,
                "{},{},{},{index},{},{},{},{:.6},{},{},{:.0},{},{}",
                r.point,
                r.variant,
                r.seed,
                f.name,
                f.class,
                f.tenant,
                f.started_s,
                number(f.completion_s),
                f.bytes,
                f.goodput_bps,
                count(f.timeouts),
                count(f.retrans_segs)
            );
        }
    }
    csv
}

/// One line for each direction of an emulated link of each run.
pub fn links(runs: &[RunRecord]) -> String {
    let mut csv = String::from(
        "point,variant,seed,link,packets,bytes,drops_tail,drops_random,marks,mean_queue_packets,queue_max_packets,\
         mean_queue_ms,utilisation\n",
    );
    for r in runs {
        for l in &r.links {
            let s = &l.stats;
            let _ = writeln!(
                csv,
                "{},{},{},{},{},{},{},{},{},{:.3},{},{},{:.4}",
                r.point,
                r.variant,
                r.seed,
                l.name,
                s.packets,
                s.bytes,
                s.drops_tail,
                s.drops_random,
                s.marks,
                s.mean_queue_packets,
                s.queue_max_packets,
                l.mean_queue_ms.map_or(String::new(), |ms| format!("{ms:.4}")),
                s.utilisation
            );
        }
    }
    csv
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_that_never_began_has_no_zeros() {
        let error = Some("refused".into());
        let refused =
            RunRecord { point: "p".into(), variant: "v".into(), seed: 1, error, ..RunRecord::default() };
        assert_eq!(runs(&[refused]).lines().nth(1), Some("p,v,1,,,false,,,,,,,,lab,,"));
    }
}
