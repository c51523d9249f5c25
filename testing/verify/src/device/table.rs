// SPDX-License-Identifier: Apache-2.0
//! The promises, and what was measured.

use std::fmt;

/// What became of a promise.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// It was kept.
    Kept,
    /// It was not: so many problems.
    Broken(u64),
    /// It could not be checked here, for this reason.
    Skipped(String),
}

/// A row.
#[derive(Clone, Debug)]
struct Row {
    name: &'static str,
    promise: &'static str,
    measured: String,
    verdict: Verdict,
}

/// The table.
#[derive(Clone, Debug, Default)]
pub(super) struct Table(Vec<Row>);

impl Table {
    /// Adds a row. The name is for lines on skipped checks.
    pub(super) fn add(
        &mut self,
        name: &'static str,
        promise: &'static str,
        measured: String,
        verdict: Verdict,
    ) {
        self.0.push(Row {
            name,
            promise,
            measured,
            verdict,
        });
    }

    /// Problems in all rows.
    pub(super) fn problems(&self) -> u64 {
        let of = |row: &Row| match row.verdict {
            Verdict::Broken(problems) => problems,
            Verdict::Kept | Verdict::Skipped(_) => 0,
        };
        self.0.iter().map(of).sum()
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "| promise | measured | |\n|---|---|---|")?;
        for row in &self.0 {
            let verdict = match &row.verdict {
                Verdict::Kept => "kept".to_owned(),
                Verdict::Broken(problems) => format!("{problems} problems"),
                Verdict::Skipped(_) => "skipped".to_owned(),
            };
            writeln!(f, "| {} | {} | {verdict} |", row.promise, row.measured)?;
        }
        for row in &self.0 {
            if let Verdict::Skipped(why) = &row.verdict {
                writeln!(f, "skipped device-{}: {why}", row.name)?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn problems_are_counted_and_skipped_checks_are_named() {
        let mut table = Table::default();
        table.add("a", "one", "1".into(), Verdict::Kept);
        table.add("b", "two", "2".into(), Verdict::Broken(3));
        table.add("c", "three", "-".into(), Verdict::Skipped("no PSI".into()));
        assert_eq!(table.problems(), 3);
        let text = table.to_string();
        assert!(text.contains("| two | 2 | 3 problems |"), "{text}");
        assert!(text.ends_with("skipped device-c: no PSI\n"), "{text}");
    }
}
