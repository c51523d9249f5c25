// SPDX-License-Identifier: Apache-2.0
//! `cargo xtask verify oat`: whether compiled methods have their trace points. The trace points are
//! read from the machine code by an independent disassembler; only the methods' addresses come from ART.

mod code;
pub(super) mod instructions;
mod oatdump;
mod scan;
mod sites;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{ensure, Context as _, Result};
use hindsight_lab::{Framework, Isa, Lab, Release, Variant};

use crate::pretty::pretty;
use crate::trivial::Trivial;
use code::Decoder;
use hindsight_verify::boot_images::{self, Form};
use oatdump::OatFile;
use scan::{Expected, Findings, Scanner};
use sites::{Kind, Words};

/// The number of problems that are printed for each image.
const PRINTED_PROBLEMS: usize = 20;

#[derive(clap::Args)]
pub(crate) struct Options {
    /// The instruction set of the compiled code
    #[arg(long, default_value = "all", value_parser = ["x86_64", "arm64", "arm", "all"])]
    isa: String,
}

/// The result for an image.
#[derive(Default)]
struct Tally {
    methods: usize,
    native: usize,
    /// Native methods for which the compiler has code of its own, with trace points, in place of a JNI stub.
    intrinsic: usize,
    /// Methods without trace points because they are trivial.
    trivial: usize,
    sites: BTreeMap<Kind, usize>,
    returns: usize,
    dex_returns: usize,
    /// Methods with fewer native returns than dex returns.
    fewer: usize,
    problem_count: usize,
    problems: Vec<String>,
}

impl Tally {
    fn problem(&mut self, what: String) {
        self.problem_count += 1;
        if self.problems.len() < PRINTED_PROBLEMS {
            self.problems.push(what);
        }
    }

    fn count(&self, is_counted: impl Fn(Kind) -> bool) -> usize {
        self.sites
            .iter()
            .filter(|(&kind, _)| is_counted(kind))
            .map(|(_, n)| n)
            .sum()
    }
}

/// Checks all images. Returns whether there is no problem.
pub(super) fn run(options: &Options, checkout: &Path) -> Result<bool> {
    let isas: Vec<Isa> = Isa::ALL
        .into_iter()
        .filter(|isa| options.isa == "all" || options.isa == isa.name())
        .collect();
    let lab = Lab::open(Release::Android10, Isa::X86_64, Variant::Hindsight)?;
    let framework = Framework::build(&lab, &|step| eprintln!("verify: building {step}"))?;
    let jars: Vec<PathBuf> = framework
        .boot_image()
        .jars
        .iter()
        .map(|jar| jar.path.clone())
        .collect();
    let special = Special {
        intrinsics: intrinsics(&lab)?,
        trivial: Trivial::read(&lab, &jars)?
            .all()
            .filter(|(_, is_trivial)| *is_trivial)
            .filter_map(|(name, _)| pretty(name))
            .collect(),
    };
    let (mut methods, mut entries, mut exits, mut problems) = (0, 0, 0, 0);
    println!(
        "{:>7} {:>22} {:>8} {:>8} {:>8} {:>8} {:>8} {:>8} {:>8} {:>9} {:>7} {:>9}",
        "isa",
        "form",
        "methods",
        "native",
        "intrins.",
        "trivial",
        "entries",
        "exits",
        "returns",
        "dex ret.",
        "fewer",
        "problems"
    );
    for isa in isas {
        let mut known_words = None;
        for form in Form::ALL {
            let folder = checkout
                .join("target/verify/oat")
                .join(format!("{}-{form}", isa.name()));
            let image = boot_images::compile(&lab, &framework, isa, form, &folder)?;
            let tally = verify(
                &lab,
                isa,
                form,
                &image.oat_files,
                &special,
                &mut known_words,
            )
            .with_context(|| format!("boot image for {} ({form})", isa.name()))?;
            print(isa, form, &tally);
            methods += tally.methods;
            entries += tally.count(Kind::is_entry);
            exits += tally.count(|kind| !kind.is_entry());
            problems += tally.problem_count;
        }
    }
    println!("oat: {methods} methods, {entries} entries, {exits} exits, {problems} problems");
    Ok(problems == 0)
}

