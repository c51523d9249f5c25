// SPDX-License-Identifier: Apache-2.0
//! Medians of repeated measurements.

/// The median; of an even number of values, the mean of the two in the middle. NaN for no values.
pub(crate) fn median(values: impl IntoIterator<Item = f64>) -> f64 {
    let mut sorted: Vec<f64> = values.into_iter().collect();
    sorted.sort_by(f64::total_cmp);
    match sorted.len() {
        0 => f64::NAN,
        odd if odd % 2 == 1 => sorted[odd / 2],
        even => (sorted[even / 2 - 1] + sorted[even / 2]) / 2.0,
    }
}

/// The median of `f` over pairs of values that were measured next to each other, so that a temporary slowdown of the
/// machine affects both.
pub(crate) fn median_of_pairs(a: &[f64], b: &[f64], f: impl Fn(f64, f64) -> f64) -> f64 {
    median(a.iter().zip(b).map(|(&a, &b)| f(a, b)))
}

/// The interval that has the median of all possible values with a probability of at least 95 %, whatever their
/// distribution is: between two of the values, by the binomial distribution. The smallest and the largest of fewer than six
/// values.
pub(crate) fn interval_of_median(values: &[f64]) -> (f64, f64) {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let n = sorted.len();
    // The probability that at most `k` of the values are below the median, and at most 2.5 % of it.
    let (mut at_most, mut exactly, mut k) = (0.0, 0.5_f64.powi(n as i32), 0);
    while k < n / 2 && at_most + exactly <= 0.025 {
        at_most += exactly;
        exactly *= (n - k) as f64 / (k + 1) as f64;
        k += 1;
    }
    let low = k.saturating_sub(1);
    match (sorted.get(low), sorted.get(n.wrapping_sub(1 + low))) {
        (Some(&low), Some(&high)) => (low, high),
        _ => (f64::NAN, f64::NAN),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_interval_is_that_of_the_tables() {
        let values = |n: u32| (1..=n).map(f64::from).collect::<Vec<_>>();
        // From tables of the sign test.
        assert_eq!(interval_of_median(&values(15)), (4.0, 12.0));
        assert_eq!(interval_of_median(&values(10)), (2.0, 9.0));
        assert_eq!(interval_of_median(&values(3)), (1.0, 3.0));
        assert!(interval_of_median(&[]).0.is_nan());
    }

    #[test]
    fn the_median_ignores_outliers() {
        assert_eq!(median([3.0, 1.0, 100.0]), 3.0);
        assert_eq!(median([1.0, 100.0, 3.0, 2.0]), 2.5);
        assert!(median([]).is_nan());
    }

    #[test]
    fn pairs_cancel_what_both_have() {
        // In the second round the machine had half the speed.
        let stock = [10.0, 20.0, 10.0];
        let traced = [11.0, 22.0, 11.0];
        let ratio = median_of_pairs(&traced, &stock, |traced, stock| traced / stock);
        assert!((ratio - 1.1).abs() < 1e-9, "{ratio}");
    }
}
