// SPDX-License-Identifier: Apache-2.0
//! The report, as JUnit XML.

use std::fmt::Write as _;
use std::time::Duration;

/// How a step ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It passed; with the measurements.
    Passed(String),
    /// It failed; with the reason.
    Failed(String),
    /// It was not run; with the reason.
    Skipped(String),
}

/// A step of the suite.
#[derive(Clone, Debug)]
pub struct Case {
    /// Its name.
    pub name: &'static str,
    /// How it ended.
    pub outcome: Outcome,
    /// How long it took.
    pub took: Duration,
}

/// The whole report.
pub fn report(suite: &str, cases: &[Case]) -> String {
    let count =
        |wanted: fn(&Outcome) -> bool| cases.iter().filter(|case| wanted(&case.outcome)).count();
    let total: f64 = cases.iter().map(|case| case.took.as_secs_f64()).sum();
    let mut xml = format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites>\n  <testsuite name=\"{}\" tests=\"{}\" \
         failures=\"{}\" skipped=\"{}\" time=\"{total:.3}\">\n",
        escaped(suite),
        cases.len(),
        count(|outcome| matches!(outcome, Outcome::Failed(_))),
        count(|outcome| matches!(outcome, Outcome::Skipped(_))),
    );
    for case in cases {
        let _ = write!(
            xml,
            "    <testcase classname=\"{}\" name=\"{}\" time=\"{:.3}\">",
            escaped(suite),
            escaped(case.name),
            case.took.as_secs_f64()
        );
        let _ = match &case.outcome {
            Outcome::Passed(text) => write!(xml, "<system-out>{}</system-out>", escaped(text)),
            Outcome::Failed(text) => {
                let first = text.lines().next().unwrap_or("");
                write!(
                    xml,
                    "<failure message=\"{}\">{}</failure>",
                    escaped(first),
                    escaped(text)
                )
            }
            Outcome::Skipped(text) => write!(xml, "<skipped message=\"{}\"/>", escaped(text)),
        };
        xml += "</testcase>\n";
    }
    xml + "  </testsuite>\n</testsuites>\n"
}

/// Escapes text for XML. Characters that XML 1.0 does not allow become U+FFFD.
fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '<' => out += "&lt;",
            '>' => out += "&gt;",
            '&' => out += "&amp;",
            '"' => out += "&quot;",
            '\n' | '\t' => out.push(c),
            c if (c as u32) < 0x20 || c == '\u{fffe}' || c == '\u{ffff}' => out.push('\u{fffd}'),
            c => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hostile_text_is_escaped_and_counts_are_right() {
        let case = |name, outcome| Case {
            name,
            outcome,
            took: Duration::from_millis(1500),
        };
        let xml = report(
            "a \"b\"",
            &[
                case("one", Outcome::Passed("<&>\u{1}".into())),
                case("two", Outcome::Failed("first\n]]> second".into())),
                case("three", Outcome::Skipped("why".into())),
            ],
        );
        assert!(
            xml.contains(
                "name=\"a &quot;b&quot;\" tests=\"3\" failures=\"1\" skipped=\"1\" time=\"4.500\""
            ),
            "{xml}"
        );
        assert!(
            xml.contains("<system-out>&lt;&amp;&gt;\u{fffd}</system-out>"),
            "{xml}"
        );
        assert!(
            xml.contains("<failure message=\"first\">first\n]]&gt; second</failure>"),
            "{xml}"
        );
        assert!(xml.contains("<skipped message=\"why\"/>"), "{xml}");
    }
}
