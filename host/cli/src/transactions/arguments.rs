// SPDX-License-Identifier: Apache-2.0
//! The arguments of `hindsight transactions`, and the transactions that it is about.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use hindsight_causality::transactions::{CriticalPath, Transaction, TransactionId};

use crate::session::Inputs;

#[derive(Args)]
#[command(
    after_help = "A transaction begins with an input of the user, the start of an activity, a run of a periodic timer, or \
                  other work whose cause is not recorded; it ends with all that this caused. Its critical path leads from \
                  there to its last update of the screen."
)]
pub(crate) struct Arguments {
    #[command(flatten)]
    pub(super) inputs: Inputs,
    /// Show the critical path of this transaction, step by step
    #[arg(long, value_name = "ID", help_heading = "Selection")]
    pub(super) critical_path: Option<u32>,
    /// With --critical-path: to this update of the screen, from 1 on, instead of the last one
    #[arg(long, value_name = "N", help_heading = "Selection", requires = "critical_path", value_parser = clap::value_parser!(u32).range(1..))]
    pub(super) layout: Option<u32>,
    /// Group transactions that are the same interaction, and show what they have in common
    #[arg(long, help_heading = "Selection")]
    pub(super) group: bool,
    /// What transactions of a group have in common: their whole graph, or only what handled them
    #[arg(long, value_enum, default_value_t = By::Graph, help_heading = "Selection")]
    pub(super) group_by: By,
    /// Show transactions that took much longer than others of their group, and why
    #[arg(long, help_heading = "Selection")]
    pub(super) outliers: bool,
    /// Show why transactions of a group differ: an analysis of variance, by component and by facts about devices
    #[arg(long, help_heading = "Selection")]
    pub(super) anova: bool,
    /// Also list transactions that the user did not begin: of timers, other processes, other work
    #[arg(long, help_heading = "Selection")]
    pub(super) all: bool,
    /// The number of rows to show
    #[arg(long, short = 'n', default_value_t = 20, value_name = "ROWS", help_heading = "Selection", value_parser = clap::value_parser!(u32).range(1..))]
    pub(super) limit: u32,
    /// Write JSON; times are in ns
    #[arg(long, help_heading = "Output")]
    pub(super) json: bool,
    /// Also write a file: tables for DuckDB and similar tools, into a folder (.parquet), or the traces with these critical paths,
    /// for https://ui.perfetto.dev (.pftrace)
    #[arg(long, short, help_heading = "Output", value_name = "OUTPUT", value_hint = clap::ValueHint::AnyPath)]
    pub(super) output: Option<PathBuf>,
}

#[derive(Clone, Copy, ValueEnum)]
pub(super) enum By {
    Graph,
    Handler,
}

impl Arguments {
    /// Whether groups are asked for.
    pub(super) fn asks_for_groups(&self) -> bool {
        self.group || self.outliers || self.anova
    }
}

/// A transaction with its critical path.
pub(super) struct Row<'a> {
    pub(super) id: TransactionId,
    pub(super) transaction: &'a Transaction,
    pub(super) path: CriticalPath,
    /// What it is called.
    pub(super) what: String,
    /// Number of threads.
    pub(super) threads: usize,
}
