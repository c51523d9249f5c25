// SPDX-License-Identifier: Apache-2.0
//! Results of a run, their file form, and the comparison of two runs.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

use super::options::Mode;

/// How a test ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Status {
    /// Output and exit status were as expected.
    Passed,
    /// Output or exit status were wrong, or the test took too long.
    Failed,
    /// It was not run.
    Skipped,
}

/// The result of one test.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Outcome {
    /// How it ended.
    pub status: Status,
    /// Wall-clock seconds of the build (0 if it came from the cache).
    #[serde(default)]
    pub build_seconds: f64,
    /// Wall-clock seconds of run and check.
    #[serde(default)]
    pub run_seconds: f64,
    /// Events that Hindsight recorded; none if the test was not traced, or none of its processes ended normally.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub events: Option<u64>,
    /// Threads whose recording was checked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub threads: Option<u64>,
    /// Threads whose ring wrapped, so that only its last events were checked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wrapped: Option<u64>,
    /// The errors of the recording, by thread and method.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unbalanced: Vec<String>,
    /// Why a traced test has no report of its recording.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub untraced: Option<String>,
    /// Whether it loads a JVMTI agent.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub agent: bool,
    /// Why it failed at first, if it passed when it was run again alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first_failure: Option<String>,
    /// Why it failed or was skipped.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

impl Outcome {
    /// An outcome with this status and nothing else.
    pub fn new(status: Status) -> Outcome {
        Outcome {
            status,
            build_seconds: 0.0,
            run_seconds: 0.0,
            events: None,
            threads: None,
            wrapped: None,
            unbalanced: Vec::new(),
            untraced: None,
            agent: false,
            first_failure: None,
            reason: None,
        }
    }

    /// A test that was not run.
    pub fn skipped(why: &str) -> Outcome {
        Outcome {
            reason: Some(why.to_owned()),
            ..Outcome::new(Status::Skipped)
        }
    }
}

/// The results of one run.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Report {
    /// The variant of ART: `stock`, `hindsight`, …
    pub variant: String,
    /// How tests were executed.
    pub mode: Mode,
    /// Whether Hindsight traced them.
    pub trace: bool,
    /// Wall-clock seconds of the whole run.
    pub seconds: f64,
    /// Results by test.
    pub tests: BTreeMap<String, Outcome>,
}

impl Report {
    /// Reads a report that [`Report::save`] wrote.
    pub fn load(file: &Path) -> Result<Report> {
        let text = std::fs::read(file)
            .with_context(|| format!("can't read the results in {}", file.display()))?;
        serde_json::from_slice(&text).with_context(|| {
            format!(
                "{} holds no run-test results (made with --report?)",
                file.display()
            )
        })
    }

    /// Writes the report as JSON; the file is complete or not there.
    pub fn save(&self, file: &Path) -> Result<()> {
        let dir = file
            .parent()
            .filter(|d| !d.as_os_str().is_empty())
            .unwrap_or(Path::new("."));
        std::fs::create_dir_all(dir).with_context(|| format!("can't make {}", dir.display()))?;
        let temporary = dir.join(format!(".run-test-report-{}", std::process::id()));
        std::fs::write(&temporary, serde_json::to_vec_pretty(self)?)
            .with_context(|| format!("can't write {}", temporary.display()))?;
        std::fs::rename(&temporary, file).with_context(|| format!("can't write {}", file.display()))
    }

    /// The number of tests with this status.
    pub fn count(&self, status: Status) -> usize {
        self.tests.values().filter(|o| o.status == status).count()
    }

    /// `N events in N tests; N tests without a report`, of a traced run.
    pub fn trace_summary(&self) -> String {
        let run = self.tests.values().filter(|o| o.status != Status::Skipped);
        let traced: Vec<u64> = run.clone().filter_map(|o| o.events).collect();
        format!(
            "traced {} events in {} tests; {} tests have no report",
            traced.iter().sum::<u64>(),
            traced.len(),
            run.count() - traced.len()
        )
    }

    /// `N passed, N failed, N skipped`.
    pub fn summary(&self) -> String {
        format!(
            "{} passed, {} failed, {} skipped",
            self.count(Status::Passed),
            self.count(Status::Failed),
            self.count(Status::Skipped)
        )
    }

    /// Prints where this run differs from `base`, and returns how many tests passed there and do not here.
    ///
    /// Only tests in this report count, so that a part of the suite can be compared with the whole.
    pub fn compare(&self, base: &Report) -> usize {
        let (worse, better) = self.differences(base);
        let name = |r: &Report| {
            format!(
                "{} {}{}",
                r.variant,
                r.mode.name(),
                if r.trace { " traced" } else { "" }
            )
        };
        for t in &worse {
            let why = self
                .tests
                .get(*t)
                .and_then(|o| o.reason.as_deref())
                .unwrap_or("");
            println!(
                "passes on {} but not on {}: {t} ({why})",
                name(base),
                name(self)
            );
        }
        for t in &better {
            println!("passes on {} but not on {}: {t}", name(self), name(base));
        }
        if worse.is_empty() && better.is_empty() {
            println!("the same tests pass on {} and {}", name(self), name(base));
        }
        worse.len()
    }

    fn differences<'a>(&'a self, base: &Report) -> (Vec<&'a str>, Vec<&'a str>) {
        let passes =
            |r: &Report, t: &str| r.tests.get(t).is_some_and(|o| o.status == Status::Passed);
        let (mut worse, mut better) = (Vec::new(), Vec::new());
        for t in self.tests.keys() {
            match (passes(base, t), passes(self, t)) {
                (true, false) => worse.push(t.as_str()),
                (false, true) if base.tests.contains_key(t) => better.push(t.as_str()),
                _ => {}
            }
        }
        (worse, better)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(tests: &[(&str, Status)]) -> Report {
        Report {
            variant: "stock".into(),
            mode: Mode::Jit,
            trace: false,
            seconds: 1.0,
            tests: tests
                .iter()
                .map(|(n, s)| {
                    (
                        n.to_string(),
                        Outcome {
                            run_seconds: 0.5,
                            ..Outcome::new(*s)
                        },
                    )
                })
                .collect(),
        }
    }

    #[test]
    fn comparison_counts_only_what_got_worse() {
        use Status::*;
        let base = report(&[("a", Passed), ("b", Failed), ("c", Passed), ("d", Passed)]);
        let new = report(&[("a", Failed), ("b", Passed), ("c", Passed), ("new", Passed)]);
        assert_eq!(new.differences(&base), (vec!["a"], vec!["b"]));
        let skipped = report(&[("a", Skipped)]);
        assert_eq!(skipped.differences(&base), (vec!["a"], vec![]));
    }

    #[test]
    fn reports_survive_a_round_trip() {
        let d = tempfile::tempdir().unwrap();
        let f = d.path().join("deep/er.json");
        let r = report(&[
            ("001-HelloWorld", Status::Passed),
            ("002-sleep", Status::Skipped),
        ]);
        r.save(&f).unwrap();
        let back = Report::load(&f).unwrap();
        assert_eq!(back.tests, r.tests);
        assert_eq!(back.summary(), "1 passed, 0 failed, 1 skipped");
        std::fs::write(&f, "{").unwrap();
        let e = Report::load(&f).unwrap_err();
        assert!(format!("{e:#}").contains("er.json"), "{e:#}");
    }
}
