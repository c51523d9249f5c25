// SPDX-License-Identifier: Apache-2.0
//! Reads the output of `dex2oat --dump-cfg` (the format of C1visualizer), one compilation after the other: a dump
//! has half a megabyte a method, so it is never in memory as a whole.

use std::io::BufRead;

use anyhow::{bail, Context as _, Result};

/// The dumped compilation of a method.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Compilation {
    /// The method, with its signature, as ART prints it.
    pub(super) method: String,
    /// The graph before and after each pass, in the order of the passes.
    pub(super) passes: Vec<Pass>,
}

/// A graph at one moment.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Pass {
    /// `NAME (before)` or `NAME (after)`.
    pub(super) name: String,
    /// The text of its blocks.
    pub(super) text: String,
}

/// Calls `each` for every compilation in the dump. A dump that ends in the middle of one is an error.
pub(super) fn read(
    mut input: impl BufRead,
    mut each: impl FnMut(Compilation) -> Result<()>,
) -> Result<()> {
    let mut current: Option<Compilation> = None;
    let mut in_graph = false;
    let mut bytes = Vec::new();
    loop {
        bytes.clear();
        if input
            .read_until(b'\n', &mut bytes)
            .context("reading the dump")?
            == 0
        {
            break;
        }
        let line = String::from_utf8_lossy(&bytes);
        match (line.trim_end(), &mut current) {
            ("begin_compilation", Some(compilation)) if in_graph => {
                bail!("a graph of {} has no end", compilation.method)
            }
            // Every method begins with an empty compilation, which only has its name.
            ("begin_compilation", slot) => {
                if let Some(done) = slot.take() {
                    each(done)?;
                }
                *slot = Some(Compilation::default());
            }
            ("end_compilation", Some(_)) => {}
            ("begin_cfg", Some(compilation)) => {
                in_graph = true;
                compilation.passes.push(Pass::default());
            }
            ("end_cfg", Some(_)) => in_graph = false,
            (text, Some(compilation)) => match compilation.passes.last_mut() {
                Some(pass) if in_graph && pass.name.is_empty() => pass.name = quoted(text)?.into(),
                Some(pass) if in_graph => pass.text.push_str(&line),
                Some(_) => bail!("'{text}' between two graphs of {}", compilation.method),
                None if text.trim_start().starts_with("name ") => {
                    compilation.method = quoted(text)?.into();
                }
                // The second name, and the date.
                None => {}
            },
            // A line about the instruction set's features.
            (_, None) => {}
        }
    }
    if in_graph {
        bail!(
            "the dump ends in the middle of {}",
            current.unwrap_or_default().method
        );
    }
    current.map_or(Ok(()), each)
}

/// The text between the first quotation mark and the last.
fn quoted(line: &str) -> Result<&str> {
    line.split_once('"')
        .and_then(|(_, rest)| rest.rsplit_once('"'))
        .map(|(text, _)| text)
        .with_context(|| format!("a name was expected instead of '{line}'"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const DUMP: &str = "begin_compilation\n  name \"isa_features:none\"\n  method \"isa_features:none\"\n  date 1\n\
                        end_compilation\nbegin_compilation\n  name \"int A.f(\"\")\"\n  method \"x\"\n  date 1\n\
                        end_compilation\nbegin_cfg\n  name \"builder (after)\"\n  one\nend_cfg\nbegin_cfg\n  \
                        name \"inliner (before)\"\n  two\n  three\nend_cfg\n";

    fn all(dump: &str) -> Result<Vec<Compilation>> {
        let mut found = Vec::new();
        read(dump.as_bytes(), |compilation| {
            found.push(compilation);
            Ok(())
        })?;
        Ok(found)
    }

    #[test]
    fn methods_and_their_graphs_are_told_apart() {
        let found = all(DUMP).unwrap();
        assert_eq!(found.len(), 2);
        assert_eq!(found[1].method, "int A.f(\"\")");
        let pass = |name: &str, text: &str| Pass {
            name: name.into(),
            text: text.into(),
        };
        assert_eq!(
            found[1].passes,
            [
                pass("builder (after)", "  one\n"),
                pass("inliner (before)", "  two\n  three\n")
            ]
        );
        assert!(all("").unwrap().is_empty());
    }

    #[test]
    fn a_dump_that_is_cut_off_is_an_error() {
        let cut = DUMP.strip_suffix("end_cfg\n").unwrap();
        let error = all(cut).unwrap_err().to_string();
        assert!(error.contains("in the middle of int A.f"), "{error}");
        let error = all(&format!("{cut}{DUMP}")).unwrap_err().to_string();
        assert!(error.contains("int A.f(\"\") has no end"), "{error}");
        let error = all(&DUMP.replace("name \"builder", "nothing ")).unwrap_err();
        assert!(error.to_string().contains("a name was expected"), "{error}");
    }
}
