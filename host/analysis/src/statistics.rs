// SPDX-License-Identifier: Apache-2.0
//! Statistical tests of differences.

use statrs::distribution::{ContinuousCDF, FisherSnedecor, Normal, StudentsT};

/// Fewest values per side for which the rank sum is close enough to a normal distribution.
pub(crate) const LEAST_RANKED: usize = 8;
/// Fewest values per side from which a spread can be estimated.
pub(crate) const LEAST_MEANS: usize = 3;
/// Resamplings for an interval.
const RESAMPLINGS: usize = 2_000;

/// The Mann–Whitney U test of sorted values: the probability that a value of `b` is greater than one of `a`
/// (ties count half), and the two-sided p by the normal approximation, corrected for ties and continuity.
pub(crate) fn mann_whitney(a: &[u64], b: &[u64]) -> (f64, f64) {
    let (n, m) = (a.len() as f64, b.len() as f64);
    let all = n + m;
    let (mut i, mut j) = (0, 0);
    let mut rank_sum_b = 0.0;
    let mut ties = 0.0;
    while i < a.len() || j < b.len() {
        let value = match (a.get(i), b.get(j)) {
            (Some(&x), Some(&y)) => x.min(y),
            (Some(&x), None) | (None, Some(&x)) => x,
            (None, None) => break,
        };
        let of_a = a[i..].iter().take_while(|&&x| x == value).count();
        let of_b = b[j..].iter().take_while(|&&x| x == value).count();
        let tied = (of_a + of_b) as f64;
        let rank = (i + j) as f64 + (tied + 1.0) / 2.0;
        rank_sum_b += of_b as f64 * rank;
        ties += tied.powi(3) - tied;
        i += of_a;
        j += of_b;
    }
    let u = rank_sum_b - m * (m + 1.0) / 2.0;
    let mean = n * m / 2.0;
    let variance = n * m / 12.0 * ((all + 1.0) - ties / (all * (all - 1.0)));
    let superiority = u / (n * m);
    if variance.is_nan() || variance <= 0.0 {
        return (superiority, 1.0);
    }
    let z = ((u - mean).abs() - 0.5).max(0.0) / variance.sqrt();
    (superiority, (2.0 * Normal::standard().sf(z)).min(1.0))
}

/// Welch's t test: the two-sided p of the means being equal, whatever the spreads.
pub(crate) fn welch(a: &[f64], b: &[f64]) -> f64 {
    let mean = |x: &[f64]| x.iter().sum::<f64>() / x.len() as f64;
    let (mean_a, mean_b) = (mean(a), mean(b));
    // Square of the mean's standard error.
    let error = |x: &[f64], mean: f64| {
        let n = x.len() as f64;
        x.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / (n - 1.0) / n
    };
    let (error_a, error_b) = (error(a, mean_a), error(b, mean_b));
    let sum = error_a + error_b;
    if sum.is_nan() || sum <= f64::EPSILON * mean_a.abs().max(mean_b.abs()).powi(2) {
        // Without a spread, the means are equal or they are not.
        return if mean_a == mean_b { 1.0 } else { 0.0 };
    }
    let t = (mean_b - mean_a) / sum.sqrt();
    let freedom = sum.powi(2)
        / (error_a.powi(2) / (a.len() as f64 - 1.0) + error_b.powi(2) / (b.len() as f64 - 1.0));
    match StudentsT::new(0.0, 1.0, freedom) {
        Ok(distribution) => 2.0 * distribution.sf(t.abs()),
        Err(_) => 1.0,
    }
}

/// p values, corrected for multiple tests (Benjamini and Hochberg): of the tests below a limit, at most this part
/// is expected to be chance.
pub fn corrected(p: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..p.len()).collect();
    order.sort_by(|&a, &b| p[b].total_cmp(&p[a]));
    let mut out = vec![1.0; p.len()];
    let mut least: f64 = 1.0;
    for (i, at) in order.into_iter().enumerate() {
        let rank = (p.len() - i) as f64;
        least = least.min(p[at] * p.len() as f64 / rank);
        out[at] = least;
    }
    out
}

/// The F test: the probability of a value as large as `f` by chance, with these degrees of freedom of the numerator and of the
/// denominator. 1 if there is no such distribution.
pub fn f_test(f: f64, between: f64, within: f64) -> f64 {
    match FisherSnedecor::new(between, within) {
        Ok(distribution) if f.is_finite() && f >= 0.0 => distribution.sf(f),
        // Without a spread within, the groups differ.
        Ok(_) if f == f64::INFINITY => 0.0,
        _ => 1.0,
    }
}

/// The calls of a method in one trace.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Cluster {
    pub(crate) sum: f64,
    pub(crate) calls: f64,
}

/// The 95 % interval of the ratio of the two means, `b` to `a`, by resampling whole traces, since calls
/// of one trace have much in common. The same input gives the same interval.
pub(crate) fn ratio_interval(a: &[Cluster], b: &[Cluster]) -> Option<(f64, f64)> {
    let mut random = fastrand::Rng::with_seed(0x6869_6e64_7369_6768);
    let mut mean = |of: &[Cluster]| {
        let mut sum = Cluster::default();
        for _ in of {
            let drawn = of[random.usize(..of.len())];
            sum.sum += drawn.sum;
            sum.calls += drawn.calls;
        }
        sum.sum / sum.calls
    };
    let ratios = (0..RESAMPLINGS).map(|_| {
        let a = mean(a);
        mean(b) / a
    });
    let mut ratios: Vec<f64> = ratios.filter(|r| r.is_finite()).collect();
    if ratios.len() < RESAMPLINGS / 2 {
        return None;
    }
    ratios.sort_by(f64::total_cmp);
    let at = |part: f64| ratios[((ratios.len() - 1) as f64 * part).round() as usize];
    Some((at(0.025), at(0.975)))
}

