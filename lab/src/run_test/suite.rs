// SPDX-License-Identifier: Apache-2.0
//! The list of tests, and the tests to skip.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use anyhow::{bail, Context, Result};
use serde::Deserialize;

use super::files::io_context;
use super::options::{Mode, Options};
use crate::spec::Isa;

/// The tests of one ART source tree, with the known failures.
pub(super) struct Suite {
    tests: Vec<String>,
    aosp: Vec<AospEntry>,
    known: Vec<KnownFailure>,
    isa: Isa,
    /// Tests that load a JVMTI agent.
    pub(super) jvmti: BTreeSet<String>,
    /// Tests whose traces need not be balanced.
    pub(super) unbalanced: BTreeSet<String>,
}

/// An entry of AOSP's `art/test/knownfailures.json`.
#[derive(Debug, Deserialize)]
struct AospEntry {
    #[serde(default)]
    tests: OneOrMany,
    #[serde(default)]
    test_patterns: Vec<String>,
    #[serde(default)]
    description: OneOrMany,
    #[serde(default)]
    bug: Option<String>,
    variant: Option<String>,
    #[serde(default)]
    env_vars: BTreeMap<String, String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(untagged)]
enum OneOrMany {
    #[default]
    None,
    One(String),
    Many(Vec<String>),
}

impl OneOrMany {
    fn iter(&self) -> impl Iterator<Item = &str> {
        let s: &[String] = match self {
            OneOrMany::None => &[],
            OneOrMany::One(s) => std::slice::from_ref(s),
            OneOrMany::Many(v) => v,
        };
        s.iter().map(String::as_str)
    }
}

/// An entry of this repository's `known-failures.toml`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct KnownFailure {
    names: Vec<String>,
    /// The modes that it applies to; all if empty.
    #[serde(default)]
    modes: Vec<Mode>,
    /// The instruction sets that it applies to; all if empty.
    #[serde(default)]
    isas: Vec<String>,
    /// The cause that was found.
    cause: String,
}

/// Tests in which a thread rightly ends inside of a method.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Unbalanced {
    names: Vec<String>,
    /// The reason, for the reader of the file.
    #[serde(rename = "cause")]
    _cause: String,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct KnownFailures {
    #[serde(default)]
    failure: Vec<KnownFailure>,
    #[serde(default)]
    unbalanced: Vec<Unbalanced>,
}

/// Reads a list of tests, one a line; `#` starts a comment.
pub(super) fn read_names(file: &Path) -> Result<Vec<String>> {
    let text = std::fs::read_to_string(file).with_context(|| io_context("read", file))?;
    let names = text
        .lines()
        .map(|l| l.split('#').next().unwrap_or("").trim());
    Ok(names.filter(|l| !l.is_empty()).map(str::to_owned).collect())
}

fn is_test(name: &str) -> bool {
    let digits = name.bytes().take_while(u8::is_ascii_digit).count();
    (3..=4).contains(&digits) && name.as_bytes().get(digits) == Some(&b'-')
}

impl Suite {
    /// Reads the tests' folder and both lists of known failures.
    pub(super) fn load(folder: &Path, known_failures: &Path, isa: Isa) -> Result<Suite> {
        let (mut tests, mut jvmti) = (Vec::new(), BTreeSet::new());
        for e in std::fs::read_dir(folder)
            .with_context(|| format!("can't read the run-tests in {}", folder.display()))?
        {
            let e = e?;
            let name = e.file_name().to_string_lossy().into_owned();
            if is_test(&name)
                && e.path().join("info.txt").is_file()
                && e.path().join("expected.txt").is_file()
            {
                let run = std::fs::read_to_string(e.path().join("run")).unwrap_or_default();
                if run.contains("jvmti") || run.contains("agent") {
                    jvmti.insert(name.clone());
                }
                tests.push(name);
            }
        }
        tests.sort();
        let json = folder.join("knownfailures.json");
        let text = std::fs::read_to_string(&json).with_context(|| io_context("read", &json))?;
        let aosp = serde_json::from_str(&text)
            .with_context(|| format!("{} has another format than AOSP 10's", json.display()))?;
        let text = std::fs::read_to_string(known_failures)
            .with_context(|| io_context("read", known_failures))?;
        let known: KnownFailures =
            toml::from_str(&text).with_context(|| format!("in {}", known_failures.display()))?;
        let suite = Suite {
            tests,
            aosp,
            known: known.failure,
            isa,
            jvmti,
            unbalanced: known.unbalanced.into_iter().flat_map(|u| u.names).collect(),
        };
        for isa in suite.known.iter().flat_map(|k| &k.isas) {
            if let Err(error) = isa.parse::<Isa>() {
                bail!("{}: {error}", known_failures.display());
            }
        }
        let known = suite.known.iter().flat_map(|k| &k.names);
        for n in known.chain(&suite.unbalanced) {
            if suite.tests.binary_search(n).is_err() {
                bail!(
                    "{} names {n}, and {} has no such test",
                    known_failures.display(),
                    folder.display()
                );
            }
        }
        Ok(suite)
    }

