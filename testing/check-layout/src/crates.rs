// SPDX-License-Identifier: Apache-2.0
//! Dependencies between crates, and of device crates on the rest of the world.

use std::path::Path;

use anyhow::{Context as _, Result};
use cargo_metadata::{Dependency, DependencyKind, Package};

use crate::problem::Problem;

/// A rule for the crates in one folder.
struct Layer {
    /// The crate's folder; a pattern that ends with `*` stands for all folders with this start.
    folder: &'static str,
    /// Whether the crate runs on a device.
    device: bool,
    /// Folders of the crates that it may depend on; dependencies of tests may also be in [`FOR_TESTS`].
    may_use: &'static [&'static str],
}

/// The version of Rust that device crates build with.
const DEVICE_RUST: &str = "1.85.0";

/// The layers, lowest first. The first rule that fits a folder counts.
const LAYERS: &[Layer] = &[
    device("trace-format", &[]),
    device("trace-query", &["trace-format"]),
    device("decoder", &["trace-format", "trace-query"]),
    device("codegen-core", &["trace-format"]),
    device("codegen-*", &["codegen-core", "trace-format"]),
    device("runtime", &["trace-format", "trace-query"]),
    device(
        "art-hooks",
        &["codegen-*", "runtime", "trace-format", "trace-query"],
    ),
    device("service", &["trace-format", "trace-query"]),
    device("uploader", &[]),
    device("perfetto-source", &["decoder", "trace-format"]),
    host("rom/blueprint", &[]),
    host("rom", &["rom/blueprint"]),
    host("host/analysis", &["decoder", "trace-format", "trace-query"]),
    host(
        "host/causality",
        &[
            "host/analysis",
            "decoder",
            "host/system-trace",
            "trace-format",
            "trace-query",
        ],
    ),
    host("host/system-trace", &[]),
    host(
        "host/export",
        &[
            "host/analysis",
            "host/causality",
            "decoder",
            "trace-format",
            "trace-query",
        ],
    ),
    host(
        "host/*",
        &["decoder", "host/*", "trace-format", "trace-query"],
    ),
    host("lab", &["rom/blueprint", "trace-format"]),
    host("testing/testkit", &["trace-format"]),
    host("testing/codegen-check", &["codegen-core"]),
    host("testing/collector", &["service", "uploader"]),
    host(
        "testing/*",
        &[
            "art-hooks",
            "codegen-*",
            "decoder",
            "host/*",
            "lab",
            "perfetto-source",
            "rom/*",
            "rom",
            "runtime",
            "service",
            "testing/*",
            "trace-format",
            "trace-query",
        ],
    ),
    host(
        "emulator-tests",
        &["decoder", "host/*", "lab", "trace-format", "trace-query"],
    ),
    host(
        "xtask",
        &[
            "decoder",
            "host/*",
            "lab",
            "rom",
            "rom/*",
            "trace-format",
            "trace-query",
        ],
    ),
];

/// Folders of crates that tests of any crate may use.
const FOR_TESTS: &[&str] = &[
    "testing/testkit",
    "testing/codegen-check",
    "testing/collector",
];
/// Folders of crates that tests of host crates may use in addition: test machinery proves one side by the other.
const FOR_HOST_TESTS: &[&str] = &[
    "decoder",
    "host/*",
    "rom/blueprint",
    "runtime",
    "trace-format",
    "trace-query",
];

/// Crates from crates.io that device crates may use at run time or build time, and what for.
const DEVICE_MAY_USE: &[(&str, &str)] = &[
    ("bindgen", "bindings to C headers, at build time"),
    ("crc32fast", "checksums of a file's sections"),
    ("cxx", "the bridge to ART's C++"),
    ("cxx-build", "the bridge to ART's C++, at build time"),
    ("dynasmrt", "assembler of trace points"),
    ("hashbrown", "hash tables of the decoder"),
    ("libc", "system calls"),
    ("loom", "model check; only with the feature of its name"),
    ("lz4_flex", "compression of a file's sections"),
    ("memmap2", "files of the decoder"),
    ("once_cell", "lazy initialization"),
    ("thiserror", "error types"),
];

/// Crates from crates.io that one device crate alone may use: its folder, and what for.
const ONE_DEVICE_CRATE_MAY_USE: &[(&str, &str, &str)] = &[
    (
        "ed25519-compact",
        "service",
        "signatures of policies; pure Rust, no dependencies",
    ),
    ("proguard", "decoder", "mapping files; only on a host"),
    ("rayon", "decoder", "all cores; only on a host"),
    ("rustls", "uploader", "its connections, with ring"),
    ("serde", "service", "the policy, and facts of reports"),
    ("toml", "service", "the policy and detectors"),
];

