//! Order statistics.

/// A number, and how many that were measured it stands for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Counted {
    /// The number.
    pub value: f64,
    /// How many it stands for, at least 1.
    pub count: u64,
}

/// Numbers that each stand for themselves.
pub fn each(values: &[f64]) -> Vec<Counted> {
    values.iter().map(|value| Counted { value: *value, count: 1 }).collect()
}

/// What is known, sorted, and how many that stands for.
fn sorted(values: &[Counted]) -> (Vec<Counted>, u64) {
    let mut sorted: Vec<Counted> = values.iter().copied().filter(|v| !v.value.is_nan()).collect();
    sorted.sort_by(|a, b| a.value.total_cmp(&b.value));
    let count = count(&sorted);
    (sorted, count)
}

fn count(values: &[Counted]) -> u64 {
    values.iter().map(|v| v.count).sum()
}

/// The number of a rank from 1 on.
fn at_rank(sorted: &[Counted], rank: u64) -> Option<f64> {
    let mut up_to = 0;
    let is_reached = |v: &&Counted| {
        up_to += v.count;
        up_to >= rank
    };
    sorted.iter().find(is_reached).map(|v| v.value)
}

/// The q-quantile (0 to 1) by nearest rank; none of nothing.
pub fn quantile(values: &[f64], q: f64) -> Option<f64> {
    quantile_of(&each(values), q)
}

/// The same of all that these stand for.
pub fn quantile_of(values: &[Counted], q: f64) -> Option<f64> {
    let (sorted, count) = sorted(values);
    let rank = (q * count as f64).ceil() as u64;
    at_rank(&sorted, rank.max(1))
}

/// The median: the mean of the middle two of an even number.
pub fn median(values: &[f64]) -> Option<f64> {
    median_of(&each(values))
}

/// The same of all that these stand for.
pub fn median_of(values: &[Counted]) -> Option<f64> {
    let (sorted, count) = sorted(values);
    let (low, high) = (at_rank(&sorted, count.div_ceil(2))?, at_rank(&sorted, count / 2 + 1)?);
    Some((low + high) / 2.0)
}

/// Between which two of the values the median of what they are a sample of lies, with 95 % confidence or more, whatever its
/// distribution: as many values are above the median as tails in throws of a coin. None of fewer than six; up to a thousand.
pub fn median_interval(values: &[f64]) -> Option<(f64, f64)> {
    let (sorted, count) = sorted(&each(values));
    // heads: so many values are below the median
    let mut chance = 0.5f64.powi(i32::try_from(count).ok()?);
    let (mut below, mut rank) = (chance, 0);
    while below <= 0.025 {
        rank += 1;
        chance *= (count - rank + 1) as f64 / rank as f64;
        below += chance;
    }
    (rank > 0).then_some(())?;
    Some((at_rank(&sorted, rank)?, at_rank(&sorted, count + 1 - rank)?))
}

/// The mean; none of nothing.
pub fn mean(values: &[f64]) -> Option<f64> {
    mean_of(&each(values))
}

/// The same of all that these stand for.
pub fn mean_of(values: &[Counted]) -> Option<f64> {
    sum_of(values).map(|sum| sum / count(values) as f64)
}

/// The sum of all that these stand for; none of nothing.
pub fn sum_of(values: &[Counted]) -> Option<f64> {
    (!values.is_empty()).then(|| values.iter().map(|v| v.value * v.count as f64).sum())
}

/// The standard deviation of a sample (divisor n - 1) of all that these stand for; 0 of one value, none of nothing.
pub fn sd_of(values: &[Counted]) -> Option<f64> {
    let mean = mean_of(values)?;
    let squares: f64 = values.iter().map(|v| (v.value - mean) * (v.value - mean) * v.count as f64).sum();
    Some((squares / (count(values) - 1).max(1) as f64).sqrt())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_values_that_occurred() {
        let v = [5.0, 1.0, 3.0, 2.0, 4.0];
        assert_eq!(quantile(&v, 0.99), Some(5.0));
        assert_eq!(quantile(&v, 0.2), Some(1.0));
        assert_eq!(quantile(&v, 0.0), Some(1.0));
        assert_eq!(quantile(&[], 0.5), None);
        assert_eq!(median(&v), Some(3.0));
        assert_eq!((median(&[1.0, 2.0]), median(&[])), (Some(1.5), None));
        assert_eq!((mean(&v), mean(&[])), (Some(3.0), None));
        let sd = |values: &[f64]| sd_of(&each(values));
        assert_eq!((sd(&[1.0, 3.0]), sd(&[1.0]), sd(&[])), (Some(2f64.sqrt()), Some(0.0), None));
    }

    /// Ranks of the usual tables.
    #[test]
    fn the_interval_of_a_median_is_that_of_the_sign_test() {
        let interval = |n: u32| median_interval(&(1..=n).map(f64::from).collect::<Vec<_>>());
        assert_eq!((interval(0), interval(5)), (None, None));
        assert_eq!(
            (interval(6), interval(12), interval(25)),
            (Some((1.0, 6.0)), Some((3.0, 10.0)), Some((8.0, 18.0)))
        );
        assert_eq!(interval(100), Some((40.0, 61.0)));
    }

    #[test]
    fn what_stands_for_several_counts_as_if_all_were_there() {
        let all = each(&[1.0, 1.0, 1.0, 2.0, 7.0, 7.0]);
        let counted = [(7.0, 2), (1.0, 3), (2.0, 1)].map(|(value, count)| Counted { value, count });
        for q in [0.0, 0.5, 0.51, 0.66, 0.67, 0.99, 1.0] {
            assert_eq!(quantile_of(&counted, q), quantile_of(&all, q), "{q}");
        }
        assert_eq!(median_of(&counted), Some(1.5));
        assert_eq!((sum_of(&counted), mean_of(&counted)), (Some(19.0), mean_of(&all)));
        let (ours, expected) = (sd_of(&counted).unwrap(), sd_of(&all).unwrap());
        assert!((ours - expected).abs() < 1e-12, "{ours} {expected}");
    }
}
