// SPDX-License-Identifier: Apache-2.0
//! Small things: running programs, writing files whole, hashing.

use crate::error::{Error, IoContext, Result};
use sha2::{Digest, Sha256};
use std::io::{Read, Write};
use std::path::Path;
use std::process::{Command, Stdio};

/// The Debian package of a program that the lab runs.
fn package_of(program: &str) -> &'static str {
    match program {
        "apt-get" | "apt-cache" => "apt",
        "dpkg-deb" | "dpkg-query" => "dpkg",
        "patch" => "patch",
        "tar" => "tar",
        "ninja" => "ninja-build",
        "git" => "git",
        qemu if qemu.starts_with("qemu-") => "qemu-user",
        "java" | "javac" | "jar" => "openjdk-17-jdk-headless",
        _ => "coreutils",
    }
}

fn no_program(command: &Command, source: std::io::Error) -> Error {
    let program = command.get_program().to_string_lossy().into_owned();
    let package = package_of(&program);
    Error::NoProgram {
        program,
        package,
        source,
    }
}

/// Runs a program to its end and returns its standard output.
pub(crate) fn run(command: Command, what: &str) -> Result<String> {
    run_with_input(command, Stdio::null(), what)
}

/// As [`run`], with standard input from `input`.
pub(crate) fn run_with_input(mut command: Command, input: Stdio, what: &str) -> Result<String> {
    command.stdin(input);
    let output = command
        .output()
        .map_err(|source| no_program(&command, source))?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let mut text = String::from_utf8_lossy(&output.stdout).into_owned();
    text.push_str(&String::from_utf8_lossy(&output.stderr));
    Err(Error::Program {
        what: what.to_owned(),
        status: output.status.to_string(),
        output: last_lines(&text, 60),
    })
}

/// Unpacks a Debian package into a folder; `options` are tar's, and say what to unpack.
pub(crate) fn unpack_deb(deb: &Path, to: &Path, options: &[&str]) -> Result<()> {
    let what = format!("unpacking {}", deb.display());
    let mut source = Command::new("dpkg-deb")
        .arg("--fsys-tarfile")
        .arg(deb)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .map_err(|source| Error::NoProgram {
            program: "dpkg-deb".to_owned(),
            package: "dpkg",
            source,
        })?;
    let mut command = Command::new("tar");
    command
        .args(["-x", "-f", "-", "--no-same-owner", "-C"])
        .arg(to);
    command.args(options);
    let pipe = source.stdout.take().expect("stdout is piped");
    let result = run_with_input(command, pipe.into(), &what);
    let status = source.wait().context("wait for dpkg-deb on", deb)?;
    result?;
    if !status.success() {
        return Err(Error::Program {
            what,
            status: status.to_string(),
            output: String::new(),
        });
    }
    Ok(())
}

/// The last `count` lines of a text.
pub(crate) fn last_lines(text: &str, count: usize) -> String {
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(count)..].join("\n")
}

/// The first `count` lines of a text, and how many are left out.
pub(crate) fn first_lines(text: &str, count: usize) -> String {
    let lines: Vec<&str> = text.lines().collect();
    match lines.len().checked_sub(count) {
        None | Some(0) => lines.join("\n"),
        Some(more) => format!("{}\n({more} more lines)", lines[..count].join("\n")),
    }
}

/// Makes a folder and its parents.
pub(crate) fn create_dir(dir: &Path) -> Result<()> {
    std::fs::create_dir_all(dir).context("make the folder", dir)
}

/// Removes a file, folder or link, if it is there.
pub(crate) fn remove(path: &Path) -> Result<()> {
    let result = match std::fs::symlink_metadata(path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(()),
        Err(error) => Err(error),
        Ok(data) if data.is_dir() => std::fs::remove_dir_all(path),
        Ok(_) => std::fs::remove_file(path),
    };
    result.context("remove", path)
}

/// Reads a file as text.
pub(crate) fn read(path: &Path) -> Result<String> {
    std::fs::read_to_string(path).context("read", path)
}

/// Writes a file whole or not at all.
pub(crate) fn write_atomic(path: &Path, bytes: &[u8]) -> Result<()> {
    let dir = path.parent().unwrap_or(Path::new("."));
    create_dir(dir)?;
    let mut file = tempfile::NamedTempFile::new_in(dir).context("write to", dir)?;
    file.write_all(bytes).context("write", path)?;
    // NamedTempFile is private to its owner; the lab's files are not secret.
    let mode = <std::fs::Permissions as std::os::unix::fs::PermissionsExt>::from_mode(0o644);
    file.as_file()
        .set_permissions(mode)
        .context("write", path)?;
    file.persist(path)
        .map_err(|error| error.error)
        .context("write", path)?;
    Ok(())
}

/// As [`write_atomic`], but leaves a file with these contents untouched, so that it keeps its time stamp. Returns
/// whether it wrote.
pub(crate) fn write_if_changed(path: &Path, bytes: &[u8]) -> Result<bool> {
    if std::fs::read(path).is_ok_and(|old| old == bytes) {
        return Ok(false);
    }
    write_atomic(path, bytes)?;
    Ok(true)
}

/// Makes `link` point to `target`, replacing another link.
pub(crate) fn symlink(target: &Path, link: &Path) -> Result<()> {
    if std::fs::read_link(link).is_ok_and(|old| old == target) {
        return Ok(());
    }
    if let Some(dir) = link.parent() {
        create_dir(dir)?;
    }
    remove(link)?;
    std::os::unix::fs::symlink(target, link).context("make the link", link)
}

/// The SHA-256 of a file, in hexadecimal.
pub(crate) fn sha256_file(path: &Path) -> Result<String> {
    let mut file = std::fs::File::open(path).context("open", path)?;
    let mut hash = Sha256::new();
    let mut buffer = vec![0; 1 << 16];
    loop {
        let n = file.read(&mut buffer).context("read", path)?;
        if n == 0 {
            return Ok(hex(&hash.finalize()));
        }
        hash.update(&buffer[..n]);
    }
}

/// Bytes in hexadecimal.
pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
