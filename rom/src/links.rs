// SPDX-License-Identifier: Apache-2.0
//! Which programs and shared libraries of a patched `art` contain Hindsight's runtime objects, and whether
//! their link has the Rust library that these objects call.
//!
//! The rules are Soong's. A link has the objects of its sources, of its `static_libs`, and of whatever
//! those archives took in through `whole_static_libs`. The `static_libs` of a static library do *not* reach
//! the link. A prebuilt archive in its `whole_static_libs` does in Android 14, but not in 10 and 11.

use crate::overlay::{self, Overlay};
use crate::release::Release;
use anyhow::{ensure, Context, Result};
use hindsight_blueprint::{Tree, Variation};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// The filegroup of the runtime objects, and the Rust library that they call.
const OBJECTS: &str = ":hindsight_libart_srcs";
const LIBRARY: &str = "libhindsight_art_hooks";
/// The modules of the overlay that become part of an APEX.
const IN_APEX: [&str; 2] = [LIBRARY, "hindsight_headers"];

/// A program or shared library that contains the runtime objects.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Link {
    /// The module's name.
    pub module: String,
    /// `android` (the device) or `host`.
    pub os: &'static str,
    /// Whether the link has the Rust library.
    pub has_library: bool,
}

/// Loads the build files of a tree: all `Android.bp` of its `art`, which must be patched, and the overlay's.
///
/// # Errors
/// If a file can't be read or parsed.
pub fn load(checkout: &Path, root: &Path, release: Release) -> Result<Tree> {
    let mut tree = Tree::new();
    for entry in walkdir::WalkDir::new(root.join("art")).sort_by_file_name() {
        let entry = entry.context("cannot list art")?;
        if entry.file_name() == "Android.bp" {
            let path = entry.path().strip_prefix(root).unwrap_or(entry.path());
            tree.load(root, path)?;
        }
    }
    for (path, from) in Overlay::of(checkout, root, release)?.files() {
        if Path::new(path)
            .file_name()
            .is_some_and(|name| name == "Android.bp")
        {
            let text = std::fs::read_to_string(from)
                .with_context(|| format!("cannot read {}", from.display()))?;
            tree.add(&PathBuf::from(overlay::PATH).join(path), &text)?;
        }
    }
    Ok(tree)
}

/// All links with the runtime objects.
///
/// # Errors
/// If a property has an unexpected type, or no link has the objects at all: then the files are not patched.
pub fn links(tree: &Tree, release: Release) -> Result<Vec<Link>> {
    let mut all = BTreeSet::new();
    for name in tree.names() {
        let kind = tree.module(name).map_or("", |module| &module.kind);
        if !is_linked(kind) {
            continue;
        }
        for (os, target) in [
            ("android", &["android", "bionic", "linux"][..]),
            (
                "host",
                &["host", "linux", "linux_glibc", "glibc", "not_windows"][..],
            ),
        ] {
            let linkage = kind.contains("library").then_some("shared");
            let build = Build {
                tree,
                release,
                target,
            };
            if !build.supported(name, kind, os)? {
                continue;
            }
            let contents = build.link(name, linkage)?;
            if contents.objects {
                all.insert(Link {
                    module: name.to_owned(),
                    os,
                    has_library: contents.library,
                });
            }
        }
    }
    ensure!(
        !all.is_empty(),
        "no module of art has {OBJECTS}: the patch of art/runtime/Android.bp is missing"
    );
    Ok(all.into_iter().collect())
}

/// Names of APEXes that a module of `art` may go into, and a module of ours that it needs may not. Each is
/// an error that stops Soong. Test APEXes are left out, as Soong does not check them.
///
/// # Errors
/// If a property has an unexpected type.
pub fn missing_apexes(tree: &Tree) -> Result<Vec<String>> {
    let none = Variation::default();
    let is_test = |apex: &String| {
        let kind = tree.module(apex).map_or("", |module| &module.kind);
        kind.contains("apex_test")
    };
    let mut missing = BTreeSet::new();
    for name in tree.names() {
        for linkage in [None, Some("static"), Some("shared")] {
            let variation = Variation {
                linkage,
                ..Variation::default()
            };
            let mut needs = Vec::new();
            for property in ["static_libs", "whole_static_libs", "header_libs"] {
                needs.extend(tree.strings(name, property, &variation)?);
            }
            for ours in IN_APEX
                .iter()
                .filter(|ours| needs.iter().any(|need| need == *ours))
            {
                let available = tree.strings(ours, "apex_available", &none)?;
                for apex in tree.strings(name, "apex_available", &none)? {
                    if !available.contains(&apex) && !is_test(&apex) {
                        missing.insert(format!("{ours} is not available to {apex}, as {name} is"));
                    }
                }
            }
        }
    }
    Ok(missing.into_iter().collect())
}

