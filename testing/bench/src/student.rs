// SPDX-License-Identifier: Apache-2.0
//! Student's t-test of pairs, with one tail.

use statrs::distribution::{ContinuousCDF as _, StudentsT};

/// The probability that the differences `with - without` of pairs have a mean this large by chance, if in truth it is zero
/// or less. NaN for fewer than two pairs, and where all differences are the same.
pub(crate) fn p_of_more(with: &[f64], without: &[f64]) -> f64 {
    let differences: Vec<f64> = with.iter().zip(without).map(|(a, b)| a - b).collect();
    let n = differences.len() as f64;
    let mean = differences.iter().sum::<f64>() / n;
    let variance = differences.iter().map(|d| (d - mean).powi(2)).sum::<f64>() / (n - 1.0);
    let t = mean / (variance / n).sqrt();
    if !t.is_finite() {
        return f64::NAN;
    }
    StudentsT::new(0.0, 1.0, n - 1.0).map_or(f64::NAN, |student| student.sf(t))
}

#[cfg(test)]
mod tests {
    use super::p_of_more;

    #[test]
    fn the_probability_is_that_of_the_tables() {
        // Differences 1, 2, 3: mean 2, t = 2 / (1 / sqrt 3) = 3.4641 with 2 degrees of freedom: 1/2 - t / (2 sqrt(t^2 + 2)).
        let with = [11.0, 22.0, 33.0];
        let without = [10.0, 20.0, 30.0];
        assert!((p_of_more(&with, &without) - 0.037_09).abs() < 1e-5);
        assert!((p_of_more(&without, &with) - 0.962_91).abs() < 1e-5);
        // 2.353 is the table's value for 3 degrees of freedom and 5 %.
        let with = [2.353 - 3.0_f64.sqrt(), 2.353 - 1.0 / 3.0_f64.sqrt()];
        let with = [with[0], with[1], 4.706 - with[1], 4.706 - with[0]];
        let scale = (with.iter().map(|x| (x - 2.353).powi(2)).sum::<f64>() / 3.0).sqrt() / 2.0;
        let shifted = with.map(|x| (x - 2.353) / scale + 2.353);
        assert!((p_of_more(&shifted, &[0.0; 4]) - 0.05).abs() < 1e-3);
        assert!(p_of_more(&[1.0], &[0.0]).is_nan());
    }
}
