// SPDX-License-Identifier: Apache-2.0
//! Damaged parts of a trace, in reports.

use std::fmt;
use std::io::{self, Write};
use std::path::Path;

use hindsight_decoder::{Damage, DamagedPart, ThreadKey, Trace};
use serde::Serialize;

use crate::page::Page;

/// A damaged part of a file.
#[derive(Serialize)]
pub(crate) struct DamageReport {
    /// `ring`, `anchors`, `symbols`, `process`, `losses`, `strings`, `stacks`, `table` or `bytes`.
    part: &'static str,
    /// The ring that is damaged, or that the anchors are of.
    #[serde(skip_serializing_if = "Option::is_none")]
    ring: Option<u32>,
    /// Of a ring: the thread's id, if it can still be read.
    #[serde(skip_serializing_if = "Option::is_none")]
    tid: Option<u32>,
    /// Of a ring: the thread's name, if it can still be read.
    #[serde(skip_serializing_if = "Option::is_none")]
    thread: Option<String>,
    /// Of a ring: how many of its slots are in the trace.
    #[serde(skip_serializing_if = "Option::is_none")]
    kept_slots: Option<u64>,
    /// Of a ring: how many slots it had, if that can still be read.
    #[serde(skip_serializing_if = "Option::is_none")]
    slots: Option<u64>,
    /// The damaged part, the reason, and the data that was kept, as text.
    text: String,
}

impl From<&Damage> for DamageReport {
    fn from(damage: &Damage) -> Self {
        let mut report = DamageReport {
            part: match &damage.part {
                DamagedPart::Ring { .. } => "ring",
                DamagedPart::Anchors { .. } => "anchors",
                DamagedPart::OpenCalls { .. } => "open calls",
                DamagedPart::Symbols => "symbols",
                DamagedPart::Process => "process",
                DamagedPart::Losses => "losses",
                DamagedPart::Strings => "strings",
                DamagedPart::Stacks => "stacks",
                DamagedPart::Table { .. } => "table",
                _ => "bytes",
            },
            ring: None,
            tid: None,
            thread: None,
            kept_slots: None,
            slots: None,
            text: damage.to_string(),
        };
        match &damage.part {
            DamagedPart::Ring {
                thread,
                tid,
                name,
                kept_slots,
                slots,
            } => {
                report.ring = ring(*thread);
                report.tid = *tid;
                report.thread.clone_from(name);
                report.kept_slots = Some(*kept_slots);
                report.slots = *slots;
            }
            DamagedPart::Anchors { thread } | DamagedPart::OpenCalls { thread } => {
                report.ring = ring(*thread);
            }
            _ => {}
        }
        report
    }
}

/// The ring of a thread, which may be only in the file that this one was converted from.
fn ring(thread: ThreadKey) -> Option<u32> {
    (thread != ThreadKey::NOT_IN_FILE).then_some(thread.ring)
}

impl fmt::Display for DamageReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// The damaged parts of a trace.
pub(crate) fn reports(trace: &Trace) -> Vec<DamageReport> {
    trace.damaged.iter().map(DamageReport::from).collect()
}

/// Ends a report with its trace's damaged parts, if there are any.
pub(crate) fn write(page: &mut Page, damaged: &[DamageReport]) -> io::Result<()> {
    if damaged.is_empty() {
        return Ok(());
    }
    writeln!(page)?;
    page.strong("Not in the trace, because the file is damaged")?;
    for damage in damaged {
        page.indented(&damage.text, 2)?;
    }
    Ok(())
}

/// Names the damaged parts of a trace on standard error.
pub(crate) fn note(trace: &Trace, file: &Path) {
    for damage in &trace.damaged {
        let file = file.display();
        // An error of standard error itself cannot be reported.
        let _ = writeln!(
            io::stderr(),
            "note: {file} is damaged: not in the trace: {damage}"
        );
    }
}
