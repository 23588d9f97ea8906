//! `windlass why`: one screen about a flow, or about those of a rule.

use crate::{args::WhyArgs, info::with_controlled, print};
use anyhow::{Result, bail};
use serde_json::{Value, json};
use std::{
    collections::BTreeMap,
    net::SocketAddr,
    process::ExitCode,
    thread,
    time::{Duration, Instant},
};
use windlass_agent::{FlowInfo, Limits, Observed, Pinned, Why};

/// What was asked about.
enum Subject<'a> {
    /// One end, and the other if it was given.
    Flow(SocketAddr, Option<SocketAddr>),
    Rule(&'a str),
}

impl Subject<'_> {
    fn of(args: &WhyArgs) -> Result<Subject<'_>> {
        match (args.what.parse(), &args.receiver) {
            (Ok(sender), receiver) => Ok(Subject::Flow(sender, *receiver)),
            (Err(_), None) => Ok(Subject::Rule(&args.what)),
            (Err(_), Some(_)) => bail!("'{}' is no address with its port, as 192.0.2.1:443", args.what),
        }
    }

    fn has(&self, flow: &FlowInfo, rules: &[String]) -> bool {
        match self {
            Subject::Flow(sender, Some(receiver)) => flow.sender == *sender && flow.receiver == *receiver,
            // a client's own port names a flow as well
            Subject::Flow(end, None) => flow.sender == *end || flow.receiver == *end,
            Subject::Rule(name) => rules.get(flow.rule as usize).is_some_and(|rule| rule == name),
        }
    }
}

/// A flow, where it is, and why.
struct Answer {
    iface: String,
    rule: Option<String>,
    flow: FlowInfo,
    why: Why,
}

impl Answer {
    fn json(&self) -> Value {
        let mut value = serde_json::to_value(&self.why).expect("plain data");
        value["iface"] = self.iface.as_str().into();
        value["rule"] = self.rule.as_deref().into();
        value["sender"] = self.flow.sender.to_string().into();
        value["receiver"] = self.flow.receiver.to_string().into();
        value["algorithm"] = self.flow.algorithm.into();
        value
    }
}

pub fn why(args: &WhyArgs) -> Result<ExitCode> {
    let subject = Subject::of(args)?;
    let mut answers = Vec::new();
    with_controlled("looking at a flow", |pinned| {
        answers.extend(of_iface(pinned, &subject, Duration::from_millis(args.wait_ms))?);
        Ok(())
    })?;
    if answers.is_empty() {
        bail!("no flow of '{}' is known; `windlass flows` lists them", args.what);
    }
    // the busiest one is shown
    answers.sort_by_key(|answer| std::cmp::Reverse(answer.why.delivered_bytes));
    if args.json {
        let flows: Vec<Value> = answers.iter().map(Answer::json).collect();
        println!("{}", json!({ "flows": flows, "causes": causes(&answers) }));
        return Ok(ExitCode::SUCCESS);
    }
    if answers.len() > 1 {
        print::line(format_args!("{} flows; what holds them back:", answers.len()));
        let rows: Vec<_> =
            causes(&answers).into_iter().map(|(cause, n)| vec![n.to_string(), cause]).collect();
        print::table(&["flows", "cause"], &rows);
        println!("\nthe one that delivered most:");
    }
    print_one(&answers[0]);
    Ok(ExitCode::SUCCESS)
}

/// Flows behind one interface, looked at once their ledgers have been kept for so long.
fn of_iface(pinned: &Pinned, subject: &Subject<'_>, wait: Duration) -> Result<Vec<Answer>> {
    let rules = pinned.rule_names();
    let look = || pinned.observe(|flow| subject.has(flow, &rules));
    let mut flows = look()?;
    if flows.is_empty() {
        return Ok(Vec::new());
    }
    let asked = pinned.ask(&flows)?;
    if asked.is_some() {
        let begun = Instant::now();
        thread::sleep(wait.saturating_sub(begun.elapsed()));
        flows = look()?;
    }
    let answer = |observed: Observed| Answer {
        iface: pinned.iface().to_string(),
        rule: rules.get(observed.info.rule as usize).cloned(),
        why: Why::of(&observed),
        flow: observed.info,
    };
    Ok(flows.into_iter().map(answer).collect())
}