    /// The tests that `options` select, in order, each with the reason to skip it, if any.
    pub(super) fn select(&self, options: &Options) -> Result<Vec<(String, Option<String>)>> {
        let variants = variants(options.mode, self.isa);
        let (names, explicit) = if options.all {
            (self.tests.clone(), false)
        } else if let Some(f) = &options.set {
            let names = read_names(f)?
                .iter()
                .map(|l| self.resolve(l))
                .collect::<Result<Vec<_>>>();
            (names.with_context(|| format!("in {}", f.display()))?, false)
        } else {
            (
                options
                    .names
                    .iter()
                    .map(|n| self.resolve(n))
                    .collect::<Result<Vec<_>>>()?,
                true,
            )
        };
        Ok(names
            .into_iter()
            .filter(|n| {
                options
                    .filter
                    .as_ref()
                    .is_none_or(|f| n.contains(f.as_str()))
            })
            .map(|n| {
                // A test that is named is always run.
                let skip = if explicit || options.include_known {
                    None
                } else {
                    self.skip_reason(&n, options.mode, &variants)
                };
                (n, skip)
            })
            .collect())
    }

    /// A test's full name from its name, or from its number.
    fn resolve(&self, name: &str) -> Result<String> {
        let name = name
            .trim_end_matches('/')
            .rsplit('/')
            .next()
            .unwrap_or(name);
        if self.tests.iter().any(|t| t == name) {
            return Ok(name.to_owned());
        }
        let prefix = format!("{name}-");
        let hits: Vec<_> = self
            .tests
            .iter()
            .filter(|t| t.starts_with(&prefix))
            .collect();
        match hits[..] {
            [t] => Ok(t.clone()),
            [] => bail!("there is no run-test {name}"),
            _ => bail!("{name} may be any of {hits:?}"),
        }
    }

    fn skip_reason(&self, test: &str, mode: Mode, variants: &BTreeSet<&str>) -> Option<String> {
        if let Some(k) = self.known.iter().find(|k| {
            (k.modes.is_empty() || k.modes.contains(&mode))
                && (k.isas.is_empty() || k.isas.iter().any(|isa| isa == self.isa.name()))
                && k.names.iter().any(|n| n == test)
        }) {
            return Some(k.cause.clone());
        }
        if !self.isa.is_native() && self.jvmti.contains(test) {
            return Some("needs JVMTI, which labs under qemu don't have".to_owned());
        }
        let a = self.aosp.iter().find(|a| {
            // Entries with variables are for sanitizers, other collectors and bisection, which are not used here.
            a.env_vars.is_empty()
                && a.concerns(test)
                && a.variant
                    .as_deref()
                    .is_none_or(|v| variant_matches(v, variants))
        })?;
        let text: Vec<_> = a.description.iter().chain(a.bug.as_deref()).collect();
        Some(format!(
            "AOSP: {}",
            if text.is_empty() {
                "not for this variant".to_owned()
            } else {
                text.join(" ")
            }
        ))
    }
}

impl AospEntry {
    fn concerns(&self, test: &str) -> bool {
        self.tests.iter().any(|t| t == test)
            || self
                .test_patterns
                .iter()
                .any(|p| regex::Regex::new(&format!("^(?:{p})")).is_ok_and(|r| r.is_match(test)))
    }
}

/// The variants in AOSP's test runner that correspond to a run of the lab.
fn variants(mode: Mode, isa: Isa) -> BTreeSet<&'static str> {
    let common = [
        "host",
        "ndebug",
        "ntrace",
        "cms",
        "checkjni",
        "image",
        "picimage",
        "ndebuggable",
        "no-jvmti",
        "cdex-fast",
        "no-relocate",
        if isa.is_64_bit() { "64" } else { "32" },
    ];
    let own: [&str; 2] = match mode {
        Mode::Aot => ["optimizing", "prebuild"],
        Mode::Jit => ["jit", "no-prebuild"],
        Mode::Interpreter => ["interpreter", "prebuild"],
    };
    common.into_iter().chain(own).collect()
}