/// Whether modules of this type are linked: programs, tests and libraries with a shared variant. A type that
/// is not known counts as linked, so that none escapes the check.
fn is_linked(kind: &str) -> bool {
    let archive_or_none = [
        "defaults", "static", "headers", "object", "prebuilt", "genrule",
    ];
    kind.contains("cc_") && !archive_or_none.iter().any(|word| kind.contains(word))
}

/// The contents of an archive or a link.
#[derive(Clone, Copy, Debug, Default)]
struct Contents {
    objects: bool,
    library: bool,
}

impl std::ops::BitOrAssign for Contents {
    fn bitor_assign(&mut self, other: Contents) {
        self.objects |= other.objects;
        self.library |= other.library;
    }
}

/// The modules as they are compiled for one operating system.
struct Build<'a> {
    tree: &'a Tree,
    release: Release,
    target: &'a [&'static str],
}

impl Build<'_> {
    fn variation(&self, linkage: Option<&'static str>) -> Variation {
        Variation {
            target: self.target.iter().map(|&name| name.to_owned()).collect(),
            linkage,
            ..Variation::default()
        }
    }

    /// Whether the module is meant for this system. `enabled` is not looked at: Android 14's ART is disabled
    /// by default, and enabled by a variable of the product.
    fn supported(&self, name: &str, kind: &str, os: &str) -> Result<bool> {
        // art_cc_* is for both unless it says otherwise, cc_* for the device, cc_*_host for the host.
        let (property, by_default) = if os == "host" {
            (
                "host_supported",
                kind.contains("art_cc") || kind.ends_with("_host"),
            )
        } else {
            ("device_supported", !kind.ends_with("_host"))
        };
        let supported = self.tree.flag(name, property, &self.variation(None))?;
        Ok(supported.unwrap_or(by_default))
    }

    /// The linker's input for a program or a shared library.
    fn link(&self, name: &str, linkage: Option<&'static str>) -> Result<Contents> {
        let variation = self.variation(linkage);
        let mut contents = self.compiled(name, &variation)?;
        for property in ["whole_static_libs", "static_libs"] {
            for library in self.tree.strings(name, property, &variation)? {
                contents.library |= library == LIBRARY;
                contents |= self.archive(&library, &mut Vec::new())?;
            }
        }
        Ok(contents)
    }

    /// The contents of a module's archive. Libraries of other projects contain no code of Hindsight.
    fn archive(&self, name: &str, within: &mut Vec<String>) -> Result<Contents> {
        if self.tree.module(name).is_none() || within.iter().any(|outer| outer == name) {
            return Ok(Contents::default());
        }
        within.push(name.to_owned());
        let variation = self.variation(Some("static"));
        let mut contents = self.compiled(name, &variation)?;
        for library in self.tree.strings(name, "whole_static_libs", &variation)? {
            contents.library |= library == LIBRARY && takes_prebuilts(self.release);
            contents |= self.archive(&library, within)?;
        }
        within.pop();
        Ok(contents)
    }

    fn compiled(&self, name: &str, variation: &Variation) -> Result<Contents> {
        let sources = self.tree.strings(name, "srcs", variation)?;
        Ok(Contents {
            objects: sources.iter().any(|source| source == OBJECTS),
            library: false,
        })
    }
}

/// Whether a static library takes in the prebuilt archives of its `whole_static_libs`.
fn takes_prebuilts(release: Release) -> bool {
    release >= Release::Android14
}

#[cfg(test)]
mod tests {
    use super::*;