/// How many flows each cause holds back.
fn causes(answers: &[Answer]) -> BTreeMap<String, usize> {
    let mut all = BTreeMap::new();
    for answer in answers {
        let word = serde_json::to_value(answer.why.cause).expect("a word");
        *all.entry(word.as_str().unwrap_or_default().to_string()).or_default() += 1;
    }
    all
}

fn print_one(answer: &Answer) {
    let Answer { iface, rule, flow, why } = answer;
    let kib = |bytes: u32| format!("{:.1} KiB", f64::from(bytes) / 1024.0);
    print::line(format_args!(
        "{} -> {} on {iface}, rule {}, {}",
        flow.sender,
        flow.receiver,
        rule.as_deref().map_or("-".to_string(), |name| format!("\"{name}\"")),
        flow.algorithm
    ));
    print::line(format_args!("cause     {}", why.words));
    print::line(format_args!("try       {}", why.cure));
    let reason = why.reason_words.map_or(String::new(), |words| format!(" ({words})"));
    print::line(format_args!("state     {}{reason}", why.state));
    let shares = [
        ("last 1 s", &why.limited_permille.last_1s),
        ("last 10 s", &why.limited_permille.last_10s),
        ("life", &why.limited_permille.life),
    ];
    for (name, limits) in shares {
        print::line(format_args!("{name:<9} {}", shares_in_words(limits)));
    }
    let since = if why.is_partial { ", since it was looked at" } else { "" };
    print::line(format_args!("          of {:.1} s{since}", why.noted_for_us as f64 / 1e6));
    print::line(format_args!(
        "window    {} intended, {} in flight, {} at most; the client offers {}",
        kib(why.window_bytes),
        kib(why.flight_bytes),
        why.flight_max_bytes.map_or("-".into(), kib),
        kib(why.receiver_window_bytes)
    ));
    print::line(format_args!(
        "rate      {} paced, {} delivered",
        why.pacing_bps.map_or("not".into(), print::bps),
        why.delivery_bps.map_or("-".into(), print::bps)
    ));
    print::line(format_args!(
        "RTT       {} smoothed, {} least, {} median; between server and box {}",
        print::us(why.srtt_us),
        print::us(why.min_rtt_us),
        why.rtt_p50_us.map_or("-".into(), print::us),
        print::us(why.sender_side_rtt_us)
    ));
    print::line(format_args!(
        "losses    {} found in {} recoveries, {} repaired; the server retransmitted {}, {} by timeout",
        why.lost_segs, why.recoveries, why.repaired_segs, why.sender_retrans_segs, why.sender_timeouts
    ));
    if !why.decisions.is_empty() {
        println!("decisions");
    }
    for decision in &why.decisions {
        let ago_s = decision.ago_us as f64 / 1e6;
        print::line(format_args!("{ago_s:>10.3} s ago  {} ({})", decision.what, kib(decision.cwnd_bytes)));
    }
}

/// Shares of a thousand as percentages, the largest first.
fn shares_in_words(limits: &Limits) -> String {
    let mut all: Vec<_> = limits.named().into_iter().filter(|(_, permille)| *permille >= 5).collect();
    all.sort_by_key(|(_, permille)| std::cmp::Reverse(*permille));
    let words: Vec<_> =
        all.iter().map(|(name, permille)| format!("{name} {:.0} %", *permille as f64 / 10.0)).collect();
    if words.is_empty() { "-".into() } else { words.join(", ") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_shown_largest_first_without_what_does_not_count() {
        let limits = Limits { idle: 100, window: 897, recovery: 3, ..Limits::default() };
        assert_eq!(shares_in_words(&limits), "window 90 %, idle 10 %");
    }
}