/// The 95 % interval of the ratio of the two means, `b` to `a`, from the spread of the calls.
pub(crate) fn ratio_interval_of_calls(a: &[u64], b: &[u64]) -> Option<(f64, f64)> {
    // Mean, and the square of its relative standard error.
    let moments = |x: &[u64]| {
        let n = x.len() as f64;
        let mean = x.iter().map(|&v| v as f64).sum::<f64>() / n;
        let squares: f64 = x.iter().map(|&v| (v as f64 - mean).powi(2)).sum();
        (mean, squares / (n - 1.0) / n / mean.powi(2))
    };
    let ((mean_a, error_a), (mean_b, error_b)) = (moments(a), moments(b));
    let reach = 1.96 * (error_a + error_b).sqrt();
    let ratio = mean_b / mean_a;
    let interval = (ratio * (-reach).exp(), ratio * reach.exp());
    (interval.0.is_finite() && interval.1.is_finite()).then_some(interval)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn close(got: f64, expected: f64) -> bool {
        (got - expected).abs() < 1e-6
    }

    /// The expected values are SciPy's (mannwhitneyu with method="asymptotic", ttest_ind with
    /// equal_var=False, false_discovery_control).
    #[test]
    fn p_values_are_those_of_scipy() {
        let mut a = [19, 22, 16, 29, 24, 31, 18, 27, 22];
        let mut b = [20, 11, 17, 12, 35, 40, 22, 41, 39, 38];
        a.sort_unstable();
        b.sort_unstable();
        let (superiority, p) = mann_whitney(&a, &b);
        assert!(
            close(superiority, 1.0 - 37.0 / 90.0) && close(p, 0.539_579_1),
            "{p}"
        );
        assert!(close(mann_whitney(&b, &a).1, p));
        let a: Vec<u64> = (10..30).collect();
        let b: Vec<u64> = (16..36).collect();
        assert!(close(mann_whitney(&a, &b).1, 0.006_007_2));

        assert!(close(
            welch(&[1.0, 1.2, 0.9, 1.1], &[1.5, 1.9, 1.4]),
            0.052_073_7
        ));
        let q = corrected(&[0.01, 0.04, 0.03, 0.005, 0.8]);
        let expected = [0.025, 0.05, 0.05, 0.025, 0.8];
        assert!(q.iter().zip(expected).all(|(&q, e)| close(q, e)), "{q:?}");
        // A smaller p never has a larger correction.
        let q = corrected(&[0.04, 0.045, 0.01]);
        let expected = [0.045, 0.045, 0.03];
        assert!(q.iter().zip(expected).all(|(&q, e)| close(q, e)), "{q:?}");
    }

    /// The expected values are SciPy's (f.sf).
    #[test]
    fn the_f_test_is_that_of_scipy() {
        assert!(
            close(f_test(4.256_494_7, 2.0, 9.0), 0.050_000_0),
            "{}",
            f_test(4.256_494_7, 2.0, 9.0)
        );
        assert!(close(f_test(1.0, 1.0, 1.0), 0.5));
        assert_eq!(f_test(0.0, 2.0, 9.0), 1.0);
        assert_eq!(f_test(f64::INFINITY, 2.0, 9.0), 0.0);
        assert_eq!(f_test(f64::NAN, 2.0, 9.0), 1.0);
        assert_eq!(f_test(1.0, 0.0, 9.0), 1.0);
    }

    #[test]
    fn equal_values_differ_by_chance() {
        let a = [5; 10];
        assert_eq!(mann_whitney(&a, &a), (0.5, 1.0));
        let b: Vec<u64> = (0..100).map(|i| i % 7).collect::<Vec<_>>();
        let mut b = b;
        b.sort_unstable();
        assert!(mann_whitney(&b, &b).1 > 0.999);
        assert_eq!(welch(&[2.0, 2.0, 2.0], &[2.0, 2.0, 2.0]), 1.0);
        assert_eq!(welch(&[2.0, 2.0, 2.0], &[3.0, 3.0, 3.0]), 0.0);
        assert_eq!(corrected(&[]), [0.0; 0]);
    }

    #[test]
    fn intervals_hold_the_ratio() {
        let cluster = |sum, calls| Cluster { sum, calls };
        let a = [
            cluster(100.0, 10.0),
            cluster(110.0, 10.0),
            cluster(95.0, 10.0),
        ];
        let b = a.map(|c| cluster(c.sum * 2.0, c.calls));
        let (low, high) = ratio_interval(&a, &b).unwrap();
        assert!(
            1.7 < low && low < 2.0 && 2.0 < high && high < 2.4,
            "{low} {high}"
        );
        assert_eq!(ratio_interval(&a, &b), Some((low, high)));
        assert_eq!(ratio_interval(&[cluster(0.0, 1.0)], &b), None);
        let (low, high) = ratio_interval_of_calls(&[10, 11, 9, 10], &[20, 22, 18, 20]).unwrap();
        assert!(
            1.6 < low && low < 2.0 && 2.0 < high && high < 2.4,
            "{low} {high}"
        );
        assert_eq!(ratio_interval_of_calls(&[0, 0], &[1, 2]), None);
    }
}
