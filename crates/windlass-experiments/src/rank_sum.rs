//! Whether two samples differ by more than chance: the rank-sum test of Wilcoxon, Mann and Whitney, one-sided. No distribution is
//! assumed; equal numbers have the mean of their ranks.

/// Of more numbers the sum of ranks is taken as normal.
const EXACT_MOST: usize = 60;

/// How probable it is that ranks chosen at random sum up to as little as those of `low` among all; from 0 to 1. None: one is empty.
///
/// Sums of ranks are counted over all choices of as many of all numbers as `low` has, which is exact also where numbers are equal.
pub fn p_value(low: &[f64], high: &[f64]) -> Option<f64> {
    if low.is_empty() || high.is_empty() {
        return None;
    }
    let doubled = doubled_ranks(low, high);
    let sum: usize = doubled[..low.len()].iter().sum();
    Some(if doubled.len() <= EXACT_MOST {
        exact(&doubled, low.len(), sum)
    } else {
        normal(&doubled, low.len(), sum)
    })
}

/// The smallest p that samples of these sizes can have.
pub fn least_p(low: usize, high: usize) -> f64 {
    1.0 / (1..=low).map(|i| (high + i) as f64 / i as f64).product::<f64>()
}

/// Twice the rank of each number among all, those of `low` first: halves come of equal numbers.
fn doubled_ranks(low: &[f64], high: &[f64]) -> Vec<usize> {
    let all = [low, high].concat();
    let below = |value: f64| all.iter().filter(|v| v.total_cmp(&value).is_lt()).count();
    let equal = |value: f64| all.iter().filter(|v| v.total_cmp(&value).is_eq()).count();
    all.iter().map(|v| 2 * below(*v) + equal(*v) + 1).collect()
}

/// Of all choices of `chosen` ranks, the share with this sum or a smaller one.
fn exact(doubled: &[usize], chosen: usize, sum: usize) -> f64 {
    let most: usize = doubled.iter().sum();
    // choices[k][s]: of k ranks whose sum is s
    let mut choices = vec![vec![0.0_f64; most + 1]; chosen + 1];
    choices[0][0] = 1.0;
    for rank in doubled {
        for k in (1..=chosen).rev() {
            let (fewer, these) = choices.split_at_mut(k);
            let (fewer, these) = (&fewer[k - 1], &mut these[0]);
            (*rank..=most).for_each(|s| these[s] += fewer[s - rank]);
        }
    }
    choices[chosen][..=sum].iter().sum::<f64>() / choices[chosen].iter().sum::<f64>()
}

/// The same by the normal distribution, with the variance that these ranks have and half a step for continuity.
fn normal(doubled: &[usize], chosen: usize, sum: usize) -> f64 {
    let (n, m) = (chosen as f64, (doubled.len() - chosen) as f64);
    let ranks: Vec<f64> = doubled.iter().map(|r| *r as f64 / 2.0).collect();
    let mean = ranks.iter().sum::<f64>() / ranks.len() as f64;
    let squares: f64 = ranks.iter().map(|r| (r - mean) * (r - mean)).sum();
    let variance = n * m * squares / ((n + m) * (n + m - 1.0));
    if variance == 0.0 {
        return 1.0;
    }
    let z = (sum as f64 / 2.0 + 0.5 - n * mean) / variance.sqrt();
    0.5 * libm::erfc(-z / std::f64::consts::SQRT_2)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rounded(low: &[f64], high: &[f64]) -> f64 {
        (p_value(low, high).expect("numbers") * 1e4).round() / 1e4
    }

    #[test]
    fn p_values_are_those_of_counting_by_hand() {
        // one of twenty choices of three out of six
        assert_eq!(rounded(&[1.0, 2.0, 3.0], &[4.0, 5.0, 6.0]), 0.05);
        assert_eq!(rounded(&[4.0, 5.0, 6.0], &[1.0, 2.0, 3.0]), 1.0);
        // 1+2+4: two of twenty
        assert_eq!(rounded(&[1.0, 2.0, 4.0], &[3.0, 5.0, 6.0]), 0.1);
        // of the ranks 1.5, 1.5, 3.5, 3.5 one of six choices has the least sum
        assert_eq!(rounded(&[0.0, 0.0], &[7.0, 7.0]), 0.1667);
        assert_eq!(rounded(&[0.0, 0.0], &[0.0, 0.0]), 1.0);
        assert_eq!((p_value(&[], &[1.0]), least_p(3, 3), least_p(2, 2)), (None, 0.05, 1.0 / 6.0));
    }

    #[test]
    fn many_numbers_have_nearly_the_exact_p() {
        let low: Vec<f64> = (0..30).map(|i| f64::from(i % 10)).collect();
        let high: Vec<f64> = (0..30).map(|i| f64::from(i % 10) + 1.5).collect();
        let doubled = doubled_ranks(&low, &high);
        let sum = doubled[..30].iter().sum();
        let (exact, normal) = (exact(&doubled, 30, sum), normal(&doubled, 30, sum));
        assert!(exact > 0.005 && exact < 0.05 && (exact - normal).abs() < 0.001, "{exact} {normal}");
        assert_eq!(super::normal(&[4; 6], 3, 12), 1.0);
    }
}
