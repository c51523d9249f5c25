// SPDX-License-Identifier: Apache-2.0
//! The trace of the whole device among the files of a question.

use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use hindsight_causality::{Session, SystemTrace};
use serde::Serialize;

use crate::batch::Failure;
use crate::page::Page;
use crate::progress;

/// The trace of the whole device, in reports.
#[derive(Serialize)]
pub(crate) struct SystemReport {
    file: String,
    /// CLOCK_BOOTTIME of its first event, ns.
    start_ns: u64,
    /// CLOCK_BOOTTIME of its last event, ns.
    end_ns: u64,
    /// What could not be read, or was not recorded, one sentence each.
    missing: Vec<String>,
}

/// Reads the trace of the whole device.
pub(crate) fn read(file: &Path) -> Result<SystemTrace> {
    let _spinner = progress::spinner(format!("reading {}", file.display()));
    SystemTrace::open(file).with_context(|| format!("cannot use {}", file.display()))
}

/// Joins the trace of the whole device with the others. One that does not fit is reported, and the answer is without it.
pub(crate) fn join(
    session: Session,
    system: Option<(PathBuf, SystemTrace)>,
    failed: &mut Vec<Failure>,
) -> Session {
    let Some((file, trace)) = system else {
        return session;
    };
    let refused = session.refuses_system(&trace);
    match refused {
        Some(why) => {
            let error = anyhow::Error::from(why).context(format!("cannot use {}", file.display()));
            failed.push(Failure::report(&file, &error));
            session
        }
        None => session.with_system(file, trace),
    }
}

impl SystemReport {
    /// Of the system trace of a session.
    pub(crate) fn of(session: &Session) -> Option<Self> {
        let system = session.system()?;
        Some(SystemReport {
            file: system.file().display().to_string(),
            start_ns: system.trace().start_ns(),
            end_ns: system.trace().end_ns(),
            missing: system.trace().missing().words(),
        })
    }

    /// Says what is missing.
    pub(crate) fn write_missing(&self, page: &mut Page) -> io::Result<()> {
        if self.missing.is_empty() {
            return Ok(());
        }
        writeln!(page)?;
        page.strong(&format!("Not in the system trace {}", self.file))?;
        for missing in &self.missing {
            page.indented(missing, 2)?;
        }
        Ok(())
    }
}
