// SPDX-License-Identifier: Apache-2.0
//! A tree of calls with their times.

use std::io;

use hindsight_analysis::{Callee, ChainCall, Others};
use hindsight_decoder::Methods;

use super::text::{Row, Text};
use crate::page::Palette;
use crate::words::counted;

/// From this number on, successive calls that say nothing new are shown as one line.
const DULL: usize = 3;
/// Of longer lists of callers, only the ends are shown.
const MAX_CALLERS: usize = 6;

impl Text<'_> {
    /// One line for each call, indented by depth, with the times in a column.
    pub(super) fn calls(&mut self, callers: &[String], calls: &[ChainCall]) -> io::Result<()> {
        let Palette { strong, dim, .. } = self.page.palette;
        let mut rows: Vec<Row> = Vec::new();
        let row = |rows: &mut Vec<Row>, name: String, ns, style| {
            let level = rows.len();
            rows.push(Row {
                level,
                name,
                ns,
                calls: None,
                style,
            });
        };
        let kept = MAX_CALLERS / 2;
        let hidden = if !self.layout.full && callers.len() > MAX_CALLERS {
            kept..callers.len() - kept
        } else {
            0..0
        };
        for (i, caller) in callers.iter().enumerate() {
            if i == hidden.start && !hidden.is_empty() {
                row(&mut rows, format!("… {} calls …", hidden.len()), None, dim);
            }
            if !hidden.contains(&i) {
                row(&mut rows, caller.clone(), None, dim);
            }
        }
        let shown = self.layout.depth.unwrap_or(usize::MAX).min(calls.len());
        let mut i = 0;
        while i < shown {
            let dull = if self.layout.full {
                0
            } else {
                (i..shown).take_while(|&k| is_dull(calls, k)).count()
            };
            if dull >= DULL {
                let name = folded(&calls[i - 1], &calls[i..i + dull]);
                row(&mut rows, name, Some(calls[i].ns), dim);
                i += dull;
                continue;
            }
            let style = if i + 1 == calls.len() { strong } else { "" };
            row(&mut rows, calls[i].method.clone(), Some(calls[i].ns), style);
            i += 1;
        }
        if shown < calls.len() {
            let deeper = calls.len() - shown;
            let noun = if deeper == 1 { "call" } else { "calls" };
            let name = format!("… {deeper} deeper {noun}");
            row(&mut rows, name, Some(calls[shown].ns), dim);
        }
        self.rows(&rows)
    }
}

/// Whether a call says nothing new: a call of the platform amid others, or of the same method as its caller.
fn is_dull(calls: &[ChainCall], i: usize) -> bool {
    let (Some(before), Some(after)) = (i.checked_sub(1).map(|b| &calls[b]), calls.get(i + 1))
    else {
        return false;
    };
    let call = &calls[i];
    call.method == before.method || (!call.own && !before.own && !after.own)
}

/// `… 12 calls of itself`, `… 7 calls in android.view, androidx.recyclerview.widget`
fn folded(before: &ChainCall, dull: &[ChainCall]) -> String {
    if dull.iter().all(|l| l.method == before.method) {
        // Several of these need not be of the same method.
        if before.method == Methods::NOT_RECORDED_NAME {
            return format!("… {} more calls entered before the trace", dull.len());
        }
        return format!("… {} calls of itself", dull.len());
    }
    let mut packages: Vec<&str> = Vec::new();
    for call in dull {
        let class = call.method.rsplit_once('.').map_or("", |(class, _)| class);
        let package = class.rsplit_once('.').map_or(class, |(package, _)| package);
        // A method without a name has no package.
        if !package.is_empty() && !packages.contains(&package) {
            packages.push(package);
        }
    }
    if packages.is_empty() {
        return format!("… {} calls", dull.len());
    }
    let more = if packages.len() > 2 { ", …" } else { "" };
    packages.truncate(2);
    format!("… {} calls in {}{more}", dull.len(), packages.join(", "))
}

/// The calls that a call made, with theirs below them.
pub(super) fn callee_rows(
    callees: &[Callee],
    others: Others,
    least: u64,
    level: usize,
    dim: &'static str,
    rows: &mut Vec<Row>,
) {
    for callee in callees {
        rows.push(Row {
            level,
            name: callee.method.clone(),
            ns: Some(callee.ns),
            calls: Some(callee.calls),
            style: "",
        });
        callee_rows(&callee.callees, callee.others, least, level + 1, dim, rows);
    }
    // Below a call whose callees all took little time, they aren't worth a line.
    if others.calls > 0 && others.ns >= least && !callees.is_empty() {
        rows.push(Row {
            level,
            name: format!(
                "… {}",
                counted(others.methods, "other method", "other methods")
            ),
            ns: Some(others.ns),
            calls: Some(others.calls),
            style: dim,
        });
    }
}