/// AOSP's expressions: `a & b | c`.
fn variant_matches(expression: &str, variants: &BTreeSet<&str>) -> bool {
    expression
        .split('|')
        .any(|and| and.split('&').all(|v| variants.contains(v.trim())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn test_names() {
        assert!(is_test("001-HelloWorld") && is_test("1954-pop-frame-jit"));
        assert!(
            !is_test("Main")
                && !is_test("12345-x")
                && !is_test("01-x")
                && !is_test("001")
                && !is_test("etc")
        );
    }

    #[test]
    fn variant_expressions() {
        let jit = variants(Mode::Jit, Isa::X86_64);
        assert!(variant_matches("jit", &jit));
        assert!(variant_matches("interpreter | jit & ndebuggable", &jit));
        assert!(!variant_matches("jit & debuggable | optimizing", &jit));
        assert!(!variant_matches("no-image", &jit));
        assert!(
            variant_matches("no-prebuild", &jit)
                && !variant_matches("no-prebuild", &variants(Mode::Aot, Isa::X86_64))
        );
    }

    fn options(names: &[&str]) -> Options {
        #[derive(clap::Parser)]
        struct P {
            #[command(flatten)]
            o: Options,
        }
        let mut a = vec!["x"];
        a.extend(names);
        <P as clap::Parser>::parse_from(a).o
    }

    fn suite() -> (tempfile::TempDir, Suite) {
        let d = tempfile::tempdir().unwrap();
        for t in [
            "001-HelloWorld",
            "002-sleep",
            "529-checker-x",
            "530-a",
            "530-b",
            "etc",
            "Main",
        ] {
            std::fs::create_dir(d.path().join(t)).unwrap();
            std::fs::write(d.path().join(t).join("info.txt"), "").unwrap();
            std::fs::write(d.path().join(t).join("expected.txt"), "").unwrap();
        }
        std::fs::write(
            d.path().join("knownfailures.json"),
            r#"[{"tests": "002-sleep", "description": ["flaky", "here"], "bug": "b/1"},
                {"test_patterns": ["[0-9]*-checker-.*"], "variant": "jit"},
                {"tests": ["001-HelloWorld"], "env_vars": {"SANITIZE_HOST": "address"}}]"#,
        )
        .unwrap();
        let k = d.path().join("known.toml");
        std::fs::write(
            &k,
            "[[failure]]\nnames = [\"530-a\"]\nmodes = [\"aot\"]\ncause = \"dx\"\n\
             [[unbalanced]]\nnames = [\"530-b\"]\ncause = \"detaches\"\n",
        )
        .unwrap();
        let s = Suite::load(d.path(), &k, Isa::X86_64).unwrap();
        assert!(s.unbalanced.iter().eq(["530-b"]));
        (d, s)
    }

    #[test]
    fn selection() {
        let (_d, s) = suite();
        let all = s.select(&options(&["--all"])).unwrap();
        let skipped = |v: &[(String, Option<String>)]| {
            v.iter()
                .filter(|x| x.1.is_some())
                .map(|x| x.0.clone())
                .collect::<Vec<_>>()
        };
        assert_eq!(all.len(), 5);
        assert_eq!(skipped(&all), ["002-sleep", "530-a"]);
        assert_eq!(all[1].1.as_deref(), Some("AOSP: flaky here b/1"));
        let jit = s.select(&options(&["--all", "--mode", "jit"])).unwrap();
        assert_eq!(skipped(&jit), ["002-sleep", "529-checker-x"]);
        assert_eq!(
            skipped(&s.select(&options(&["--all", "--include-known"])).unwrap()),
            Vec::<String>::new()
        );
        assert_eq!(
            s.select(&options(&["002", "530-a"])).unwrap(),
            [("002-sleep".to_string(), None), ("530-a".to_string(), None)]
        );
        assert!(s.select(&options(&["530"])).is_err() && s.select(&options(&["999"])).is_err());
        assert_eq!(
            s.select(&options(&["--all", "--filter", "530"]))
                .unwrap()
                .len(),
            2
        );
    }

    #[test]
    fn a_failure_may_be_one_of_some_instruction_sets() {
        let (d, _) = suite();
        let k = d.path().join("known.toml");
        let text = "[[failure]]\nnames = [\"530-a\"]\nisas = [\"arm64\", \"arm\"]\ncause = \"x\"\n";
        std::fs::write(&k, text).unwrap();
        std::fs::write(d.path().join("530-b/run"), "./default-run \"$@\" --jvmti\n").unwrap();
        let skipped = |isa: Isa| {
            let suite = Suite::load(d.path(), &k, isa).unwrap();
            let all = suite.select(&options(&["--all"])).unwrap();
            all.iter()
                .filter(|(name, why)| name.starts_with("530") && why.is_some())
                .count()
        };
        // Including the test that loads an agent.
        assert_eq!(skipped(Isa::Arm64), 2);
        assert_eq!(skipped(Isa::Arm), 2);
        assert_eq!(skipped(Isa::X86_64), 0);
    }

    #[test]
    fn known_failures_must_exist() {
        let (d, _) = suite();
        let k = d.path().join("known.toml");
        std::fs::write(&k, "[[failure]]\nnames = [\"531-gone\"]\ncause = \"x\"\n").unwrap();
        let e = Suite::load(d.path(), &k, Isa::X86_64).err().unwrap();
        assert!(format!("{e:#}").contains("531-gone"));
        let text = "[[failure]]\nnames = [\"530-a\"]\nisas = [\"mips\"]\ncause = \"x\"\n";
        std::fs::write(&k, text).unwrap();
        let e = Suite::load(d.path(), &k, Isa::X86_64).err().unwrap();
        assert!(
            format!("{e:#}").contains("no instruction set `mips`"),
            "{e:#}"
        );
    }
}
