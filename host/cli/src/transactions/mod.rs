// SPDX-License-Identifier: Apache-2.0
//! `hindsight transactions`: what the user did, what it caused, and what made them wait.

mod arguments;
mod export;
mod groups;
mod json;
mod show;
mod words;

use anyhow::{bail, Context, Result};
use hindsight_causality::transactions::{
    CriticalPath, GroupBy, Measured, Paths, Recorded, TransactionId, Transactions,
};
use hindsight_causality::ThreadId;
use serde::Serialize;

pub(crate) use self::arguments::Arguments;
use self::arguments::{By, Row};
use self::groups::All;
use crate::batch::Failure;
use crate::output::write_json;
use crate::page::{Look, Page};
use crate::session::{Damaged, Opened, TraceReport};
use crate::system::SystemReport;

#[derive(Serialize)]
struct Report {
    traces: Vec<TraceReport>,
    #[serde(skip_serializing_if = "Option::is_none")]
    system: Option<SystemReport>,
    transactions: Vec<json::TransactionReport>,
    #[serde(skip_serializing_if = "Option::is_none")]
    critical_path: Option<json::PathReport>,
    #[serde(skip_serializing_if = "Option::is_none")]
    groups: Option<json::GroupsReport>,
    /// What is missing, and what follows from that.
    missing: Vec<&'static str>,
    damaged: Vec<Damaged>,
    failed: Vec<Failure>,
}

pub(crate) fn run(arguments: &Arguments, look: &Look) -> Result<()> {
    let opened = arguments.inputs.open()?;
    let found = Transactions::find(&opened.session, &opened.graph);
    let paths = Paths::new(&opened.session, &opened.graph, &found);
    let missing = Recorded::of(&opened.session, &found).missing();
    let chosen = arguments
        .critical_path
        .map(|id| path(&found, &paths, id, arguments.layout))
        .transpose()?;
    let rows: Vec<Row<'_>> = found
        .iter()
        .filter_map(|(id, transaction)| {
            Some(Row {
                id,
                transaction,
                path: paths.path(id)?,
                what: words::what(&opened, &found, transaction),
                threads: threads(&opened, &found, id),
            })
        })
        .collect();
    let by = match arguments.group_by {
        By::Graph => GroupBy::Graph,
        By::Handler => GroupBy::Handler,
    };
    let all = arguments.asks_for_groups().then(|| {
        let measured = rows
            .iter()
            .map(|r| Measured::of(&opened.session, &opened.graph, &found, &r.path));
        All::of(&opened, &found, &paths, &measured.collect::<Vec<_>>(), by)
    });
    if let Some(output) = &arguments.output {
        export::write(&opened, &found, &paths, &rows, arguments, output)?;
    }
    if arguments.json {
        let report = |r: &Row<'_>| json::TransactionReport::of(&opened, r);
        return write_json(&Report {
            traces: opened.traces(),
            system: opened.system(),
            transactions: rows.iter().map(report).collect(),
            critical_path: chosen.map(|path| json::PathReport::of(&opened, &path)),
            groups: all.as_ref().map(json::GroupsReport::of),
            missing,
            damaged: opened.damaged,
            failed: opened.failed,
        });
    }
    Page::new(look).show(|page| {
        match (&chosen, &all) {
            (Some(path), _) => show::path(page, &opened, &found, path)?,
            (None, Some(all)) => groups::write(page, &opened, &found, all, arguments)?,
            (None, None) => show::list(page, &opened, &rows, arguments)?,
        }
        show::missing(page, &missing)?;
        opened.write_missing(page)
    })
}

fn path(
    found: &Transactions,
    paths: &Paths<'_>,
    id: u32,
    layout: Option<u32>,
) -> Result<CriticalPath> {
    let id = TransactionId(id);
    let Some(transaction) = found.get(id) else {
        match found.len() {
            0 => bail!("there is no transaction {}: none was found", id.0),
            n => bail!(
                "there is no transaction {}: they have the numbers 0 to {}",
                id.0,
                n - 1
            ),
        }
    };
    let path = match layout {
        None => paths.path(id),
        Some(update) => paths.path_to(id, update as usize - 1),
    };
    path.with_context(|| match transaction.updates.len() {
        0 => format!(
            "transaction {} has no updates of the screen: leave out --layout",
            id.0
        ),
        n => format!(
            "transaction {} has {n} updates of the screen: --layout takes 1 to {n}",
            id.0
        ),
    })
}

/// The number of threads that work for a transaction.
fn threads(opened: &Opened, found: &Transactions, id: TransactionId) -> usize {
    let members = found.members_of(id);
    let mut threads: Vec<ThreadId> = members
        .map(|(_, m)| opened.graph.node(m.node).thread)
        .collect();
    threads.sort_unstable();
    threads.dedup();
    threads.len()
}
