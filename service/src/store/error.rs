// SPDX-License-Identifier: Apache-2.0
//! What can go wrong with the folder.

use std::io;
use std::path::PathBuf;

use crate::engine::Report;

use super::retention::NoRoom;

/// Why there is no store.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The folder cannot be used.
    #[error("the folder {0} cannot be used: {1}; make it, and give it to the service's user")]
    Folder(PathBuf, io::Error),
    /// Others may write to it.
    #[error("others may write to the folder {0}; make it the service's own, with mode 0700, or use another folder")]
    Shared(PathBuf),
    /// It has a user.
    #[error("another hindsightd uses the folder {0}; end it, or use another folder")]
    InUse(PathBuf),
}

/// Why there is no report.
#[derive(Debug, thiserror::Error)]
pub enum PublishError {
    /// There is no room.
    #[error("no room for the report: {0}")]
    NoRoom(#[from] NoRoom),
    /// The disk refuses.
    #[error("could not {0} {1}: {2}; make the folder writable, or free some space")]
    Disk(&'static str, PathBuf, io::Error),
    /// Its number was used before.
    #[error("there is a report with the number {0} already")]
    Exists(Report),
    /// There is nothing to write, or it cannot be read.
    #[error("{0}")]
    Contents(String),
}