const fn device(folder: &'static str, may_use: &'static [&'static str]) -> Layer {
    Layer {
        folder,
        device: true,
        may_use,
    }
}

const fn host(folder: &'static str, may_use: &'static [&'static str]) -> Layer {
    Layer {
        folder,
        device: false,
        may_use,
    }
}

/// Checks the dependencies of all crates of a workspace whose root is `checkout`.
pub(crate) fn check(packages: &[&Package], checkout: &Path) -> Result<Vec<Problem>> {
    let mut problems = Vec::new();
    for package in packages {
        let manifest = relative(package.manifest_path.as_std_path(), checkout);
        let text = std::fs::read_to_string(&package.manifest_path)
            .with_context(|| format!("cannot read {manifest}"))?;
        let folder = manifest.trim_end_matches("/Cargo.toml");
        let Some(layer) = LAYERS.iter().find(|layer| fits(layer.folder, folder)) else {
            problems.push(Problem::new(
                &manifest,
                1,
                "no rule says which crates this one may depend on: add its folder to LAYERS in \
                 testing/check-layout/src/crates.rs",
            ));
            continue;
        };
        for dependency in &package.dependencies {
            let line = line_of(&text, &dependency.name);
            let fault = match &dependency.path {
                // A crate's tests may depend on the crate itself, for its features.
                Some(path) if relative(path.as_std_path(), checkout) == folder => None,
                Some(path) => wrong_direction(
                    layer,
                    &relative(path.as_std_path(), checkout),
                    dependency.kind,
                ),
                None => unlisted(layer, dependency),
            };
            problems.extend(fault.map(|what| Problem::new(&manifest, line, what)));
        }
        let rust = package.rust_version.as_ref().map(ToString::to_string);
        if layer.device && rust.as_deref() != Some(DEVICE_RUST) {
            problems.push(Problem::new(
                &manifest,
                line_of(&text, "rust-version"),
                format!("a device crate states rust-version = \"1.85\"; this one has {rust:?}"),
            ));
        }
    }
    Ok(problems)
}

fn wrong_direction(layer: &Layer, to: &str, kind: DependencyKind) -> Option<String> {
    let any = |patterns: &[&str]| patterns.iter().any(|pattern| fits(pattern, to));
    let in_tests = kind == DependencyKind::Development
        && (any(FOR_TESTS) || (!layer.device && any(FOR_HOST_TESTS)));
    if any(layer.may_use) || in_tests {
        return None;
    }
    let allowed = match layer.may_use {
        [] => "no other crate".to_owned(),
        some => some.join(", "),
    };
    Some(format!(
        "{} depends on {to}, against the direction of docs/contributing.md: it may use {allowed}; move the shared \
         item down, or the code that needs it up",
        layer.folder
    ))
}

fn unlisted(layer: &Layer, dependency: &Dependency) -> Option<String> {
    if !layer.device || dependency.kind == DependencyKind::Development {
        return None;
    }
    let name = dependency.name.as_str();
    if ["loom", "proguard", "rayon"].contains(&name) && !dependency.optional {
        return Some(format!("{name} is not for devices: make it optional"));
    }
    let is_of_this_crate =
        |(allowed, folder, _): &(&str, &str, &str)| *allowed == name && *folder == layer.folder;
    if DEVICE_MAY_USE.iter().any(|(allowed, _)| *allowed == name)
        || ONE_DEVICE_CRATE_MAY_USE.iter().any(is_of_this_crate)
    {
        return None;
    }
    Some(format!(
        "a device crate depends on {name}, which is not in the list of its dependencies: do without, or give the \
         reason in DEVICE_MAY_USE of testing/check-layout/src/crates.rs"
    ))
}

/// Whether a folder fits a pattern.
fn fits(pattern: &str, folder: &str) -> bool {
    match pattern.strip_suffix('*') {
        Some(start) => folder.starts_with(start),
        None => folder == pattern,
    }
}

/// The line of a manifest that begins with `key`, or the first.
fn line_of(manifest: &str, key: &str) -> usize {
    let begins = |line: &str| {
        line.trim_start()
            .strip_prefix(key)
            .is_some_and(|rest| rest.starts_with([' ', '.', '=']))
    };
    manifest.lines().position(begins).map_or(1, |line| line + 1)
}

pub(crate) fn relative(path: &Path, checkout: &Path) -> String {
    path.strip_prefix(checkout)
        .unwrap_or(path)
        .to_string_lossy()
        .into_owned()
}
