// SPDX-License-Identifier: Apache-2.0
//! Stretches of time.

/// Most stretches that are kept; of more, the longest.
const MOST: usize = 1_024;

/// Stretches of time in order, none of which touches another one. CLOCK_BOOTTIME, ns.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Windows(Vec<(u64, u64)>);

impl Windows {
    /// One stretch.
    pub fn one(from_ns: u64, to_ns: u64) -> Self {
        Windows::of(vec![(from_ns, to_ns)])
    }

    /// Of stretches in any order, which may overlap. Of very many, the longest are kept.
    pub fn of(mut spans: Vec<(u64, u64)>) -> Self {
        spans.retain(|(from, to)| from < to);
        spans.sort_unstable();
        let mut merged: Vec<(u64, u64)> = Vec::new();
        for (from, to) in spans {
            match merged.last_mut() {
                Some(last) if from <= last.1 => last.1 = last.1.max(to),
                _ => merged.push((from, to)),
            }
        }
        if merged.len() > MOST {
            merged.sort_unstable_by_key(|(from, to)| (std::cmp::Reverse(to - from), *from));
            merged.truncate(MOST);
            merged.sort_unstable();
        }
        Windows(merged)
    }

    /// The stretches.
    pub fn spans(&self) -> &[(u64, u64)] {
        &self.0
    }

    /// Their time together, ns.
    pub fn total_ns(&self) -> u64 {
        self.0.iter().map(|(from, to)| to - from).sum()
    }

    /// The beginning of the first and the end of the last one, ns; (0, 0) without any.
    pub fn bounds(&self) -> (u64, u64) {
        let first = self.0.first().map_or(0, |s| s.0);
        (first, self.0.last().map_or(0, |s| s.1))
    }

    /// The longest one.
    pub fn longest(&self) -> Option<(u64, u64)> {
        let spans = self.0.iter().rev();
        spans.max_by_key(|(from, to)| to - from).copied()
    }

    /// The parts that are in `span`.
    #[must_use]
    pub fn cut(&self, span: (u64, u64)) -> Windows {
        let first = self.0.partition_point(|s| s.1 <= span.0);
        let inside = self.0[first..].iter().take_while(|s| s.0 < span.1);
        Windows::of(inside.map(|s| (s.0.max(span.0), s.1.min(span.1))).collect())
    }

    /// How much of `span` they take, ns.
    pub fn overlap(&self, span: (u64, u64)) -> u64 {
        let first = self.0.partition_point(|s| s.1 <= span.0);
        let inside = self.0[first..].iter().take_while(|s| s.0 < span.1);
        inside
            .map(|s| s.1.min(span.1).saturating_sub(s.0.max(span.0)))
            .sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stretches_that_touch_become_one() {
        let windows = Windows::of(vec![(30, 40), (0, 10), (10, 20), (5, 12), (50, 50)]);
        assert_eq!(windows.spans(), [(0, 20), (30, 40)]);
        assert_eq!((windows.total_ns(), windows.bounds()), (30, (0, 40)));
        assert_eq!(windows.longest(), Some((0, 20)));
        assert_eq!(windows.cut((15, 35)).spans(), [(15, 20), (30, 35)]);
        assert_eq!(windows.overlap((15, 35)), 10);
        assert_eq!(windows.overlap((35, 15)), 0);
    }

    #[test]
    fn of_very_many_the_longest_are_kept() {
        let spans = (0..3 * MOST as u64).map(|i| (10 * i, 10 * i + 1 + i % 3));
        let windows = Windows::of(spans.collect());
        assert_eq!(windows.spans().len(), MOST);
        assert!(windows.spans().iter().all(|(from, to)| to - from == 3));
    }
}
