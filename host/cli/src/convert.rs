// SPDX-License-Identifier: Apache-2.0
//! `hindsight convert`: part of a trace, or the trace of another tool, as a `.hindsight` file or in any other format.

use std::path::{Path, PathBuf};

use anyhow::{anyhow, ensure, Context, Result};
use clap::Args;
use hindsight_decoder::{Consent, Flags};
use hindsight_export::{Format, Written};

use crate::input::Input;
use crate::select::Select;
use crate::{damage, export, progress};

#[derive(Args)]
pub(crate) struct Arguments {
    /// The file to write: its extension is .hindsight, .ring, or the extension of a format of `hindsight export`
    #[arg(index = 2, value_hint = clap::ValueHint::FilePath)]
    output: PathBuf,
    #[command(flatten)]
    input: Input,
    #[command(flatten)]
    select: Select,
    /// Replace strings that need more consent than this: `structure` keeps numbers and the platform's names, `names` also
    /// names of the app's code, `content` all texts
    #[arg(long, value_name = "LEVEL", value_parser = consent, help_heading = "Output")]
    consent: Option<Consent>,
}

fn consent(name: &str) -> Result<Consent> {
    let names = Consent::ALL.map(Consent::name).join(", ");
    Consent::from_name(name).ok_or_else(|| anyhow!("no level; there are {names}"))
}

pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    let (from, to) = (&arguments.input.file, &arguments.output);
    let as_ring = to.extension().is_some_and(|e| e == "ring");
    let format = match as_ring {
        true => Format::Hindsight,
        false => export::format_of_name(to)?,
    };
    ensure!(
        !is_same_file(from, to),
        "{}: this is the input: choose another name for the output",
        to.display()
    );
    let trace = arguments.input.read()?;
    damage::note(&trace, from);
    let trace = arguments.select.apply(trace, from)?;
    let trace = trace.limited_to(arguments.consent.unwrap_or_default());
    let spinner = progress::spinner(format!("writing {}", to.display()));
    if as_ring {
        let thread = trace.main_thread().or(trace.threads.first());
        let tid = thread.map(|t| t.tid);
        // The layout is made from the bytes of a ring, so there must be one first.
        let folder = tempfile::tempdir().context("cannot make a temporary folder")?;
        let ring = folder.path().join("part.hindsight");
        hindsight_export::write_file(&trace, format, &ring)?;
        let bytes = hindsight_decoder::hubble::write(&ring, tid, &to.with_extension(""))?;
        drop(spinner);
        let thread = thread.context("there is no thread to write")?;
        export::say(
            to,
            &Written {
                // Calls made of stacks go with the stacks.
                calls: thread.calls.exact().len() as u64,
                bytes,
                ..Written::of_one(&trace, thread)
            },
        );
        if !trace.strings.strings.is_empty() || !trace.stacks.is_empty() {
            anstream::eprintln!(
                "note: this format has no place for strings and stacks, which are left out, and so are calls made of stacks"
            );
        }
        return Ok(());
    }
    let written = hindsight_export::write_file(&trace, format, to)?;
    drop(spinner);
    export::say(to, &written);
    let goes_on = Flags::SAMPLED.with(Flags::OPEN_START);
    let mut flags = trace.threads.iter().flat_map(|t| &t.calls.flags);
    if format == Format::Hindsight && flags.any(|f| f.contains(goes_on)) {
        anstream::eprintln!(
            "note: calls made of stacks go on over the part's beginning: of a method, the part may count one more than the original does"
        );
    }
    Ok(())
}

/// Whether both paths lead to the same existing file.
fn is_same_file(a: &Path, b: &Path) -> bool {
    match (a.canonicalize(), b.canonicalize()) {
        (Ok(a), Ok(b)) => a == b,
        _ => false,
    }
}
