// SPDX-License-Identifier: Apache-2.0
//! `cargo xtask verify graphs`: the changes that trace points make to the compiler's graphs. The stock and the patched
//! dex2oat compile the same methods, and their graphs are compared before and after every pass.

pub(super) mod checker;
mod dump;
mod graph;

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::io::BufReader;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use anyhow::{ensure, Context as _, Result};
use hindsight_lab::{BootImageSpec, BootJar, Isa, Lab, Parts, Release, Variant};

use dump::{Compilation, Pass};
use graph::Graph;
use hindsight_verify::boot_images::Form;

/// The pass that inserts trace points.
const INSERTION: &str = "trace_point_insertion ";
/// The first pass after it, and the passes whose graphs are compared without trace points. The passes between them
/// only compute the register allocator's input.
const BEFORE_ALLOCATION: &str = "prepare_for_register_allocation (before)";
const PREPARED: &str = "prepare_for_register_allocation (after)";
const ALLOCATED: &str = "register (after)";
/// The number of differences that are printed for each image.
const PRINTED: usize = 10;

#[derive(clap::Args)]
pub(crate) struct Options {
    /// The instruction set of the compiled code
    #[arg(long, default_value = "all", value_parser = ["x86_64", "arm64", "arm", "all"])]
    isa: String,
    /// Methods of the core libraries whose names or signatures contain any of these
    #[arg(
        long,
        default_value = "java.util.ArrayList.,java.util.HashMap,java.lang.Integer.,java.io.BufferedReader."
    )]
    methods: String,
}

/// A method that the stock compiler has compiled.
struct Stock {
    /// The passes before the insertion of trace points, with hashes of their graphs, and the passes after it.
    passes: Vec<(String, u64)>,
    prepared: String,
    allocated: String,
    moves: usize,
}

/// The result for an image.
#[derive(Default)]
struct Tally {
    methods: usize,
    nodes: usize,
    entries: usize,
    exits: usize,
    /// Methods without trace points.
    without: usize,
    /// Compared graphs.
    graphs: usize,
    /// Methods with another register allocation, as trace points need registers.
    reallocated: usize,
    /// The additional moves of values in these methods.
    more_moves: i64,
    differences: Vec<String>,
}

/// Compares and prints. Returns whether there is no difference.
pub(super) fn run(options: &Options, checkout: &Path) -> Result<bool> {
    let open = |variant| Lab::open_parts(Release::Android10, Isa::X86_64, variant, Parts::Programs);
    let (stock, hindsight) = (open(Variant::Stock)?, open(Variant::Hindsight)?);
    let mut all = Tally::default();
    println!(
        "{:>7} {:>7} {:>8} {:>9} {:>8} {:>8} {:>8} {:>8} {:>9} {:>7} {:>12}",
        "isa",
        "form",
        "methods",
        "nodes",
        "entries",
        "exits",
        "without",
        "graphs",
        "realloc.",
        "moves",
        "differences"
    );
    for isa in Isa::ALL {
        if options.isa != "all" && options.isa != isa.name() {
            continue;
        }
        let dump = Dump {
            options,
            isa,
            checkout,
            jars: stock.boot_class_path(),
        };
        let mut expected = HashMap::new();
        dump.read(&stock, Form::None, |compilation| {
            let known = Stock::new(&compilation)
                .with_context(|| format!("a graph of {}", compilation.method))?;
            let all: &mut Vec<Stock> = expected.entry(compilation.method).or_default();
            all.push(known);
            Ok(())
        })?;
        ensure!(
            !expected.is_empty(),
            "no method has '{}' in its name",
            options.methods
        );
        for form in [Form::Shared, Form::Inline, Form::None] {
            let tally = compare(&dump, &hindsight, form, &expected)?;
            println!(
                "{:>7} {:>7} {:>8} {:>9} {:>8} {:>8} {:>8} {:>8} {:>9} {:>7} {:>12}",
                isa.name(),
                form.name(),
                tally.methods,
                tally.nodes,
                tally.entries,
                tally.exits,
                tally.without,
                tally.graphs,
                tally.reallocated,
                format!("{:+}", tally.more_moves),
                tally.differences.len()
            );
            for difference in tally.differences.iter().take(PRINTED) {
                println!("    {difference}");
            }
            if tally.differences.len() > PRINTED {
                println!("    … {} more", tally.differences.len() - PRINTED);
            }
            all.methods += tally.methods;
            all.nodes += tally.nodes;
            all.differences.extend(tally.differences);
        }
    }
    println!(
        "graphs: {} methods, {} nodes, {} differences",
        all.methods,
        all.nodes,
        all.differences.len()
    );
    Ok(all.differences.is_empty())
}

/// Compares the patched compiler's methods with the stock compiler's.
fn compare(
    dump: &Dump<'_>,
    hindsight: &Lab,
    form: Form,
    expected: &HashMap<String, Vec<Stock>>,
) -> Result<Tally> {
    let mut tally = Tally::default();
    // The compiler tries some intrinsics twice.
    let mut seen: HashMap<String, usize> = HashMap::new();
    dump.read(hindsight, form, |compilation| {
        let method = &compilation.method;
        let nth = seen.entry(method.clone()).or_default();
        *nth += 1;
        let Some(stock) = expected.get(method).and_then(|all| all.get(*nth - 1)) else {
            tally.differences.push(format!(
                "{method}: compiled {nth} times, more often than by the stock compiler"
            ));
            return Ok(());
        };
        let found = compare_method(&compilation, stock, form, &mut tally)
            .with_context(|| format!("a graph of {method}"))?;
        tally.methods += 1;
        tally
            .differences
            .extend(found.map(|what| format!("{method}: {what}")));
        Ok(())
    })?;
    for (method, all) in expected {
        let times = seen.get(method).copied().unwrap_or(0);
        if times < all.len() {
            tally.differences.push(format!(
                "{method}: compiled {times} times instead of {}",
                all.len()
            ));
        }
    }
    Ok(tally)
}

