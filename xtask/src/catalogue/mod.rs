// SPDX-License-Identifier: Apache-2.0
//! `cargo xtask catalogue`: the files that are generated from the catalogue of events, `hindsight_trace_format::catalogue`.

mod cpp;
mod documents;
mod tables;

use std::fs;
use std::path::Path;

use anyhow::{ensure, Context, Result};

/// The header for ART's hooks.
const HEADER: &str = "art-hooks/include/hindsight/runtime/event_numbers.h";
/// A document, and the function that makes its generated table.
type Document = (&'static str, fn() -> String);

/// The documents that have a generated table.
const DOCUMENTS: [Document; 2] = [
    ("docs/trace-format.md", documents::numbers),
    ("docs/events.md", documents::events),
];

#[derive(clap::Args)]
pub(crate) struct Options {
    /// Only compare the files with the catalogue; an error if one differs
    #[arg(long)]
    check: bool,
}

pub(crate) fn run(options: &Options, checkout: &Path) -> Result<()> {
    let files = generate(checkout)?;
    let different: Vec<_> = files
        .iter()
        .filter(|(path, text)| fs::read_to_string(checkout.join(path)).ok().as_ref() != Some(text))
        .collect();
    if options.check {
        let names: Vec<_> = different.iter().map(|(path, _)| *path).collect();
        ensure!(
            names.is_empty(),
            "not generated from the present catalogue of events: {}; run 'cargo xtask catalogue'",
            names.join(", ")
        );
        return Ok(());
    }
    for (path, text) in different {
        let file = checkout.join(path);
        if let Some(folder) = file.parent() {
            fs::create_dir_all(folder).with_context(|| folder.display().to_string())?;
        }
        fs::write(&file, text).with_context(|| file.display().to_string())?;
        println!("{path}");
    }
    Ok(())
}

/// The generated files: each one's path in the checkout, and its text.
fn generate(checkout: &Path) -> Result<Vec<(&'static str, String)>> {
    let mut files = vec![(HEADER, cpp::header())];
    for (path, table) in DOCUMENTS {
        let file = checkout.join(path);
        let text = fs::read_to_string(&file).with_context(|| file.display().to_string())?;
        let text = documents::replace(&text, &table()).with_context(|| path.to_string())?;
        files.push((path, text));
    }
    Ok(files)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_generated_files_are_those_of_the_catalogue() {
        let checkout = hindsight_lab::checkout_dir().unwrap();
        run(&Options { check: true }, &checkout).unwrap();
        // A file that differs is an error that names it.
        let other = tempfile::tempdir().unwrap();
        for (path, text) in generate(&checkout).unwrap() {
            let file = other.path().join(path);
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(file, text).unwrap();
        }
        run(&Options { check: true }, other.path()).unwrap();
        fs::write(other.path().join(HEADER), "changed").unwrap();
        let error = run(&Options { check: true }, other.path()).unwrap_err();
        assert!(error.to_string().contains(HEADER), "{error}");
    }
}
