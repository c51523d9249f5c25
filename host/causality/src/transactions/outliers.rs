// SPDX-License-Identifier: Apache-2.0
//! Transactions that took much longer than others of their group (P-12; AppInsight, OSDI 2012, § 6.4).

use super::component::Component;
use super::measured::Measured;
use super::model::TransactionId;
use super::spread::Spread;

/// So many standard deviations above the mean is an outlier (AppInsight's k).
pub const OUTLIER_DEVIATIONS: f64 = 3.0;
/// With fewer values none can be so far above the mean: at most (n − 1)/√n standard deviations are possible.
pub const LEAST_FOR_MEAN: usize = 11;
/// With fewer values the median's distances say little.
pub const LEAST_FOR_MEDIAN: usize = 5;
/// The median distance of a normal distribution, times this, is its standard deviation.
const NORMAL: f64 = 1.4826;
/// A component that is less than this above its mean explains no outlier, ns.
const LEAST_EXCESS_NS: f64 = 1_000_000.0;

/// A transaction that took much longer than the others of its group.
#[derive(Clone, Debug, PartialEq)]
pub struct Outlier {
    /// The transaction.
    pub id: TransactionId,
    /// Length of its critical path, ns.
    pub path_ns: u64,
    /// Whether it is above the mean by three standard deviations.
    pub by_mean: bool,
    /// Whether it is above the median by three times what a standard deviation would be without outliers.
    pub by_median: bool,
    /// The components that are as far above their own means, or medians, the largest excess first. Several: each is to blame.
    pub blamed: Vec<Component>,
}

/// The outliers of a group.
pub fn outliers(group: &[&Measured]) -> Vec<Outlier> {
    let values = |of: &dyn Fn(&Measured) -> u64| -> Vec<f64> {
        group.iter().map(|m| of(m) as f64).collect()
    };
    let total = Spread::of(&values(&|m| m.path_ns));
    let parts = Component::ALL.map(|c| Spread::of(&values(&|m| m.shares[c])));
    let mut found = Vec::new();
    for measured in group {
        let (by_mean, by_median) = is_above(measured.path_ns as f64, &total);
        if !by_mean && !by_median {
            continue;
        }
        let mut blamed: Vec<(f64, Component)> = Vec::new();
        for (component, spread) in Component::ALL.into_iter().zip(&parts) {
            let value = measured.shares[component] as f64;
            let (of_mean, of_median) = is_above(value, spread);
            let excess = value - spread.median;
            let is_blamed = (by_mean && of_mean) || (by_median && of_median);
            if is_blamed && excess >= LEAST_EXCESS_NS {
                blamed.push((excess, component));
            }
        }
        blamed.sort_by(|a, b| b.0.total_cmp(&a.0));
        found.push(Outlier {
            id: measured.id,
            path_ns: measured.path_ns,
            by_mean,
            by_median,
            blamed: blamed.into_iter().map(|(_, c)| c).collect(),
        });
    }
    found.sort_by_key(|o| (std::cmp::Reverse(o.path_ns), o.id));
    found
}

/// Whether a value is far above the mean, and far above the median.
fn is_above(value: f64, spread: &Spread) -> (bool, bool) {
    let mean_limit = spread.mean + OUTLIER_DEVIATIONS * spread.deviation;
    let median_limit = spread.median + OUTLIER_DEVIATIONS * NORMAL * spread.median_distance;
    // Without a spread, what differs by a millisecond differs.
    let of_median = value > median_limit && value - spread.median >= LEAST_EXCESS_NS;
    (
        spread.count >= LEAST_FOR_MEAN && value > mean_limit,
        spread.count >= LEAST_FOR_MEDIAN && of_median,
    )
}