/// The first difference.
fn compare_method(
    compilation: &Compilation,
    stock: &Stock,
    form: Form,
    tally: &mut Tally,
) -> Result<Option<String>> {
    let passes: Vec<&Pass> = compilation
        .passes
        .iter()
        .filter(|pass| !pass.name.starts_with(INSERTION))
        .collect();
    let inserted = passes.len() < compilation.passes.len();
    let names_differ = passes
        .iter()
        .map(|pass| &pass.name)
        .ne(stock.passes.iter().map(|(name, _)| name));
    if names_differ {
        return Ok(Some("the passes differ from the stock compiler's".into()));
    }
    let prepared = graph_at(compilation, PREPARED)?;
    let points = match prepared.trace_points() {
        Ok(points) => points,
        Err(what) => return Ok(Some(what)),
    };
    let traced = points.entries == 1;
    if traced && form == Form::None {
        return Ok(Some("trace points, although the form is none".into()));
    }
    if inserted && !traced && form != Form::None {
        return Ok(Some("no trace points".into()));
    }
    // With trace points the graphs must be equal up to their insertion, without them up to the machine code.
    let same_until = if traced { BEFORE_ALLOCATION } else { "" };
    for (pass, (_, expected)) in passes.iter().zip(&stock.passes) {
        if pass.name == same_until {
            break;
        }
        tally.graphs += 1;
        if hash(&pass.text) != *expected {
            return Ok(Some(format!("another graph at '{}'", pass.name)));
        }
    }
    tally.nodes += prepared.instructions();
    tally.entries += points.entries;
    tally.exits += points.exits;
    if points.entries == 0 {
        tally.without += 1;
        return Ok(None);
    }
    tally.graphs += 2;
    let rest = prepared.without_trace_points();
    if rest != stock.prepared {
        return Ok(Some(first_difference(PREPARED, &stock.prepared, &rest)));
    }
    let allocated = graph_at(compilation, ALLOCATED)?;
    let rest = allocated.without_trace_points();
    if rest != stock.allocated {
        tally.reallocated += 1;
        tally.more_moves += allocated.moves() as i64 - stock.moves as i64;
    }
    Ok(None)
}

fn first_difference(at: &str, stock: &str, found: &str) -> String {
    let (expected, line) = stock
        .lines()
        .zip(found.lines())
        .find(|(expected, line)| expected != line)
        .unwrap_or(("the end", "more"));
    format!("at '{at}' without trace points: '{line}' instead of '{expected}'")
}

fn graph_at(compilation: &Compilation, name: &str) -> Result<Graph> {
    let pass = compilation.passes.iter().find(|pass| pass.name == name);
    Graph::parse(&pass.with_context(|| format!("no graph at '{name}'"))?.text)
}

fn hash(text: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    text.hash(&mut hasher);
    hasher.finish()
}

impl Stock {
    fn new(compilation: &Compilation) -> Result<Stock> {
        let allocated = graph_at(compilation, ALLOCATED)?;
        Ok(Stock {
            passes: compilation
                .passes
                .iter()
                .map(|pass| (pass.name.clone(), hash(&pass.text)))
                .collect(),
            prepared: graph_at(compilation, PREPARED)?.without_trace_points(),
            allocated: allocated.without_trace_points(),
            moves: allocated.moves(),
        })
    }
}

/// The settings for dumping graphs.
struct Dump<'a> {
    options: &'a Options,
    isa: Isa,
    checkout: &'a Path,
    /// The same for both compilers.
    jars: Vec<BootJar>,
}

impl Dump<'_> {
    /// Compiles the boot image with a lab's dex2oat, and calls `each` for every selected method.
    fn read(
        &self,
        lab: &Lab,
        form: Form,
        each: impl FnMut(Compilation) -> Result<()>,
    ) -> Result<()> {
        let what = || {
            format!(
                "dumping graphs of {} for {}",
                lab.variant().name(),
                self.isa.name()
            )
        };
        let parent = self.checkout.join("target/verify");
        std::fs::create_dir_all(&parent)
            .with_context(|| format!("cannot make {}", parent.display()))?;
        let folder = tempfile::Builder::new()
            .prefix("graphs")
            .tempdir_in(&parent)?;
        let spec = BootImageSpec {
            jars: self.jars.clone(),
            filter: "speed".to_owned(),
            image: PathBuf::from(folder.path()).join("core.art"),
            options: vec![
                "--no-generate-debug-info".into(),
                // It is slow because of the amount of dumped text.
                "--no-watch-dog".into(),
                // Several threads would mix their graphs.
                "-j1".into(),
                "--dump-cfg=/dev/stdout".into(),
                format!("--verbose-methods={}", self.options.methods).into(),
            ],
        };
        let mut command = lab.boot_image_command(&spec, self.isa);
        command.envs(form.environment());
        command.stdout(Stdio::piped()).stdin(Stdio::null());
        let mut child = command
            .spawn()
            .with_context(|| format!("{}: cannot run dex2oat", what()))?;
        let output = child.stdout.take().context("no standard output")?;
        let read = dump::read(BufReader::with_capacity(1 << 20, output), each);
        if read.is_err() {
            // It would block on the unread rest.
            let _ = child.kill();
        }
        let status = child.wait()?;
        read.with_context(what)?;
        ensure!(status.success(), "{}: dex2oat ended with {status}", what());
        Ok(())
    }
}
