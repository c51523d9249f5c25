// SPDX-License-Identifier: Apache-2.0
//! `hindsight man`: manual pages.

use std::path::PathBuf;

use anyhow::{Context, Result};
use clap::{Args, Command};

#[derive(Args)]
pub(crate) struct Arguments {
    /// The folder for hindsight.1, hindsight-top.1 and so on; created if it does not exist
    #[arg(value_hint = clap::ValueHint::DirPath)]
    folder: PathBuf,
}

pub(crate) fn run(arguments: &Arguments, program: Command) -> Result<()> {
    let folder = &arguments.folder;
    let cannot = || format!("cannot write manual pages into {}", folder.display());
    std::fs::create_dir_all(folder).with_context(cannot)?;
    clap_mangen::generate_to(program.disable_help_subcommand(true), folder).with_context(cannot)
}
