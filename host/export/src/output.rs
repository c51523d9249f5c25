// SPDX-License-Identifier: Apache-2.0
//! Files that get their name when they are complete, so that nothing half-written is ever found under a final name.
//!
//! On Linux an unfinished file has no name at all: if the program is killed, the system removes it. File systems without
//! such files (NFS, for instance) and other systems get a hidden file next to the final one, which only a killed program
//! leaves behind.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use tempfile::{NamedTempFile, TempPath};

/// Start of the names of unfinished files that need one.
const PREFIX: &str = ".hindsight-export";
/// Most symbolic links in a row, as on Linux.
const MAX_LINKS: usize = 40;

/// Where an output goes.
pub(crate) enum Target {
    /// A regular file, which may not exist yet, at the end of all symbolic links. It is replaced.
    File(PathBuf),
    /// A device, a FIFO or the like, open for writing. It is written to, and never replaced.
    Stream(File),
}

impl Target {
    /// The target that `path` leads to. Opening a FIFO waits for its reader.
    pub(crate) fn of(path: &Path) -> io::Result<Self> {
        match fs::metadata(path) {
            Ok(found) if found.is_dir() => Err(io::ErrorKind::IsADirectory.into()),
            Ok(found) if !found.is_file() => {
                let stream = fs::OpenOptions::new().write(true).open(path)?;
                Ok(Target::Stream(stream))
            }
            _ => Ok(Target::File(followed(path)?)),
        }
    }
}

/// The path at the end of all symbolic links from `path` on. Nothing need be there.
pub(crate) fn followed(path: &Path) -> io::Result<PathBuf> {
    let mut path = path.to_owned();
    for _ in 0..MAX_LINKS {
        match fs::read_link(&path) {
            Ok(to) => path = folder_of(&path).join(to),
            Err(_) => return Ok(path),
        }
    }
    Err(io::Error::other("its symbolic links lead in a circle"))
}

/// An unfinished file. Dropping it removes it.
pub(crate) struct Output {
    pub(crate) file: File,
    folder: PathBuf,
    /// Its hidden name, if it needs one.
    name: Option<TempPath>,
}

impl Output {
    /// An empty file, on the file system of `folder`. Only its owner may read it: a trace tells what a person did.
    pub(crate) fn create_in(folder: &Path) -> io::Result<Self> {
        let folder = folder.to_owned();
        match nameless(&folder) {
            Ok(file) => Ok(Output {
                file,
                folder,
                name: None,
            }),
            // If both fail in the same way, the first error has the system's own text.
            Err(first) => Self::create_hidden_in(folder).map_err(|second| {
                if first.kind() == second.kind() {
                    first
                } else {
                    second
                }
            }),
        }
    }

    fn create_hidden_in(folder: PathBuf) -> io::Result<Self> {
        let hidden = tempfile::Builder::new()
            .prefix(PREFIX)
            .tempfile_in(&folder)
            .map_err(without_name)?;
        let (file, name) = NamedTempFile::into_parts(hidden);
        Ok(Output {
            file,
            folder,
            name: Some(name),
        })
    }

    /// Syncs the file and names it `path`, which is replaced atomically.
    pub(crate) fn finish(self, path: &Path) -> io::Result<()> {
        self.file.sync_all()?;
        let name = match self.name {
            Some(name) => name,
            None => give_name(&self.file, &self.folder)?,
        };
        name.persist(path).map_err(|e| e.error)
    }
}

/// An error without the name of the unfinished file, which users do not know.
fn without_name(error: io::Error) -> io::Error {
    error.kind().into()
}

/// The folder that a path is in.
pub(crate) fn folder_of(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    }
}

#[cfg(target_os = "linux")]
fn nameless(folder: &Path) -> io::Result<File> {
    use rustix::fs::{open, Mode, OFlags};
    let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
    Ok(open(folder, flags, Mode::RUSR | Mode::WUSR)?.into())
}

#[cfg(not(target_os = "linux"))]
fn nameless(_: &Path) -> io::Result<File> {
    Err(io::ErrorKind::Unsupported.into())
}

/// Gives a hidden name to a file without one.
#[cfg(target_os = "linux")]
fn give_name(file: &File, folder: &Path) -> io::Result<TempPath> {
    use rustix::fs::{linkat, AtFlags, CWD};
    use std::os::fd::AsRawFd;
    // `linkat` with the descriptor itself needs a capability.
    let unnamed = format!("/proc/self/fd/{}", file.as_raw_fd());
    // A link replaces nothing, a rename does: two steps.
    let named = tempfile::Builder::new()
        .prefix(PREFIX)
        .make_in(folder, |name| {
            Ok(linkat(CWD, &unnamed, CWD, name, AtFlags::SYMLINK_FOLLOW)?)
        })
        .map_err(without_name)?;
    Ok(named.into_temp_path())
}

#[cfg(not(target_os = "linux"))]
fn give_name(_: &File, _: &Path) -> io::Result<TempPath> {
    Err(io::ErrorKind::Unsupported.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::io::Write;

    fn names(folder: &Path) -> Vec<String> {
        let entries = fs::read_dir(folder).unwrap();
        let mut names: Vec<String> = entries
            .map(|e| e.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }

    #[test]
    fn a_file_is_found_when_it_is_complete_and_replaces_the_old_one() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("t");
        fs::write(&path, "old").unwrap();
        let hidden = Output::create_hidden_in(folder.path().to_owned()).unwrap();
        for mut output in [Output::create_in(folder.path()).unwrap(), hidden] {
            output.file.write_all(b"new").unwrap();
            assert_eq!(fs::read(&path).unwrap(), b"old");
            output.finish(&path).unwrap();
            assert_eq!(fs::read(&path).unwrap(), b"new");
            fs::write(&path, "old").unwrap();
        }
        assert_eq!(names(folder.path()), ["t"]);
    }

    #[test]
    fn an_error_does_not_name_the_unfinished_file() {
        let folder = tempfile::tempdir().unwrap();
        let missing = folder.path().join("missing");
        for create in [Output::create_in, |folder: &Path| {
            Output::create_hidden_in(folder.to_owned())
        }] {
            let error = create(&missing).err().unwrap();
            assert_eq!(error.kind(), io::ErrorKind::NotFound);
            assert!(!error.to_string().contains(PREFIX), "{error}");
        }
    }

    #[test]
    fn nothing_is_left_of_an_unfinished_file() {
        let folder = tempfile::tempdir().unwrap();
        for create in [
            |folder: &Path| Output::create_in(folder),
            |folder: &Path| Output::create_hidden_in(folder.to_owned()),
        ] {
            let mut output = create(folder.path()).unwrap();
            output.file.write_all(b"half").unwrap();
            if output.name.is_none() {
                // Nor if the program is killed now.
                assert!(names(folder.path()).is_empty());
            }
            drop(output);
            assert!(names(folder.path()).is_empty());
        }
    }
}
