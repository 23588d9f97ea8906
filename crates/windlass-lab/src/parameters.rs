//! What algorithms are given of the path, as arguments of `windlass attach` and `windlass native load`.

use windlass_scenario::Parameters;

/// One argument for each that is given.
pub fn arguments(parameters: &Parameters) -> Vec<String> {
    let Parameters { bottleneck, buffer, threshold, gain, random_waits, first_train_probes, tunables } =
        parameters;
    [
        bottleneck.map(|rate| format!("--bottleneck={rate}")),
        buffer.map(|length| format!("--buffer={length}")),
        threshold.map(|share| format!("--threshold={share}")),
        gain.map(|share| format!("--gain={share}")),
        random_waits.map(|wait| format!("--random-waits={wait}")),
        first_train_probes.map(|probes| format!("--first-train-probes={probes}")),
    ]
    .into_iter()
    .flatten()
    .chain(tunables.arguments().into_iter().map(|constant| format!("--tune={constant}")))
    .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use windlass_scenario::{Buffer, Fraction, Rate};

    #[test]
    fn only_what_is_given_is_passed_on() {
        assert!(arguments(&Parameters::default()).is_empty());
        let all = Parameters {
            bottleneck: Some(Rate(1e9)),
            buffer: Some(Buffer::Packets(100)),
            threshold: Some(Fraction(0.0)),
            gain: Some(Fraction(0.25)),
            random_waits: Some(false),
            first_train_probes: Some(true),
            tunables: "bbr.startup_gain=2.5".parse().unwrap(),
        };
        let expected = [
            "--bottleneck=1 Gbit/s",
            "--buffer=100 packets",
            "--threshold=0 %",
            "--gain=25 %",
            "--random-waits=false",
            "--first-train-probes=true",
            "--tune=bbr.startup_gain=2.5",
        ];
        assert_eq!(arguments(&all), expected);
    }
}
