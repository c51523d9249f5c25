// SPDX-License-Identifier: Apache-2.0
//! The trace that a question is about: its file, and how it is read.

use std::cell::OnceCell;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use anyhow::{ensure, Result};
use clap::Args;
use hindsight_decoder::{Mapping, OpenOptions, Trace};

use crate::progress;

/// The trace that is asked about.
#[derive(Args)]
pub(crate) struct Input {
    /// A .hindsight file, a .memory file that a process left (shared-memory), a .trace file of ART's method tracing, Nanoscope's
    /// text, or a .ring file
    #[arg(index = 1, value_hint = clap::ValueHint::FilePath)]
    pub(crate) file: PathBuf,
    #[command(flatten)]
    reading: Reading,
}

impl Input {
    pub(crate) fn read(&self) -> Result<Trace> {
        self.reading.read(&self.file)
    }

    /// Reads another file in the same way.
    pub(crate) fn read_other(&self, file: &Path) -> Result<Trace> {
        self.reading.read(file)
    }
}

/// Refuses folders, pipes and devices.
pub(crate) fn ensure_file(file: &Path) -> Result<()> {
    let at = file.display();
    ensure!(
        !file.is_dir(),
        "{at} is a folder, and this command reads files"
    );
    let is_other = match std::fs::metadata(file) {
        Ok(facts) => !facts.is_file(),
        Err(_) => file == Path::new("-"),
    };
    ensure!(
        !is_other,
        "{at}: pipes and devices are not read: save the data to a file, and name the file"
    );
    Ok(())
}

/// How traces are read.
#[derive(Args, Default)]
#[command(next_help_heading = "Reading")]
pub(crate) struct Reading {
    /// The mapping.txt that R8 or ProGuard wrote for this build: translates shortened names back
    #[arg(long, value_name = "FILE", value_hint = clap::ValueHint::FilePath)]
    mapping: Option<PathBuf>,
    /// Refuse a damaged file; by default its sound parts are read, and the others are listed
    #[arg(long)]
    strict: bool,
    /// Read once, for all traces.
    #[arg(skip)]
    parsed: OnceCell<Mapping>,
}

impl Reading {
    /// With this mapping.
    pub(crate) fn with_mapping(file: &Path) -> Self {
        Reading {
            mapping: Some(file.to_owned()),
            ..Reading::default()
        }
    }

    /// Decodes a file; shows a spinner if that takes long.
    pub(crate) fn read(&self, file: &Path) -> Result<Trace> {
        ensure!(
            !file.is_dir(),
            "{} is a folder, and this command reads files: name a file in it (hindsight diff takes folders)",
            file.display()
        );
        ensure_file(file)?;
        let _spinner = progress::spinner(format!("decoding {}", file.display()));
        let options = OpenOptions {
            strict: self.strict,
        };
        let mut trace = options.open(file)?;
        self.translate(&mut trace)?;
        Ok(trace)
    }

    /// Translates shortened names back, if there is a mapping.
    fn translate(&self, trace: &mut Trace) -> Result<()> {
        let Some(file) = &self.mapping else {
            return Ok(());
        };
        let mapping = match self.parsed.get() {
            Some(mapping) => mapping,
            None => {
                ensure_file(file)?;
                let mapping = Mapping::read(file)?;
                self.parsed.get_or_init(|| mapping)
            }
        };
        let found = trace.deobfuscate(mapping);
        if found.methods == 0 && !trace.methods.is_empty() {
            // An error of standard error itself cannot be reported.
            let _ = writeln!(
                io::stderr(),
                "note: {} names none of the trace's methods: is it of the same build?",
                file.display()
            );
        }
        Ok(())
    }
}
