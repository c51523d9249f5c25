// SPDX-License-Identifier: Apache-2.0
//! Mean and spread of values, with few outliers or with many.

/// Mean and spread of some values.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Spread {
    /// Number of values.
    pub count: usize,
    /// Mean.
    pub mean: f64,
    /// Standard deviation, of a sample; 0 for fewer than two values.
    pub deviation: f64,
    /// Median.
    pub median: f64,
    /// Median of the distances from the median.
    pub median_distance: f64,
}

impl Spread {
    /// Of these values.
    pub fn of(values: &[f64]) -> Self {
        let count = values.len();
        if count == 0 {
            return Spread::default();
        }
        let mean = values.iter().sum::<f64>() / count as f64;
        let squares: f64 = values.iter().map(|v| (v - mean).powi(2)).sum();
        let deviation = match count {
            1 => 0.0,
            n => (squares / (n as f64 - 1.0)).sqrt(),
        };
        let median = median(values.to_vec());
        Spread {
            count,
            mean,
            deviation,
            median,
            median_distance: self::median(values.iter().map(|v| (v - median).abs()).collect()),
        }
    }
}

/// 0 of no values.
pub(super) fn median(mut values: Vec<f64>) -> f64 {
    values.sort_unstable_by(f64::total_cmp);
    match values.len() {
        0 => 0.0,
        n if n % 2 == 1 => values[n / 2],
        n => (values[n / 2 - 1] + values[n / 2]) / 2.0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_spread_of_a_sample() {
        let spread = Spread::of(&[2.0, 4.0, 4.0, 4.0, 5.0, 5.0, 7.0, 9.0]);
        assert_eq!(
            (spread.mean, spread.median, spread.median_distance),
            (5.0, 4.5, 0.5)
        );
        assert!((spread.deviation - 2.138_089_935).abs() < 1e-9);
        assert_eq!(Spread::of(&[]), Spread::default());
        assert_eq!(Spread::of(&[3.0]).deviation, 0.0);
    }
}
