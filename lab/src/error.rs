// SPDX-License-Identifier: Apache-2.0
//! The errors of the lab; each message names the remedy.

use std::path::PathBuf;

/// An error of the lab.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The operating system refused something.
    #[error("cannot {what} {path}: {source}")]
    Io {
        /// The operation, as a verb.
        what: &'static str,
        /// The file or folder.
        path: PathBuf,
        /// The operating system's error.
        source: std::io::Error,
    },
    /// The requested build does not exist.
    #[error(
        "there is no {variant} build of {release} for {isa} in {dir}; build it with `{command}`"
    )]
    NotBuilt {
        /// The variant that is missing.
        variant: &'static str,
        /// The release that is missing.
        release: &'static str,
        /// The instruction set that is missing.
        isa: &'static str,
        /// The folder that would contain it.
        dir: PathBuf,
        /// The command that builds it.
        command: String,
    },
    /// Debian packages are missing.
    #[error("the lab needs Debian packages that are not installed. Run:\n    {command}")]
    MissingPackages {
        /// The command that installs them.
        command: String,
    },
    /// Not enough free disk space.
    #[error("{path} has {free_mib} MiB free, but the lab needs about {needed_mib} MiB; free some space, or set HINDSIGHT_CACHE to a folder on another disk")]
    NoSpace {
        /// A folder on the full file system.
        path: PathBuf,
        /// Free space, in MiB.
        free_mib: u64,
        /// Needed space, in MiB.
        needed_mib: u64,
    },
    /// A downloaded file is not the pinned one.
    #[error("{path} has the wrong checksum (SHA-256)\n    expected {expected}\n    got      {got}\nThe file has been removed, so that the next run downloads it again. If this error stays, the archive has changed the file: don't use it, report it")]
    Checksum {
        /// The file.
        path: PathBuf,
        /// The checksum in `sources.toml`.
        expected: String,
        /// The file's checksum.
        got: String,
    },
    /// A program failed.
    #[error("{what} failed ({status}){}", tail(.output))]
    Program {
        /// The task of the program.
        what: String,
        /// Its exit status.
        status: String,
        /// The end of its output.
        output: String,
    },
    /// A program is missing.
    #[error("cannot run {program}: {source}; install the package `{package}`")]
    NoProgram {
        /// The program.
        program: String,
        /// The Debian package it comes from.
        package: &'static str,
        /// The operating system's error.
        source: std::io::Error,
    },
    /// A compile step failed.
    #[error("building {variant} failed:\n{output}\nThe whole log is in {log}")]
    Compile {
        /// The variant, or the shared Java part.
        variant: String,
        /// The failed steps with their commands and messages.
        output: String,
        /// The log.
        log: PathBuf,
    },
    /// An `Android.bp` can't be parsed or evaluated.
    #[error(transparent)]
    Blueprint(#[from] hindsight_blueprint::Error),
    /// A patch doesn't apply.
    #[error("patch {patch} does not apply to {repo}:\n{output}")]
    Patch {
        /// The patch.
        patch: PathBuf,
        /// The source folder's name.
        repo: String,
        /// The output of `patch`.
        output: String,
    },
    /// Any other error, as a sentence.
    #[error("{0}")]
    Other(String),
}

fn tail(output: &str) -> String {
    if output.trim().is_empty() {
        String::new()
    } else {
        format!(":\n{}", output.trim_end())
    }
}

/// Result with the lab's [`Error`].
pub type Result<T> = std::result::Result<T, Error>;

/// Turns the operating system's errors into the lab's.
pub(crate) trait IoContext<T> {
    /// Adds the operation, as a verb, and the file.
    fn context(self, what: &'static str, path: impl AsRef<std::path::Path>) -> Result<T>;
}

impl<T> IoContext<T> for std::io::Result<T> {
    fn context(self, what: &'static str, path: impl AsRef<std::path::Path>) -> Result<T> {
        self.map_err(|source| Error::Io {
            what,
            path: path.as_ref().to_owned(),
            source,
        })
    }
}
