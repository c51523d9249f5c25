// SPDX-License-Identifier: Apache-2.0
//! The guest's image: the lab's files at the paths that they have here, with the shared libraries of Debian that they
//! are linked to, busybox, the kernel's modules and the policies.

use super::cpio::Archive;
use crate::error::{Error, IoContext as _, Result};
use crate::run::Lab;
use crate::util::run;
use std::collections::BTreeSet;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

const BUSYBOX: &str = "/bin/busybox";
/// The guest's empty folders.
const FOLDERS: [&str; 6] = ["/proc", "/sys", "/dev", "/tmp", "/data", "/bin"];

/// A file of the guest.
pub(super) struct GuestFile {
    /// Its absolute path there.
    pub(super) path: PathBuf,
    /// Its contents.
    pub(super) contents: Vec<u8>,
    /// Whether it can be executed.
    pub(super) is_program: bool,
}

impl GuestFile {
    /// A file that is not executed.
    pub(super) fn data(path: impl Into<PathBuf>, contents: impl Into<Vec<u8>>) -> GuestFile {
        GuestFile {
            path: path.into(),
            contents: contents.into(),
            is_program: false,
        }
    }

    /// A program.
    pub(super) fn program(path: impl Into<PathBuf>, contents: impl Into<Vec<u8>>) -> GuestFile {
        GuestFile {
            is_program: true,
            ..GuestFile::data(path, contents)
        }
    }
}

/// Writes the image to a file that has no name, so that nothing is left behind. It also has the libraries that the programs
/// `beside` are linked to.
pub(super) fn write(
    lab: &Lab,
    framework: &Path,
    beside: &[PathBuf],
    files: &[GuestFile],
) -> Result<File> {
    let image = tempfile::tempfile().context("make a file in", std::env::temp_dir())?;
    let written = |source| Error::Io {
        what: "write the guest's image to",
        path: std::env::temp_dir(),
        source,
    };
    let mut archive = Archive::new(BufWriter::new(&image));
    for folder in FOLDERS {
        archive.folder(Path::new(folder)).map_err(written)?;
    }
    let mut needed = files_of_the_lab(lab, framework)?;
    for program in beside {
        needed.extend(libraries_of(lab, program)?);
    }
    for path in needed {
        add(&mut archive, &path)?;
    }
    add(&mut archive, Path::new(BUSYBOX))?;
    archive
        .link(Path::new("/bin/sh"), "busybox")
        .map_err(written)?;
    for file in files {
        archive
            .file(&file.path, &file.contents, file.is_program)
            .map_err(written)?;
    }
    archive.finish().map_err(written)?;
    Ok(image)
}

/// Copies a file; a link is followed.
fn add<W: Write>(archive: &mut Archive<W>, path: &Path) -> Result<()> {
    let contents = std::fs::read(path).context("read", path)?;
    let mode = std::fs::metadata(path)
        .context("read", path)?
        .permissions()
        .mode();
    archive
        .file(path, &contents, mode & 0o111 != 0)
        .context("copy", path)
}

/// What dalvikvm needs: itself, its libraries, the core libraries' data, and the framework's jars and boot image.
fn files_of_the_lab(lab: &Lab, framework: &Path) -> Result<BTreeSet<PathBuf>> {
    let root = lab.root();
    let mut files = BTreeSet::from([root.join("bin").join(lab.isa().dalvikvm())]);
    let native = [root.join("lib64"), framework.to_owned()];
    for dir in &native {
        files.extend(
            files_in(dir, 1)?
                .into_iter()
                .filter(|path| is_library(path)),
        );
    }
    let mut needed = BTreeSet::new();
    for file in &files {
        needed.extend(libraries_of(lab, file)?);
    }
    files.extend(needed);
    files.extend(files_in(&framework.join("x86_64"), 1)?);
    for jar in lab.boot_class_path() {
        files.insert(jar.path);
    }
    let jars = files_in(framework, 1)?.into_iter();
    files.extend(jars.filter(|path| path.extension().is_some_and(|found| found == "jar")));
    for module in ["com.android.runtime", "com.android.tzdata"] {
        files.extend(files_in(&root.join(module), usize::MAX)?);
    }
    Ok(files)
}

fn is_library(path: &Path) -> bool {
    path.extension().is_some_and(|found| found == "so")
}

fn files_in(dir: &Path, depth: usize) -> Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for entry in walkdir::WalkDir::new(dir).min_depth(1).max_depth(depth) {
        let entry = entry.map_err(|error| Error::Other(error.to_string()))?;
        if !entry.file_type().is_dir() {
            files.push(entry.into_path());
        }
    }
    Ok(files)
}

/// The shared libraries that the loader would load with this file, and the loader.
fn libraries_of(lab: &Lab, file: &Path) -> Result<Vec<PathBuf>> {
    let mut command = Command::new("ldd");
    command.arg(file).envs(lab.environment());
    let text = run(
        command,
        &format!("asking for the libraries of {}", file.display()),
    )?;
    let found = libraries(&text).map_err(|name| {
        Error::Other(format!(
            "{} needs the library {name}, which is missing",
            file.display()
        ))
    })?;
    Ok(found)
}

/// The paths in ldd's output; the name of a library that it did not find is the error.
fn libraries(text: &str) -> std::result::Result<Vec<PathBuf>, String> {
    let mut found = Vec::new();
    for line in text.lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        match words.as_slice() {
            [name, "=>", "not", "found"] => return Err((*name).to_owned()),
            [_, "=>", path, _] | [path, _] if path.starts_with('/') => found.push(path.into()),
            _ => {}
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ldd_names_libraries_and_the_loader() {
        let text = "\tlinux-vdso.so.1 (0x7f)\n\tlibx.so.1 => /usr/lib/libx.so.1 (0x7f)\n\
                    \t/lib64/ld-linux-x86-64.so.2 (0x7f)\n";
        let expected = ["/usr/lib/libx.so.1", "/lib64/ld-linux-x86-64.so.2"].map(PathBuf::from);
        assert_eq!(libraries(text).unwrap(), expected);
        assert_eq!(
            libraries("\tstatically linked\n").unwrap(),
            [] as [PathBuf; 0]
        );
        assert_eq!(
            libraries("\tliby.so => not found\n").unwrap_err(),
            "liby.so"
        );
    }
}