fn print(isa: Isa, form: Form, tally: &Tally) {
    println!(
        "{:>7} {:>22} {:>8} {:>8} {:>8} {:>8} {:>8} {:>8} {:>8} {:>9} {:>7} {:>9}",
        isa.name(),
        form.name(),
        tally.methods,
        tally.native,
        tally.intrinsic,
        tally.trivial,
        tally.count(Kind::is_entry),
        tally.count(|kind| !kind.is_entry()),
        tally.returns,
        tally.dex_returns,
        tally.fewer,
        tally.problem_count
    );
    let kinds: Vec<String> = tally
        .sites
        .iter()
        .map(|(kind, n)| format!("{n} {}", kind.name()))
        .collect();
    if !kinds.is_empty() {
        println!("{:>16}{}", "", kinds.join(", "));
    }
    for problem in &tally.problems {
        println!("  problem: {problem}");
    }
    if tally.problem_count > tally.problems.len() {
        println!("  and {} more", tally.problem_count - tally.problems.len());
    }
}

fn verify(
    lab: &Lab,
    isa: Isa,
    form: Form,
    oat_files: &[PathBuf],
    special: &Special,
    known_words: &mut Option<Words>,
) -> Result<Tally> {
    let mut tally = Tally::default();
    let mut scanner: Option<Scanner> = None;
    for path in oat_files {
        // It refuses files that were compiled with other settings than its own.
        let mut command = lab.command("oatdump");
        let [_, (trivial, value)] = form.environment();
        command.env(trivial, value);
        let oat = oatdump::read(command, path)?;
        // Only the first file of an image has keys.
        if let Some(value) = &oat.trace_points {
            let words = words(value, form, isa, *known_words)?;
            *known_words = Some(words);
            scanner = Some(Scanner::new(Decoder::new(isa)?, words));
        }
        let scanner = scanner.as_ref().with_context(|| {
            format!("{}: the header does not name trace points", path.display())
        })?;
        scan_file(scanner, &oat, form, special, &mut tally);
    }
    Ok(tally)
}

/// The offsets of the thread's words, if the header has the wanted form. Code without trace points must not touch
/// the words, whose offsets then are `others`.
fn words(value: &str, form: Form, isa: Isa, others: Option<Words>) -> Result<Words> {
    if form == Form::None {
        ensure!(value == "none", "the header says {value:?}");
        return others.context("no other image gives the offsets of the thread's words");
    }
    let (found, words) = Words::parse(value, isa)
        .with_context(|| format!("the header says {value:?}, which is no form of trace points"))?;
    let [(_, wanted), _] = form.environment();
    let leaves_out = value.contains(",trivial-left-out@");
    ensure!(
        found == wanted && leaves_out == (form == Form::SharedWithoutTrivial),
        "the header says {value:?}"
    );
    Ok(words)
}

/// Methods with special rules.
struct Special {
    intrinsics: HashSet<String>,
    /// Trivial methods: `int a.B.c(int)`.
    trivial: HashSet<String>,
}

/// The intrinsics, from ART's list of them: `java.lang.Double.isNaN`. The compiler puts its own code for them
/// in place of each call by name. Their compiled bodies, for other callers, have no trace points.
fn intrinsics(lab: &Lab) -> Result<HashSet<String>> {
    let path = lab.source_dir("art").join("runtime/intrinsics_list.h");
    let list =
        fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
    let names = intrinsic_names(&list);
    ensure!(!names.is_empty(), "{} names no method", path.display());
    Ok(names)
}

/// The names in lines like `V(DoubleIsNaN, kStatic, …, "Ljava/lang/Double;", "isNaN", "(D)Z") \\`
fn intrinsic_names(list: &str) -> HashSet<String> {
    list.lines()
        .filter(|line| line.trim_start().starts_with("V("))
        .filter_map(|line| {
            let mut quoted = line.split('"').skip(1).step_by(2);
            let class = quoted.next()?.strip_prefix('L')?.strip_suffix(';')?;
            Some(format!("{}.{}", class.replace('/', "."), quoted.next()?))
        })
        .collect()
}

