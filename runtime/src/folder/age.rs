// SPDX-License-Identifier: Apache-2.0
//! Which files are too old, by a wall clock that may be wrong.
//!
//! A device may boot in 1970, or in the year in which it was built, until the network tells it the time. So the index
//! notes when its files were last looked at, and a look believes the clock by this rule:
//! - Ages count once a day: at the first look that is a day or more after the one noted. Only such a look removes files for
//!   their age.
//! - A clock that stands before the noted look was set back: the look is noted, and no age counts.
//! - A clock more than [`JUMP`] after the noted look may have jumped: no age counts at the first look after that, but at the
//!   next one, a day or more later.
//! - A file dated more than a day after a look at which ages count was dated by a wrong clock. It gets that look's date.
//!
//! So a clock that is wrong by more than [`JUMP`] removes no file with a right date unless it stays wrong for a day, and no
//! file stays because of a wrong date. A clock that is ahead by a day to [`JUMP`] looks like a pause, and is believed. A file
//! written while the clock was behind is old at the next look at which ages count.

use std::time::{Duration, SystemTime};

pub(super) const DAY: Duration = Duration::from_secs(24 * 60 * 60);
/// So long a time between two looks may be a clock that was set.
const JUMP: Duration = Duration::from_secs(30 * DAY.as_secs());

/// A look at the files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Look {
    /// By the wall clock, s since 1970.
    at_s: u64,
    /// The clock was far after the look before.
    jumped: bool,
}

impl Look {
    /// As a line of the index.
    pub(super) fn line(self) -> String {
        let jumped = if self.jumped { "+" } else { "" };
        format!("@{}{jumped}", self.at_s)
    }

    /// The look in this line; `None` if the line is another one.
    pub(super) fn parse(line: &str) -> Option<Self> {
        let at = line.strip_prefix('@')?;
        let rest = at.strip_suffix('+');
        Some(Look {
            at_s: rest.unwrap_or(at).parse().ok()?,
            jumped: rest.is_some(),
        })
    }

    /// The look to note after the one at `now`, and whether ages count at that one.
    pub(super) fn next(before: Option<Look>, now: SystemTime) -> (Look, bool) {
        let since_1970 = now.duration_since(SystemTime::UNIX_EPOCH);
        let at_s = since_1970.unwrap_or_default().as_secs();
        let noted = |jumped| Look { at_s, jumped };
        let Some(before) = before else {
            return (noted(false), false);
        };
        let Some(passed) = at_s.checked_sub(before.at_s) else {
            return (noted(false), false);
        };
        if passed < DAY.as_secs() {
            (before, false)
        } else if passed > JUMP.as_secs() && !before.jumped {
            (noted(true), false)
        } else {
            (noted(false), true)
        }
    }
}

/// What the date of a file says at a look at which ages count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Age {
    Young,
    Old,
    /// A wrong clock dated it.
    Misdated,
}

/// The age of a file with this date, which is old if it is older than the limit.
pub(super) fn age(written: SystemTime, now: SystemTime, limit: Option<Duration>) -> Age {
    match now.duration_since(written) {
        Ok(age) if limit.is_some_and(|limit| age > limit) => Age::Old,
        Err(ahead) if ahead.duration() > DAY => Age::Misdated,
        _ => Age::Young,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY_S: u64 = DAY.as_secs();
    /// Days from 1970 to 2026.
    const TODAY: u64 = 20_454;

    fn at(seconds: u64) -> SystemTime {
        SystemTime::UNIX_EPOCH + Duration::from_secs(seconds)
    }

    #[test]
    fn a_clock_is_believed_once_a_day_and_not_after_a_jump() {
        // Each row: the day of a look, and whether ages count.
        let tables: [&[(u64, bool)]; 7] = [
            // Daily use.
            &[(TODAY, false), (TODAY + 1, true), (TODAY + 2, true)],
            // The second look of a day.
            &[(TODAY, false), (TODAY + 1, true), (TODAY + 1, false)],
            // A month without a look.
            &[(TODAY, false), (TODAY + 30, true)],
            // A device that boots in 1970.
            &[
                (TODAY, false),
                (0, false),
                (TODAY, false),
                (TODAY + 1, true),
            ],
            // And stays there.
            &[(TODAY, false), (0, false), (1, true), (TODAY, false)],
            // Twelve years ahead, and back.
            &[
                (TODAY, false),
                (TODAY + 4380, false),
                (TODAY + 4380, false),
                (TODAY, false),
                (TODAY + 1, true),
            ],
            // Two months between any two looks.
            &[
                (TODAY, false),
                (TODAY + 60, false),
                (TODAY + 120, true),
                (TODAY + 180, false),
            ],
        ];
        for table in tables {
            let mut before = None;
            for (number, (day, counts)) in table.iter().enumerate() {
                let (look, ages) = Look::next(before, at(day * DAY_S));
                assert_eq!(ages, *counts, "look {number} of {table:?}");
                assert_eq!(Look::parse(&look.line()), Some(look));
                before = Some(look);
            }
        }
    }

    #[test]
    fn looks_of_less_than_a_day_do_not_put_off_the_next_one_that_counts() {
        let (mut look, _) = Look::next(None, at(TODAY * DAY_S));
        let hours: Vec<u64> = (1..=72)
            .filter(|hour| {
                let (next, counts) = Look::next(Some(look), at(TODAY * DAY_S + hour * 3600));
                look = next;
                counts
            })
            .collect();
        assert_eq!(hours, [24, 48, 72]);
    }

    #[test]
    fn a_date_is_old_or_wrong_beyond_its_limits() {
        let now = at(1000 * DAY_S);
        let week = Some(7 * DAY);
        for (written, limit, expected) in [
            (1000 * DAY_S, week, Age::Young),
            (993 * DAY_S, week, Age::Young),
            (993 * DAY_S - 1, week, Age::Old),
            (0, week, Age::Old),
            (0, None, Age::Young),
            (1001 * DAY_S, week, Age::Young),
            (1001 * DAY_S + 1, week, Age::Misdated),
            (1001 * DAY_S + 1, None, Age::Misdated),
        ] {
            assert_eq!(age(at(written), now, limit), expected, "{written}");
        }
    }

    #[test]
    fn lines_that_are_no_looks_are_none() {
        for line in [
            "",
            "@",
            "@+",
            "@-1",
            "@1x",
            "1",
            "app-1-1.hindsight",
            "@99999999999999999999",
        ] {
            assert_eq!(Look::parse(line), None, "{line}");
        }
    }
}
