// SPDX-License-Identifier: Apache-2.0
//! What the `hindsight` program says of a file of the guest.

use serde::Deserialize;
use std::ffi::OsStr;
use std::path::Path;
use std::process::Command;

/// What `info --json` says.
#[derive(Deserialize)]
pub(super) struct Info {
    pub(super) pid: u32,
    pub(super) reason: String,
    pub(super) losses: Vec<Loss>,
}

#[derive(Deserialize)]
pub(super) struct Loss {
    pub(super) what: String,
    pub(super) count: u64,
}

#[derive(Deserialize)]
struct Top {
    rows: Vec<Row>,
}

#[derive(Deserialize)]
struct Row {
    name: String,
    calls: u64,
}

/// What a command prints of files.
pub(super) fn said<F: AsRef<OsStr>>(
    hindsight: &Path,
    arguments: &[&str],
    files: &[F],
) -> anyhow::Result<Vec<u8>> {
    let output = Command::new(hindsight)
        .args(arguments)
        .args(files)
        .output()?;
    let error = String::from_utf8_lossy(&output.stderr);
    let first = files.first().map(|file| Path::new(file.as_ref()).display());
    anyhow::ensure!(
        output.status.success(),
        "hindsight {arguments:?} {first:?}: {error}"
    );
    Ok(output.stdout)
}

/// How often a method was called.
pub(super) fn calls(hindsight: &Path, file: &Path, method: &str) -> anyhow::Result<Option<u64>> {
    let top: Top = serde_json::from_slice(&said(hindsight, &["top", "--json"], &[file])?)?;
    let found = top.rows.iter().find(|row| row.name == method);
    Ok(found.map(|row| row.calls))
}

pub(super) fn info(hindsight: &Path, file: &Path) -> anyhow::Result<Info> {
    let text = said(hindsight, &["info", "--strict", "--json"], &[file])?;
    Ok(serde_json::from_slice(&text)?)
}
