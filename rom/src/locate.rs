// SPDX-License-Identifier: Apache-2.0
//! Finds the lines that a hunk expects, after upstream has moved them: for builders whose tree is a later
//! point release.

use crate::patch::Hunk;
use std::fmt;

/// Where a hunk belongs in a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// All its lines are in one place. Lines are counted from 1.
    Exact {
        /// The first of them.
        line: usize,
        /// How many other places look the same.
        others: usize,
    },
    /// The hunk's change is in the file already.
    Done {
        /// The first line.
        line: usize,
    },
    /// The place with most of its lines.
    Similar {
        /// The first line.
        line: usize,
        /// How many of its lines are there, in order.
        found: usize,
        /// How many it has.
        of: usize,
        /// The first expected line that is not there.
        missing: String,
    },
    /// No place has enough of its lines.
    Nowhere,
}

/// Finds the place of a hunk.
pub fn locate(hunk: &Hunk, text: &str) -> Place {
    let lines: Vec<&str> = text.lines().collect();
    let before = hunk.before();
    let after = hunk.after();
    if hunk.added() > 0 {
        if let Some(line) = nearest(&positions(&lines, &after), hunk.start) {
            return Place::Done { line: line + 1 };
        }
    }
    let exact = positions(&lines, &before);
    if let Some(line) = nearest(&exact, hunk.start) {
        return Place::Exact {
            line: line + 1,
            others: exact.len() - 1,
        };
    }
    most_similar(&lines, &before, hunk.start)
}

/// The starts, counted from 0, of all places where `wanted` is.
fn positions(lines: &[&str], wanted: &[&str]) -> Vec<usize> {
    if wanted.is_empty() || wanted.len() > lines.len() {
        return Vec::new();
    }
    (0..=lines.len() - wanted.len())
        .filter(|&at| lines[at..].starts_with(wanted))
        .collect()
}

fn nearest(starts: &[usize], to: usize) -> Option<usize> {
    starts
        .iter()
        .copied()
        .min_by_key(|at| (at + 1).abs_diff(to))
}

/// How many lines upstream may have inserted between the hunk's own.
const SLACK: usize = 4;

fn most_similar(lines: &[&str], wanted: &[&str], near: usize) -> Place {
    // Braces and blank lines are everywhere: they identify no place.
    let telling = |line: &str| line.chars().filter(|c| c.is_alphanumeric()).count() >= 3;
    let mut best: Option<(usize, usize, usize, usize)> = None;
    for start in 0..lines.len() {
        // A place begins with one of the hunk's lines.
        if !telling(lines[start]) || !wanted.contains(&lines[start]) {
            continue;
        }
        let end = (start + wanted.len() + SLACK).min(lines.len());
        let (found, weight, missing) = in_order(&lines[start..end], wanted, &telling);
        let better = best.is_none_or(|(w, _, at, _)| {
            weight > w || (weight == w && start.abs_diff(near) < at.abs_diff(near))
        });
        if better {
            best = Some((weight, found, start, missing));
        }
    }
    match best {
        // A single line in common is no evidence.
        Some((weight, found, start, missing)) if weight >= 2 || wanted.len() <= 2 => {
            Place::Similar {
                line: start + 1,
                found,
                of: wanted.len(),
                missing: wanted.get(missing).copied().unwrap_or("").trim().to_owned(),
            }
        }
        _ => Place::Nowhere,
    }
}

/// The longest common subsequence: its length, how many telling lines it has, and the first wanted
/// line that isn't in it.
fn in_order(
    window: &[&str],
    wanted: &[&str],
    telling: &dyn Fn(&str) -> bool,
) -> (usize, usize, usize) {
    let mut table = vec![vec![0_usize; wanted.len() + 1]; window.len() + 1];
    for i in (0..window.len()).rev() {
        for j in (0..wanted.len()).rev() {
            table[i][j] = if window[i] == wanted[j] {
                table[i + 1][j + 1] + 1
            } else {
                table[i + 1][j].max(table[i][j + 1])
            };
        }
    }
    let (mut i, mut j, mut weight, mut missing) = (0, 0, 0, None);
    while j < wanted.len() {
        if i < window.len() && window[i] == wanted[j] {
            weight += usize::from(telling(wanted[j]));
            (i, j) = (i + 1, j + 1);
        } else if i < window.len() && table[i + 1][j] >= table[i][j + 1] {
            i += 1;
        } else {
            missing = missing.or(telling(wanted[j]).then_some(j));
            j += 1;
        }
    }
    (table[0][0], weight, missing.unwrap_or(wanted.len()))
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Place::Exact { line, others: 0 } => write!(f, "its lines are at line {line} now"),
            Place::Exact { line, others } => {
                write!(f, "its lines are at line {line} now, and in {others} other places")
            }
            Place::Done { line } => write!(f, "its change is in the file already, at line {line}"),
            Place::Similar { line, found, of, missing } => write!(
                f,
                "the most similar place is line {line} ({found} of {of} lines); not found there: {missing}"
            ),
            Place::Nowhere => write!(f, "no place in the file has its lines"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hunk(start: usize, lines: &[&str]) -> Hunk {
        let split = |line: &&str| (line.chars().next().unwrap(), line[1..].to_owned());
        Hunk {
            start,
            lines: lines.iter().map(split).collect(),
        }
    }

    #[test]
    fn moved_done_changed_and_gone() {
        let h = hunk(
            2,
            &[
                " void Start() {",
                "+  hook();",
                "   Init();",
                "   Run();",
                " }",
            ],
        );
        let file = |body: &str| format!("// top\n{}{body}// end\n", "// filler\n".repeat(20));
        let same = "void Start() {\n  Init();\n  Run();\n}\n";
        assert_eq!(
            locate(&h, &file(same)),
            Place::Exact {
                line: 22,
                others: 0
            }
        );
        assert_eq!(
            locate(&h, &file(&format!("{same}{same}"))),
            Place::Exact {
                line: 22,
                others: 1
            }
        );
        assert_eq!(
            locate(
                &h,
                &file("void Start() {\n  hook();\n  Init();\n  Run();\n}\n")
            ),
            Place::Done { line: 22 }
        );
        assert_eq!(
            locate(
                &h,
                &file("void Start() {\n  Log();\n  Init(1);\n  Run();\n}\n")
            ),
            Place::Similar {
                line: 22,
                found: 3,
                of: 4,
                missing: "Init();".into()
            }
        );
        assert_eq!(locate(&h, &file("void Other() {\n}\n")), Place::Nowhere);
        assert_eq!(locate(&h, ""), Place::Nowhere);
    }
}
