// SPDX-License-Identifier: Apache-2.0
//! The page that an explanation is written to: sentences, and rows with times in a column.

use std::io::{self, Write as _};

use unicode_width::UnicodeWidthStr;

use crate::page::Page;
use crate::words::{count, duration, shorten, wrap};

/// What of a trace is asked about and shown.
#[derive(Clone, Copy, Debug)]
pub(super) struct Layout {
    /// The number of calls of a chain to show, the outermost first.
    pub(super) depth: Option<usize>,
    /// Whether runs of calls that say nothing new are shown one by one, such as calls of the platform by the platform.
    pub(super) full: bool,
    /// Whether only a part of the trace's time is asked about.
    pub(super) window: bool,
    /// Whether what begins with the trace may have begun before: only a part of its time is asked about, or was converted.
    pub(super) beginning_is_cut: bool,
    /// Whether the newest part of the thread's ring is missing from a damaged file.
    pub(super) end_is_missing: bool,
}

/// Sentences are wrapped here, however wide the terminal is.
const MAX_PROSE: usize = 100;
/// Columns before a tree of calls.
const MARGIN: usize = 4;
/// Indentation of a call relative to its caller, in columns.
const INDENT: usize = 2;
/// Width of a duration, in columns, including the space before it.
const TIME: usize = 10;
/// Columns that are kept for names, however deep the call.
const LEAST_NAME: usize = 36;

/// The page, and how it is laid out.
pub(super) struct Text<'p> {
    pub(super) page: &'p mut Page,
    pub(super) layout: Layout,
    /// The name of a chain's first call: message, or call.
    pub(super) unit: &'static str,
}

/// A line of a tree of calls.
pub(super) struct Row {
    pub(super) level: usize,
    pub(super) name: String,
    pub(super) ns: Option<u64>,
    pub(super) calls: Option<u64>,
    pub(super) style: &'static str,
}

impl Text<'_> {
    /// A sentence, wrapped if it is for a terminal.
    pub(super) fn say(&mut self, style: &str, sentence: &str) -> io::Result<()> {
        let width = self.page.width.map(|w| w.min(MAX_PROSE));
        let reset = if style.is_empty() {
            ""
        } else {
            self.page.palette.reset
        };
        for line in wrap(sentence, width) {
            writeln!(self.page, "{style}{line}{reset}")?;
        }
        Ok(())
    }

    /// Rows, indented by their levels.
    pub(super) fn rows(&mut self, rows: &[Row]) -> io::Result<()> {
        // Deep calls must not push names out of a terminal.
        let most = self.page.width.map_or(usize::MAX, |width| {
            width.saturating_sub(MARGIN + LEAST_NAME + TIME)
        });
        let indent = |row: &Row| (row.level * INDENT).min(most);
        let calls_column = rows.iter().any(|r| r.calls.is_some());
        let name_end = self.page.width.map_or(usize::MAX, |width| {
            let taken = MARGIN + if calls_column { 2 * TIME } else { TIME };
            width.saturating_sub(taken).max(LEAST_NAME)
        });
        let names: Vec<String> = rows
            .iter()
            .map(|row| shorten(&row.name, name_end.saturating_sub(indent(row))))
            .collect();
        let ends = rows.iter().zip(&names);
        let width = ends.map(|(row, name)| indent(row) + name.width());
        let width = width.max().unwrap_or(0);
        let digits = rows.iter().filter_map(|r| r.calls).map(|n| count(n).len());
        let digits = digits.max().unwrap_or(0);
        for (row, name) in rows.iter().zip(&names) {
            let indent = indent(row);
            let reset = if row.style.is_empty() {
                ""
            } else {
                self.page.palette.reset
            };
            let style = row.style;
            write!(self.page, "{:MARGIN$}{:indent$}", "", "")?;
            let Some(ns) = row.ns else {
                writeln!(self.page, "{style}{name}{reset}")?;
                continue;
            };
            let padding = width - indent - name.width();
            let time = duration(ns);
            write!(self.page, "{style}{name}{reset}{:padding$}  {time:>8}", "")?;
            if let Some(calls) = row.calls {
                let word = if calls == 1 { "call" } else { "calls" };
                write!(self.page, "  {:>digits$} {word}", count(calls))?;
            }
            writeln!(self.page)?;
        }
        Ok(())
    }
}

/// `thread "main" (tid 4200)`
pub(super) fn named(name: &str, tid: u32) -> String {
    format!("thread \"{name}\" (tid {tid})")
}

/// A thread that an event names by its id.
pub(super) fn other(name: Option<&str>, tid: u32) -> String {
    match name {
        Some(name) => named(name, tid),
        None => format!("thread {tid}"),
    }
}
