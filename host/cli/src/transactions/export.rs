// SPDX-License-Identifier: Apache-2.0
//! Transactions in the formats of other tools.

use std::collections::HashMap;
use std::path::Path;

use anyhow::{bail, Result};
use hindsight_causality::transactions::{
    crashes, group_crashes, groups, Crash, CriticalPath, GroupBy, Paths, TransactionId,
    Transactions,
};
use hindsight_export::{write_causes, write_paths, Causes, Format};

use super::arguments::{Arguments, Row};
use super::show;
use crate::export::format_of_name;
use crate::session::Opened;

/// Writes all that was found as Parquet tables, or the traces with the critical paths that are shown for Perfetto.
pub(super) fn write(
    opened: &Opened,
    found: &Transactions,
    paths: &Paths<'_>,
    rows: &[Row<'_>],
    arguments: &Arguments,
    output: &Path,
) -> Result<()> {
    let format = format_of_name(output)?;
    let (session, graph) = (&opened.session, &opened.graph);
    let mut keys: HashMap<TransactionId, u64> = HashMap::new();
    for group in groups(session, graph, found, GroupBy::Graph) {
        keys.extend(group.transactions.iter().map(|&t| (t, group.key)));
    }
    let names = rows
        .iter()
        .map(|r| (r.what.clone(), keys.get(&r.id).copied().unwrap_or(0)));
    let names: Vec<(String, u64)> = names.collect();
    let all: Vec<&CriticalPath> = rows.iter().map(|r| &r.path).collect();
    let list = crashes(session, graph, found, paths);
    let mut keyed: Vec<(&Crash, u64)> = Vec::new();
    for group in group_crashes(session, graph, &list) {
        keyed.extend(group.crashes.iter().map(|&c| (&list[c], group.key)));
    }
    let causes = Causes {
        session,
        graph,
        transactions: found,
        names: &names,
        paths: &all,
        crashes: &keyed,
    };
    match format {
        Format::Parquet => write_causes(&causes, output)?,
        Format::Perfetto => {
            let chosen = match arguments.critical_path {
                Some(id) => vec![TransactionId(id)],
                None => show::shown(rows, arguments).iter().map(|r| r.id).collect(),
            };
            write_paths(&causes, &chosen, output)?;
        }
        _ => bail!(
            "{}: transactions are written as .parquet or .pftrace only",
            output.display()
        ),
    }
    Ok(())
}
