// SPDX-License-Identifier: Apache-2.0
//! Transactions as text.

use std::io::{self, Write as _};

use hindsight_causality::transactions::{CriticalPath, RootKind, Transactions};

use super::arguments::{Arguments, Row};
use super::words;
use crate::page::{column, Kind, Page};
use crate::session::Opened;
use crate::words::{count, counted, duration, percent, time};

/// The transactions that are shown, the longest first, and how many more there are.
fn cut<'r, 'a>(rows: &'r [Row<'a>], arguments: &Arguments) -> (Vec<&'r Row<'a>>, usize) {
    let has_user = rows.iter().any(|r| r.transaction.kind.is_of_user());
    let is_shown = |row: &&Row<'_>| arguments.all || !has_user || row.transaction.kind.is_of_user();
    let mut shown: Vec<&Row<'_>> = rows.iter().filter(is_shown).collect();
    shown.sort_by_key(|r| (std::cmp::Reverse(r.path.duration_ns()), r.id));
    let more = shown.len().saturating_sub(arguments.limit as usize);
    shown.truncate(arguments.limit as usize);
    (shown, more)
}

/// The transactions that are shown, the longest first.
pub(super) fn shown<'r, 'a>(rows: &'r [Row<'a>], arguments: &Arguments) -> Vec<&'r Row<'a>> {
    cut(rows, arguments).0
}

/// The longest transactions.
pub(super) fn list(
    page: &mut Page,
    opened: &Opened,
    rows: &[Row<'_>],
    arguments: &Arguments,
) -> io::Result<()> {
    summary(page, opened, rows)?;
    let (shown, more) = cut(rows, arguments);
    if shown.is_empty() {
        return Ok(());
    }
    writeln!(page)?;
    let columns = [
        column("id", Kind::Number),
        column("began", Kind::Number),
        column("took", Kind::Number),
        column("to", Kind::Text),
        column("kind", Kind::Text),
        column("what", Kind::Name),
        column("critical path", Kind::Prose),
    ];
    let rows = shown.iter().map(|row| {
        let t = row.transaction;
        let start_ns = opened.start_ns(t.thread);
        let to = if row.path.update.is_some() {
            "update"
        } else {
            "end of work"
        };
        vec![
            row.id.0.to_string().into(),
            time(t.begin_ns.saturating_sub(start_ns)).into(),
            duration(row.path.duration_ns()).into(),
            to.into(),
            t.kind.name().into(),
            row.what.as_str().into(),
            words::shares(&row.path.shares()).into(),
        ]
    });
    let rows: Vec<_> = rows.collect();
    page.table(&columns, &rows)?;
    page.more(more)
}

fn summary(page: &mut Page, opened: &Opened, rows: &[Row<'_>]) -> io::Result<()> {
    let of = |kind: RootKind| rows.iter().filter(|r| r.transaction.kind == kind).count();
    let kinds: Vec<String> = RootKind::ALL
        .into_iter()
        .filter(|&kind| of(kind) > 0)
        .map(|kind| format!("{} {}", count(of(kind) as u64), kind.name()))
        .collect();
    let traces = opened.session.traces().len() as u64;
    let of_kinds = match kinds.is_empty() {
        true => String::new(),
        false => format!(": {}", kinds.join(", ")),
    };
    page.plain(&format!(
        "{} in {}{of_kinds}.",
        counted(rows.len() as u64, "transaction", "transactions"),
        counted(traces, "trace", "traces"),
    ))?;
    let interrupted = rows
        .iter()
        .filter(|r| r.transaction.interrupted_by.is_some());
    match interrupted.count() as u64 {
        0 => Ok(()),
        n => page.plain(&format!(
            "{} interrupted by a later one of the user.",
            counted(n, "transaction was", "transactions were")
        )),
    }
}

/// A critical path, step by step.
pub(super) fn path(
    page: &mut Page,
    opened: &Opened,
    found: &Transactions,
    path: &CriticalPath,
) -> io::Result<()> {
    let Some(transaction) = found.get(path.transaction) else {
        return Ok(());
    };
    let start_ns = opened.start_ns(transaction.thread);
    page.strong(&format!(
        "Transaction {}: {}, {}, on {}, {} {}",
        path.transaction.0,
        transaction.kind.name(),
        words::what(opened, found, transaction),
        opened.thread(transaction.thread),
        time(transaction.begin_ns.saturating_sub(start_ns)),
        opened.origin(),
    ))?;
    let updates = transaction.updates.len() as u64;
    let to = match path
        .update
        .and_then(|u| transaction.updates.iter().position(|o| *o == u))
    {
        Some(at) => format!(
            "to update {} of {} of the screen",
            count(at as u64 + 1),
            count(updates)
        ),
        None => "to the end of its last work".to_owned(),
    };
    page.plain(&format!(
        "Critical path: {}, {to}.",
        duration(path.duration_ns())
    ))?;
    if let Some(by) = transaction.interrupted_by {
        page.plain(&format!(
            "Transaction {} of the user began before that.",
            by.0
        ))?;
    }
    writeln!(page)?;
    steps(page, opened, path)?;
    writeln!(page)?;
    let shares = path.shares();
    let columns = [
        column("component", Kind::Text),
        column("time", Kind::Number),
        column("part", Kind::Number),
    ];
    let row = |(component, ns): (hindsight_causality::transactions::Component, u64)| {
        vec![
            component.name().into(),
            duration(ns).into(),
            percent(ns, path.duration_ns()).into(),
        ]
    };
    page.table(&columns, &shares.parts().map(row).collect::<Vec<_>>())?;
    for polling in &path.polling {
        writeln!(page)?;
        let ns = duration(polling.ns);
        let how = match polling.yields {
            true => {
                format!("it gives up the processor again and again, as Thread.yield does, for {ns}")
            }
            false => format!(
                "{} sleeps and timeouts, {ns} together",
                count(polling.times.into())
            ),
        };
        page.plain(&format!(
            "Warning: {} seems to poll in {}: {how}. What it polls for is not recorded, so the path may be wrong; a rule for \
             the field (docs/events.md) would show who writes it.",
            opened.thread(polling.thread),
            opened.work(polling.node),
        ))?;
    }
    Ok(())
}

fn steps(page: &mut Page, opened: &Opened, path: &CriticalPath) -> io::Result<()> {
    let columns = [
        column("at", Kind::Number),
        column("took", Kind::Number),
        column("component", Kind::Text),
        column("thread", Kind::Name),
        column("", Kind::Prose),
    ];
    let rows = path.steps.iter().map(|step| {
        let parts: Vec<&str> = step.shares.parts().map(|(c, _)| c.name()).collect();
        let text = words::step(opened, step);
        let text = match parts.len() {
            0 | 1 => text,
            _ => format!("{text} ({})", words::shares(&step.shares)),
        };
        vec![
            duration(step.begin_ns - path.begin_ns).into(),
            duration(step.end_ns - step.begin_ns).into(),
            parts.join(", ").into(),
            opened.thread(step.thread).into(),
            text.into(),
        ]
    });
    page.table(&columns, &rows.collect::<Vec<_>>())
}

/// What is not recorded, and what follows from that.
pub(super) fn missing(page: &mut Page, missing: &[&str]) -> io::Result<()> {
    if missing.is_empty() {
        return Ok(());
    }
    writeln!(page)?;
    for sentence in missing {
        page.dim(sentence)?;
    }
    Ok(())
}
