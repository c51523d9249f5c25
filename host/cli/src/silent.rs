// SPDX-License-Identifier: Apache-2.0
//! Threads that recorded nothing since their rings were exchanged, as for an earlier report.

use std::io::{self, Write as _};

use crate::page::Page;
use crate::words::counted;

/// So many are named.
const NAMED: usize = 8;

/// Says which threads they are: their names and ids.
pub(crate) fn write(page: &mut Page, threads: &[(&str, u32)]) -> io::Result<()> {
    if threads.is_empty() {
        return Ok(());
    }
    let mut names: Vec<String> = (threads.iter().take(NAMED))
        .map(|(name, tid)| format!("{name} ({tid})"))
        .collect();
    if let Some(more) = threads.len().checked_sub(NAMED).filter(|&more| more > 0) {
        names.push(format!("{more} more"));
    }
    let (were, they) = match threads.len() {
        1 => ("its ring was", "it was"),
        _ => ("their rings were", "they were"),
    };
    writeln!(page)?;
    page.plain(&format!(
        "{} recorded nothing since {were} exchanged, as for an earlier report: {}. What {they} in is not in this file.",
        counted(threads.len() as u64, "thread", "threads"),
        names.join(", ")
    ))
}