/// `a.B.c` of `int a.B.c(int)`
fn qualified_name(method: &str) -> &str {
    let name = method.split('(').next().unwrap_or(method);
    name.rsplit(' ').next().unwrap_or(name)
}

fn scan_file(scanner: &Scanner, oat: &OatFile, form: Form, special: &Special, tally: &mut Tally) {
    let mut seen: HashMap<(usize, Expected), Findings> = HashMap::new();
    let mut code: Vec<std::ops::Range<usize>> = Vec::new();
    for method in &oat.methods {
        let bytes = &oat.text[method.code.clone()];
        let mut expected = Expected::None;
        if form != Form::None {
            if form == Form::SharedWithoutTrivial && special.trivial.contains(&method.name) {
                tally.trivial += 1;
            } else if method.dex_returns.is_some() {
                expected = Expected::All;
            } else if special.intrinsics.contains(qualified_name(&method.name)) {
                // The compiler's own code in place of a JNI stub.
                let findings = scanner.method(bytes, Expected::None);
                if !findings.sites.is_empty() {
                    tally.intrinsic += 1;
                    expected = Expected::All;
                }
            }
        }
        let key = (method.code.start, expected);
        let is_new = !seen.contains_key(&key);
        let findings = seen
            .entry(key)
            .or_insert_with(|| scanner.method(bytes, expected));
        tally.methods += 1;
        for (&kind, count) in &findings.sites {
            *tally.sites.entry(kind).or_default() += count;
        }
        match method.dex_returns {
            None => tally.native += 1,
            Some(dex_returns) => {
                tally.returns += findings.returns;
                tally.dex_returns += dex_returns;
                tally.fewer += usize::from(findings.returns < dex_returns);
                if findings.returns > dex_returns {
                    tally.problem(format!(
                        "{}: {} returns, but {dex_returns} in the dex code",
                        method.name, findings.returns
                    ));
                }
            }
        }
        if is_new {
            code.push(method.code.clone());
            for problem in &findings.problems {
                tally.problem(format!("{}: {problem}", method.name));
            }
        }
    }

    code.sort_by_key(|range| range.start);
    let mut end = 0;
    for range in code.iter().chain([&(oat.text.len()..oat.text.len())]) {
        if range.start > end {
            for problem in scanner.gap(&oat.text[end..range.start]) {
                tally.problem(format!(".text+{end:#x}: {problem}"));
            }
        }
        end = end.max(range.end);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_intrinsics_are_those_of_methods() {
        let list = r#"
// V(NotThis, "Lno/No;", "no", "()V")
#define INTRINSICS_LIST(V) \
  V(DoubleIsNaN, kStatic, kNeedsEnvironmentOrCache, "Ljava/lang/Double;", "isNaN", "(D)Z") \
"#;
        let names = intrinsic_names(list);
        assert_eq!(names.len(), 1, "{names:?}");
        assert!(names.contains(qualified_name("boolean java.lang.Double.isNaN(double)")));
        assert!(!names.contains(qualified_name("boolean java.lang.Double.isNaN2(double)")));
    }

    #[test]
    fn the_header_must_say_what_was_asked_for() {
        let shared = "shared-1/cursor@8,poll@24,exit@32,leaf@40,entry@1000";
        let found = words(shared, Form::Shared, Isa::Arm64, None).unwrap();
        assert_eq!((found.cursor, found.poll, found.entry), (8, 24, 1000));
        assert!(words(shared, Form::Inline, Isa::Arm64, None).is_err());
        assert!(words(shared, Form::SharedWithoutTrivial, Isa::Arm64, None).is_err());
        let without = format!("{shared},trivial-left-out@1");
        assert!(words(&without, Form::SharedWithoutTrivial, Isa::Arm64, None).is_ok());
        assert!(words(&without, Form::Shared, Isa::Arm64, None).is_err());
        assert!(words("shared-1/cursor@8", Form::Shared, Isa::Arm64, None).is_err());
        assert!(words("none", Form::None, Isa::Arm64, None).is_err());
        assert_eq!(
            words("none", Form::None, Isa::Arm64, Some(found)).unwrap(),
            found
        );
        assert!(words(shared, Form::None, Isa::Arm64, Some(found)).is_err());
    }
}
