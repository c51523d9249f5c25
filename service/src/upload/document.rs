// SPDX-License-Identifier: Apache-2.0
//! The text that leaves the device about a report.

use std::fmt::Write as _;

use hindsight_trace_query::Answer;

use crate::context::{Context, Metrics};
use crate::policy::{Level, UserType};
use crate::store::Entry;
use crate::text::one_line;

use super::sha256::Sha256;

/// What the text says about the device.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Device {
    /// A random number of the device that never leaves it, in hexadecimal.
    pub secret: String,
    /// Who uses it.
    pub user: UserType,
    /// Where.
    pub region: String,
    /// Revision of its policy.
    pub policy: u64,
}

impl Device {
    /// A name of the device for one app of one Android user. Nobody can tell whether two such names are of one device.
    pub fn name_for(&self, uid: u32) -> String {
        Sha256::of(format!("hindsight-device {} {uid}", self.secret).as_bytes())
    }
}

/// The range of each metric; at the highest level also all samples.
fn push_metrics(text: &mut String, metrics: &Metrics, level: Level) {
    text.push_str("\nmetrics of the last minutes: least, highest, name\n");
    for (at, name) in metrics.names.iter().enumerate() {
        if let Some(range) = metrics.range(at) {
            let name = one_line(name);
            let _ = writeln!(text, "  {:.2}  {:.2}  {name}", range.least, range.highest);
        }
    }
    if level < Level::Full {
        return;
    }
    text.push_str("\nsamples: from, to (ms from the report on), and each metric\n");
    for sample in &metrics.samples {
        let [from, to] = sample.ms;
        let _ = write!(text, "  {from}  {to}");
        for value in &sample.values {
            let _ = match value {
                Some(value) => write!(text, "  {value:.2}"),
                None => write!(text, "  -"),
            };
        }
        text.push('\n');
    }
}

/// Lines of the log, which the level has not removed.
fn push_log(text: &mut String, context: &Context) {
    let log = &context.log;
    if log.lines.is_empty() {
        return;
    }
    let _ = writeln!(
        text,
        "\nlog: s from the report on; {} older lines are left out",
        log.left_out
    );
    for line in &log.lines {
        let plain = |c: char| if c.is_control() { '?' } else { c };
        let line: String = line.chars().map(plain).collect();
        let _ = writeln!(text, "  {line}");
    }
}

/// The whole text. It has no time of day, no ids of processes, threads or users, and no names of
/// threads; lines of the log may have anything in them.
pub fn document(
    entry: &Entry,
    context: &Context,
    answer: &Answer,
    device: &Device,
    level: Level,
) -> String {
    let context = context.clone().limited_to(level);
    let mut text = String::from("hindsight-report 1\n");
    let severity = entry.severity().name();
    let fields = [
        ("device", device.name_for(entry.uid)),
        ("level", level.name().to_owned()),
        ("user", device.user.name().to_owned()),
        ("region", device.region.clone()),
        ("policy", device.policy.to_string()),
        ("service", entry.service.clone()),
        ("process", entry.process.clone()),
        ("severity", severity.to_owned()),
        ("detector", entry.detector.clone()),
        ("has-ended", entry.has_ended.to_string()),
    ];
    for (name, value) in fields {
        let _ = writeln!(text, "{name} {}", one_line(&value));
    }
    // Where the name is not allowed, the version is not, either.
    if level >= Level::Signatures && entry.version != 0 {
        let _ = writeln!(text, "version {}", entry.version);
    }
    for (fact, value) in context.device.iter() {
        let _ = writeln!(text, "device-{} {}", fact.name(), one_line(value));
    }
    // Programs compose reasons, which may have anything in them.
    if level >= Level::Full {
        let _ = writeln!(text, "reason {}", one_line(&entry.reason));
    }
    let _ = write!(text, "\n{answer}");
    push_metrics(&mut text, &context.metrics, level);
    push_log(&mut text, &context);
    text
}
