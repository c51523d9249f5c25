// SPDX-License-Identifier: Apache-2.0
//! The methods that have no trace points because they are trivial. The rule (`docs/art-hooks.md`, *Trivial methods*) is
//! written a second time here, on the text of ART's dexdump, so that an error in the device's code is no error here.

mod listing;
mod rule;

use std::collections::HashMap;
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::Stdio;

use anyhow::{ensure, Context as _, Result};
use hindsight_lab::Lab;

use listing::Listing;

/// Whether methods are trivial, by name.
#[derive(Clone, Default)]
pub(crate) struct Trivial {
    /// `class.name(signature)`, as in traces. Classes of different jars may have the same name: then a method may be
    /// trivial in one and not in the other, and the value is `None`.
    methods: HashMap<String, Option<bool>>,
}

impl Trivial {
    /// Reads the dex files of jars with the lab's dexdump.
    ///
    /// # Errors
    /// If dexdump fails.
    pub(crate) fn read(lab: &Lab, jars: &[PathBuf]) -> Result<Trivial> {
        let mut trivial = Trivial::default();
        for jar in jars {
            let before = trivial.methods.len();
            trivial.add(lab, jar)?;
            let is_empty = trivial.methods.len() == before;
            ensure!(!is_empty, "{}: no methods with code", jar.display());
        }
        Ok(trivial)
    }

    /// Reads another jar, too.
    ///
    /// # Errors
    /// If dexdump fails.
    pub(crate) fn add(&mut self, lab: &Lab, jar: &Path) -> Result<()> {
        // dexdump does not follow links.
        let jar = &fs::canonicalize(jar).with_context(|| format!("no {}", jar.display()))?;
        let mut command = lab.command("dexdump2");
        let mut child = command
            .arg("-d")
            .arg(jar)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .with_context(|| format!("cannot run {:?}", command.get_program()))?;
        let said = child.stdout.take().context("dexdump has no output")?;
        let mut reader = BufReader::with_capacity(1 << 18, said);
        let mut listing = Listing::default();
        let mut line = Vec::new();
        while reader
            .read_until(b'\n', &mut line)
            .context("cannot read dexdump's output")?
            > 0
        {
            listing.line(String::from_utf8_lossy(&line).trim_end_matches('\n'));
            line.clear();
        }
        let status = child.wait().context("cannot wait for dexdump")?;
        let methods = listing.finish();
        ensure!(status.success(), "dexdump of {}: {status}", jar.display());
        for method in methods {
            self.insert(method.name.clone(), rule::is_trivial(&method));
        }
        Ok(())
    }

    fn insert(&mut self, method: String, is_trivial: bool) {
        self.methods
            .entry(method)
            .and_modify(|known| {
                if *known != Some(is_trivial) {
                    *known = None;
                }
            })
            .or_insert(Some(is_trivial));
    }

    /// Whether a method, `class.name(signature)`, is trivial; `None` if it is only in some of the jars. A method without
    /// dex code is not.
    pub(crate) fn get(&self, method: &str) -> Option<bool> {
        self.methods.get(method).copied().unwrap_or(Some(false))
    }

    /// The methods and whether they are trivial, where all jars agree.
    pub(crate) fn all(&self) -> impl Iterator<Item = (&str, bool)> {
        let known = self.methods.iter();
        known.filter_map(|(name, is_trivial)| Some((name.as_str(), (*is_trivial)?)))
    }

    #[cfg(test)]
    pub(crate) fn for_tests(trivial: &[&str]) -> Trivial {
        let methods = trivial.iter().map(|&name| (name.to_owned(), Some(true)));
        Trivial {
            methods: methods.collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_method_of_two_jars_is_trivial_if_both_say_so() {
        let mut trivial = Trivial::default();
        for (name, value) in [
            ("a", true),
            ("b", true),
            ("b", true),
            ("c", true),
            ("c", false),
        ] {
            trivial.insert(name.to_owned(), value);
        }
        assert_eq!(trivial.get("a"), Some(true));
        assert_eq!(trivial.get("b"), Some(true));
        assert_eq!(trivial.get("c"), None);
        assert_eq!(trivial.get("native"), Some(false));
        assert_eq!(trivial.all().count(), 2);
    }
}
