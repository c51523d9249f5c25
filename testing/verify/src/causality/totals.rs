// SPDX-License-Identifier: Apache-2.0
//! The sums over all programs, and what is printed of each.

use std::collections::BTreeMap;

use super::culprit::Answer;
use super::judge::Verdict;
use super::transactions::Coverage;

/// What is judged: a program in a mode.
pub(super) struct Subject {
    /// Its name, with the mode.
    pub(super) name: String,
    /// The command that runs it again.
    pub(super) again: String,
}

/// The sums over all programs.
#[derive(Default)]
pub(super) struct Totals {
    /// All that is wrong, once more: at the end of the output, where one finds it.
    findings: Vec<String>,
    programs: u64,
    right: BTreeMap<&'static str, u64>,
    possible: u64,
    wrong: usize,
    missing: usize,
    others: BTreeMap<String, u64>,
    culprits: Culprits,
    /// Changed truths, and those that were not noticed.
    changes: u64,
    unnoticed: usize,
    failed: u64,
    /// Transactions that were compared with calls, and these calls.
    transactions: u64,
    calls: u64,
}

/// What was said of the stalls.
#[derive(Default)]
struct Culprits {
    right: u64,
    unknown: u64,
    wrong: u64,
}

impl Totals {
    /// Prints something that is wrong, and keeps it for the end.
    fn finding(&mut self, of: &Subject, title: &str, text: &str) {
        let line = format!("{title}: {}: {text}", of.name);
        println!("{line}");
        self.findings.push(format!("{line} (again: {})", of.again));
    }

    /// Adds the verdict on a program's graph, and prints what is wrong. Returns whether nothing is.
    pub(super) fn add(&mut self, of: &Subject, verdict: Verdict) -> bool {
        self.programs += 1;
        self.all(of, "wrong", &verdict.wrong);
        self.all(of, "missing", &verdict.missing);
        for (reason, count) in verdict.right {
            *self.right.entry(reason).or_default() += count;
        }
        for (what, count) in verdict.others {
            *self.others.entry(what).or_default() += count;
        }
        self.possible += verdict.possible;
        self.wrong += verdict.wrong.len();
        self.missing += verdict.missing.len();
        verdict.wrong.is_empty() && verdict.missing.is_empty()
    }

    /// Prints findings of one kind.
    fn all(&mut self, of: &Subject, title: &str, findings: &[String]) {
        /// More of them rarely say more.
        const SHOWN: usize = 8;
        for finding in findings.iter().take(SHOWN) {
            self.finding(of, title, finding);
        }
        if findings.len() > SHOWN {
            self.finding(of, title, &format!("{} more", findings.len() - SHOWN));
        }
    }

    /// Adds the comparison of transactions with calls, and prints what is wrong. Returns whether nothing is.
    pub(super) fn coverage(&mut self, of: &Subject, coverage: &Coverage) -> bool {
        self.all(of, "wrong", &coverage.wrong);
        self.wrong += coverage.wrong.len();
        self.transactions += coverage.transactions;
        self.calls += coverage.calls;
        coverage.wrong.is_empty()
    }

    /// Adds a program of which only the answer is compared.
    pub(super) fn case(&mut self) {
        self.programs += 1;
    }

    /// Adds what was said of a stall, and prints it unless it is right. Returns whether it is not wrong.
    pub(super) fn answer(&mut self, of: &Subject, stall: &str, answer: Answer) -> bool {
        match answer {
            Answer::Right => self.culprits.right += 1,
            Answer::Unknown(why) => {
                println!("unknown: {}: {stall}: {why}", of.name);
                self.culprits.unknown += 1;
            }
            Answer::Wrong(whom) => {
                self.finding(of, "wrong", &format!("{stall}: {whom}"));
                self.culprits.wrong += 1;
                return false;
            }
        }
        true
    }

    /// Adds changes of a truth, and prints those that were not noticed. Returns whether all were.
    pub(super) fn changes(&mut self, of: &Subject, unnoticed: &[String], changes: u64) -> bool {
        for change in unnoticed {
            self.finding(of, "not noticed", &format!("a changed truth: {change}"));
        }
        self.changes += changes;
        self.unnoticed += unnoticed.len();
        unnoticed.is_empty()
    }

    /// A program that could not be judged.
    pub(super) fn failed(&mut self, of: &Subject, error: &anyhow::Error) {
        self.finding(of, "error", &format!("{error:#}"));
        self.failed += 1;
    }

    /// Prints the sums, and then all that is wrong: the last line is the shortest sum.
    pub(super) fn print(&self) {
        for (what, count) in &self.others {
            println!("of other threads: {what}: {count}");
        }
        for (reason, count) in &self.right {
            println!("{reason}: {count} edges");
        }
        println!("{} edges may be there, and are", self.possible);
        println!(
            "{} of {} changed truths were noticed",
            self.changes - self.unnoticed as u64,
            self.changes
        );
        if self.transactions > 0 {
            println!(
                "{} transactions found from events alone were compared with {} recorded calls",
                self.transactions, self.calls
            );
        }
        for finding in &self.findings {
            println!("{finding}");
        }
        println!(
            "causality: {} programs, {} edges, {} wrong, {} missing, culprits {} right, {} unknown, {} wrong",
            self.programs,
            self.right.values().sum::<u64>(),
            self.wrong,
            self.missing,
            self.culprits.right,
            self.culprits.unknown,
            self.culprits.wrong
        );
    }

    /// Whether nothing is wrong or missing, and the judge could have noticed it.
    pub(super) fn is_clean(&self) -> bool {
        let found = self.wrong + self.missing + self.unnoticed;
        found == 0 && self.failed == 0 && self.culprits.wrong == 0 && self.programs > 0
    }
}