    const OVERLAY: &str = r#"
        cc_prebuilt_library_static { name: "libhindsight_art_hooks", apex_available: ["com.android.art"] }
        cc_library_headers { name: "hindsight_headers", apex_available: ["com.android.art"] }
        cc_defaults { name: "hindsight_libart_defaults", srcs: [":hindsight_libart_srcs"],
          header_libs: ["hindsight_headers"], static_libs: ["libhindsight_art_hooks"] }
        cc_defaults { name: "hindsight_libart_static_defaults", whole_static_libs: ["libhindsight_art_hooks"] }
    "#;

    fn tree(art: &str) -> Tree {
        let mut tree = Tree::new();
        tree.add(Path::new("external/hindsight/Android.bp"), OVERLAY)
            .unwrap();
        tree.add(Path::new("art/Android.bp"), art).unwrap();
        tree
    }

    /// The links of a tree, each `module os`, and `!` where the library is missing.
    fn found(art: &str, release: Release) -> Vec<String> {
        let describe = |link: Link| {
            let mark = if link.has_library { "" } else { "!" };
            format!("{mark}{} {}", link.module, link.os)
        };
        let links = links(&tree(art), release).unwrap();
        links.into_iter().map(describe).collect()
    }

    const LIBART: &str = r#"
        art_cc_library { name: "libart", defaults: ["hindsight_libart_defaults"], device_supported: false }
        cc_binary_host { name: "other", static_libs: ["liblog"], shared_libs: ["libart"] }
    "#;

    #[test]
    fn a_shared_library_has_its_own_static_libraries_and_what_links_it_has_none_of_its_objects() {
        assert_eq!(found(LIBART, Release::Android10), ["libart host"]);
    }

    #[test]
    fn a_program_with_a_static_libart_needs_the_library_itself() {
        let program = |more: &str| {
            let art = format!(
                "{LIBART} cc_binary_host {{ name: \"dex2oats\", static_libs: [\"libart\"], {more} }}"
            );
            found(&art, Release::Android10)
        };
        assert_eq!(program(""), ["!dex2oats host", "libart host"]);
        let fixed = program("defaults: [\"hindsight_libart_static_defaults\"]");
        assert_eq!(fixed, ["dex2oats host", "libart host"]);
    }

    #[test]
    fn a_prebuilt_in_a_static_library_reaches_the_link_in_14_only() {
        let art = format!(
            r#"{LIBART}
            art_cc_library_static {{ name: "libdex2oat_static", whole_static_libs: ["libart"],
              defaults: ["hindsight_libart_static_defaults"] }}
            art_cc_binary {{ name: "dex2oat", target: {{
              android: {{ shared_libs: ["libart"] }}, host: {{ static_libs: ["libdex2oat_static"] }} }} }}"#
        );
        let wanted = ["dex2oat host", "libart host"];
        assert_eq!(found(&art, Release::Android14), wanted);
        let wanted = ["!dex2oat host", "libart host"];
        assert_eq!(found(&art, Release::Android11), wanted);
        let before = art.replace("hindsight_libart_static_defaults", "none");
        assert_eq!(found(&before, Release::Android14), wanted);
    }

    #[test]
    fn an_art_without_the_patch_is_an_error() {
        let art = LIBART.replace("hindsight_libart_defaults", "none");
        let error = links(&tree(&art), Release::Android10).unwrap_err();
        assert!(error
            .to_string()
            .contains("the patch of art/runtime/Android.bp is missing"));
    }

    #[test]
    fn apexes_that_ours_is_not_available_to_are_named_except_test_apexes() {
        let art = |apexes: &str| {
            let module = r#"art_cc_library { name: "libart", defaults: ["hindsight_libart_defaults"],
                apex_available: "#;
            let test = "apex_test { name: \"test_broken\" }";
            missing_apexes(&tree(&format!("{module} {apexes} }} {test}"))).unwrap()
        };
        assert!(art("[\"com.android.art\", \"test_broken\"]").is_empty());
        assert_eq!(
            art("[\"com.android.art.release\"]"),
            [
                "hindsight_headers is not available to com.android.art.release, as libart is",
                "libhindsight_art_hooks is not available to com.android.art.release, as libart is"
            ]
        );
    }
}
