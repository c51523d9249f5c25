// SPDX-License-Identifier: Apache-2.0
//! Runs other programs; with `--dry-run`, only prints them.

use anyhow::{bail, Context, Result};
use std::ffi::OsStr;
use std::path::Path;
use std::process::{Command, Stdio};

/// Runs commands that change something.
#[derive(Clone, Copy, Debug, Default)]
pub struct Runner {
    /// Only print.
    pub dry_run: bool,
}

impl Runner {
    /// Runs a command that changes something; it shares our standard output and error.
    ///
    /// # Errors
    /// If it can't be started or fails.
    pub fn run(&self, command: &mut Command) -> Result<()> {
        println!("+ {}", shown(command));
        if self.dry_run {
            return Ok(());
        }
        let status = command
            .status()
            .with_context(|| format!("cannot start {}", shown(command)))?;
        if !status.success() {
            bail!("{} failed ({status})", shown(command));
        }
        Ok(())
    }

    /// Prints the next action; returns whether to do it.
    pub fn does(&self, what: &str) -> bool {
        println!("+ {what}");
        !self.dry_run
    }
}

/// Runs a command that changes nothing; its standard output without the last line's end.
///
/// # Errors
/// If it can't be started or fails; with its standard error.
pub fn output(command: &mut Command) -> Result<String> {
    let (ok, out, err) = try_output(command)?;
    if !ok {
        bail!("{} failed: {}", shown(command), err.trim());
    }
    Ok(out.trim_end_matches('\n').to_owned())
}

/// Whether a command succeeded, and its standard output and error.
///
/// # Errors
/// If it can't be started.
pub fn try_output(command: &mut Command) -> Result<(bool, String, String)> {
    let output = command
        .stdin(Stdio::null())
        .output()
        .with_context(|| format!("cannot start {}", shown(command)))?;
    Ok((
        output.status.success(),
        String::from_utf8_lossy(&output.stdout).into_owned(),
        String::from_utf8_lossy(&output.stderr).into_owned(),
    ))
}

/// A command as a shell takes it.
pub fn shown(command: &Command) -> String {
    let mut text = String::new();
    if let Some(dir) = command.get_current_dir() {
        text += &format!("cd {} && ", quoted(dir.as_os_str()));
    }
    for (name, value) in command.get_envs() {
        if let Some(value) = value {
            text += &format!("{}={} ", name.to_string_lossy(), quoted(value));
        }
    }
    text += &quoted(command.get_program());
    for argument in command.get_args() {
        text.push(' ');
        text += &quoted(argument);
    }
    text
}

fn quoted(text: &OsStr) -> String {
    let text = text.to_string_lossy();
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./=:,+@%".contains(c);
    if !text.is_empty() && text.chars().all(plain) {
        text.into_owned()
    } else {
        format!("'{}'", text.replace('\'', r"'\''"))
    }
}

/// Writes a file atomically.
///
/// # Errors
/// If the folder can't be made or the file can't be written.
pub fn write_atomic(path: &Path, bytes: &[u8]) -> Result<()> {
    use std::io::Write;
    let dir = path.parent().unwrap_or(Path::new("."));
    std::fs::create_dir_all(dir).with_context(|| format!("cannot make {}", dir.display()))?;
    let write = || -> std::io::Result<()> {
        let mut file = tempfile::NamedTempFile::new_in(dir)?;
        file.write_all(bytes)?;
        let mode = <std::fs::Permissions as std::os::unix::fs::PermissionsExt>::from_mode(0o644);
        file.as_file().set_permissions(mode)?;
        file.persist(path)?;
        Ok(())
    };
    write().with_context(|| format!("cannot write {}", path.display()))
}
