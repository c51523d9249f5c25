// SPDX-License-Identifier: Apache-2.0
//! What the guest reports on its console: lines that begin with `@`, as `lab/vm/init` writes them.

/// What happened in a step.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Outcome {
    /// The step's name.
    pub(super) name: String,
    /// Its exit status; `None` if the guest ended before it did.
    pub(super) status: Option<u32>,
    /// The lines of its output.
    pub(super) said: Vec<String>,
    /// The kernel's messages about access that SELinux denied or audited meanwhile.
    pub(super) audited: Vec<String>,
    /// Time since the boot at its end, in seconds.
    pub(super) uptime: String,
}

/// Everything that the guest has reported.
#[derive(Debug, Default)]
pub(super) struct Console {
    /// The steps that were begun, in order.
    pub(super) outcomes: Vec<Outcome>,
    /// The kernel's release.
    pub(super) kernel: String,
    /// The parts that the kernel has.
    pub(super) features: Vec<String>,
    /// Whether the files were written to the disk.
    pub(super) packed: bool,
    /// Whether the guest came to its end.
    pub(super) ended: bool,
    /// Lines that are not reports, such as a kernel's panic.
    pub(super) other: Vec<String>,
}

/// The largest number of lines that are kept of those that are not reports.
const OTHER_LINES: usize = 200;

impl Console {
    /// Takes a line of the console.
    pub(super) fn line(&mut self, line: &str) {
        let Some(report) = line.strip_prefix('@') else {
            if self.other.len() < OTHER_LINES && !line.trim().is_empty() {
                self.other.push(line.to_owned());
            }
            return;
        };
        let (word, rest) = report.split_once(' ').unwrap_or((report, ""));
        match word {
            "kernel" => self.kernel = rest.to_owned(),
            "has" => self.features.push(rest.to_owned()),
            "packed" => self.packed = true,
            "end" => self.ended = true,
            "step" => self.outcomes.push(Outcome {
                name: rest.to_owned(),
                ..Outcome::default()
            }),
            _ => {
                let Some(step) = self.outcomes.last_mut() else {
                    return;
                };
                match word {
                    "status" => step.status = rest.parse().ok(),
                    "said" => step.said.push(rest.to_owned()),
                    "avc" => step.audited.push(rest.trim().to_owned()),
                    "uptime" => step.uptime = rest.to_owned(),
                    _ => {}
                }
            }
        }
    }

    /// The report of a step.
    pub(super) fn outcome(&self, name: &str) -> Option<&Outcome> {
        self.outcomes.iter().find(|outcome| outcome.name == name)
    }
}
