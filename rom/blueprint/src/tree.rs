// SPDX-License-Identifier: Apache-2.0
//! The modules of many files, with defaults and variations merged.

use crate::error::{Error, Result};
use crate::parser::{parse, Map, Module, Value};
use std::collections::HashMap;
use std::path::{Path, PathBuf};

/// Selects the conditional properties of a module that apply.
#[derive(Clone, Debug, Default)]
pub struct Variation {
    /// Values of `arch: { … }`, such as `x86_64`.
    pub arch: Vec<String>,
    /// Values of `target: { … }`, such as `host`, `linux`, `linux_glibc`.
    pub target: Vec<String>,
    /// Values of ART's own `codegen: { … }`: the instruction sets to generate code for.
    pub codegen: Vec<String>,
    /// `static` or `shared`: the library variant whose block of that name applies. Programs have none.
    pub linkage: Option<&'static str>,
}

impl Variation {
    fn groups(&self) -> [(&'static str, &[String]); 3] {
        [
            ("codegen", &self.codegen),
            ("arch", &self.arch),
            ("target", &self.target),
        ]
    }
}

/// One source of a module.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Source {
    /// A file, relative to the root of the tree.
    File(PathBuf),
    /// The output of another module (`:name`) that is not a `filegroup`.
    Output(String),
}

struct Entry {
    /// The folder of the file, relative to the root.
    dir: PathBuf,
    file: String,
    module: Module,
}

/// The modules of several `Android.bp` files under one root.
#[derive(Default)]
pub struct Tree {
    modules: HashMap<String, Entry>,
}

impl Tree {
    /// An empty tree.
    pub fn new() -> Tree {
        Tree::default()
    }

    /// Reads `root/path` and adds its modules; `path` is relative.
    ///
    /// # Errors
    /// If the file can't be read or parsed, or defines a module a second time.
    pub fn load(&mut self, root: &Path, path: &Path) -> Result<()> {
        let full = root.join(path);
        let text = std::fs::read_to_string(&full).map_err(|source| Error::Read {
            path: full.clone(),
            source,
        })?;
        self.add(path, &text)
    }

    /// Adds the modules of the file `path` (relative to the root) with this text.
    ///
    /// # Errors
    /// If the text can't be parsed, or defines a module a second time.
    pub fn add(&mut self, path: &Path, text: &str) -> Result<()> {
        let file = path.display().to_string();
        let dir = path.parent().unwrap_or(Path::new("")).to_owned();
        for module in parse(&file, text)?.modules {
            if module.name.is_empty() {
                continue;
            }
            if let Some(first) = self.modules.get(&module.name) {
                return Err(Error::Duplicate {
                    name: module.name,
                    first: first.file.clone(),
                    second: file,
                    line: module.line,
                });
            }
            let (name, dir, file) = (module.name.clone(), dir.clone(), file.clone());
            self.modules.insert(name, Entry { dir, file, module });
        }
        Ok(())
    }

    /// The names of all modules, sorted.
    pub fn names(&self) -> Vec<&str> {
        let mut names: Vec<&str> = self.modules.keys().map(String::as_str).collect();
        names.sort_unstable();
        names
    }

    /// The module of this name.
    pub fn module(&self, name: &str) -> Option<&Module> {
        self.modules.get(name).map(|entry| &entry.module)
    }

    /// The folder, relative to the root, of the file that defines the module.
    pub fn dir(&self, name: &str) -> Option<&Path> {
        self.modules.get(name).map(|entry| entry.dir.as_path())
    }

    fn entry(&self, name: &str, by: &str) -> Result<&Entry> {
        self.modules.get(name).ok_or_else(|| Error::NoModule {
            name: name.to_owned(),
            by: by.to_owned(),
        })
    }

    /// A module's list of strings, as Soong merges it: first the strings of its defaults, then its own, then
    /// the strings of the variation (`codegen`, `arch`, `target`).
    ///
    /// Defaults that no loaded file defines are ignored: they come from other parts of the platform, mostly
    /// with compiler flags, which a build outside the platform replaces.
    ///
    /// # Errors
    /// If the module doesn't exist or the property isn't a list of strings.
    pub fn strings(
        &self,
        module: &str,
        property: &str,
        variation: &Variation,
    ) -> Result<Vec<String>> {
        let mut all = Vec::new();
        self.collect(
            module,
            "",
            variation,
            &mut Vec::new(),
            &mut |entry, path, properties| {
                for text in list(entry, path, properties, property)? {
                    all.push(text.to_owned());
                }
                Ok(())
            },
        )?;
        Ok(all)
    }

    /// A module's boolean property; the last block that sets it wins, in the order of [`Tree::strings`].
    ///
    /// # Errors
    /// If the module doesn't exist or the property isn't a boolean.
    pub fn flag(
        &self,
        module: &str,
        property: &str,
        variation: &Variation,
    ) -> Result<Option<bool>> {
        let mut last = None;
        self.collect(
            module,
            "",
            variation,
            &mut Vec::new(),
            &mut |entry, path, properties| {
                match properties.get(property) {
                    None => {}
                    Some(Value::Bool(value)) => last = Some(*value),
                    Some(other) => {
                        return Err(wrong_type(entry, path, property, other, "a boolean"))
                    }
                }
                Ok(())
            },
        )?;
        Ok(last)
    }

    /// The sources of a module (see [`Tree::strings`] for the order) without those in
    /// `exclude_srcs`; `:name` of a `filegroup` is replaced by its files. A file that is listed more than
    /// once keeps its first position.
    ///
    /// # Errors
    /// If the module, or one that it refers to, doesn't exist or has sources of another type than
    /// a list of strings.
    pub fn sources(&self, module: &str, variation: &Variation) -> Result<Vec<Source>> {
        let mut all = Vec::new();
        self.sources_into(module, "", variation, &mut Vec::new(), &mut all)?;
        let mut seen = std::collections::HashSet::new();
        all.retain(|source| seen.insert(source.clone()));
        Ok(all)
    }

    fn sources_into(
        &self,
        module: &str,
        by: &str,
        variation: &Variation,
        groups: &mut Vec<String>,
        out: &mut Vec<Source>,
    ) -> Result<()> {
        if groups.iter().any(|g| g == module) {
            return Err(Error::Cycle(module.to_owned()));
        }
        groups.push(module.to_owned());
        let mut found = Vec::new();
        let mut excluded = Vec::new();
        self.collect(
            module,
            by,
            variation,
            &mut Vec::new(),
            &mut |entry, path, properties| {
                for text in list(entry, path, properties, "srcs")? {
                    found.push((entry.dir.clone(), text.to_owned()));
                }
                for text in list(entry, path, properties, "exclude_srcs")? {
                    excluded.push(entry.dir.join(text));
                }
                Ok(())
            },
        )?;
        for (dir, text) in found {
            if let Some(name) = text.strip_prefix(':') {
                // Soong allows `:name{.tag}`; only the plain form occurs where sources are read.
                match self.modules.get(name) {
                    Some(entry) if entry.module.kind == "filegroup" => {
                        self.sources_into(name, module, variation, groups, out)?;
                    }
                    Some(_) => out.push(Source::Output(name.to_owned())),
                    None => {
                        return Err(Error::NoModule {
                            name: name.to_owned(),
                            by: module.to_owned(),
                        })
                    }
                }
            } else {
                let path = dir.join(text);
                if !excluded.contains(&path) {
                    out.push(Source::File(path));
                }
            }
        }
        groups.pop();
        Ok(())
    }

    /// Calls `visit` for each group of properties that applies to a module: defaults first.
    fn collect(
        &self,
        module: &str,
        by: &str,
        variation: &Variation,
        stack: &mut Vec<String>,
        visit: &mut dyn FnMut(&Entry, &str, &Map) -> Result<()>,
    ) -> Result<()> {
        if stack.iter().any(|m| m == module) {
            return Err(Error::Cycle(module.to_owned()));
        }
        stack.push(module.to_owned());
        let entry = self.entry(module, by)?;
        for default in list(entry, "", &entry.module.properties, "defaults")? {
            if self.modules.contains_key(default) {
                self.collect(default, module, variation, stack, visit)?;
            }
        }
        visit_block(entry, "", &entry.module.properties, variation, visit)?;
        for (group, values) in variation.groups() {
            let Some(Value::Map(cases)) = entry.module.properties.get(group) else {
                continue;
            };
            for value in values {
                if let Some(Value::Map(properties)) = cases.get(value) {
                    let path = format!("{group}.{value}.");
                    visit_block(entry, &path, properties, variation, visit)?;
                }
            }
        }
        stack.pop();
        Ok(())
    }
}

/// Visits a block of properties, then the `static` or `shared` block in it.
fn visit_block(
    entry: &Entry,
    path: &str,
    properties: &Map,
    variation: &Variation,
    visit: &mut dyn FnMut(&Entry, &str, &Map) -> Result<()>,
) -> Result<()> {
    visit(entry, path, properties)?;
    if let Some(linkage) = variation.linkage {
        if let Some(Value::Map(inner)) = properties.get(linkage) {
            visit(entry, &format!("{path}{linkage}."), inner)?;
        }
    }
    Ok(())
}

fn list<'a>(
    entry: &Entry,
    path: &str,
    properties: &'a Map,
    property: &str,
) -> Result<Vec<&'a str>> {
    let wrong = |value, expected| wrong_type(entry, path, property, value, expected);
    match properties.get(property) {
        None => Ok(Vec::new()),
        Some(Value::List(list)) => list
            .iter()
            .map(|value| match value {
                Value::String(text) => Ok(text.as_str()),
                other => Err(wrong(other, "a string")),
            })
            .collect(),
        Some(other) => Err(wrong(other, "a list")),
    }
}

fn wrong_type(
    entry: &Entry,
    path: &str,
    property: &str,
    found: &Value,
    expected: &'static str,
) -> Error {
    Error::Type {
        file: entry.file.clone(),
        line: entry.module.line,
        module: entry.module.name.clone(),
        property: format!("{path}{property}"),
        found: found.kind(),
        expected,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree(files: &[(&str, &str)]) -> Tree {
        let mut tree = Tree::new();
        for (path, text) in files {
            tree.add(Path::new(path), text).unwrap();
        }
        tree
    }

    fn linux() -> Variation {
        Variation {
            arch: vec!["x86_64".into()],
            target: vec!["linux".into()],
            codegen: vec!["arm".into(), "x86".into()],
            linkage: None,
        }
    }

    fn files(sources: &[Source]) -> Vec<String> {
        sources
            .iter()
            .map(|s| match s {
                Source::File(path) => path.display().to_string(),
                Source::Output(name) => format!(":{name}"),
            })
            .collect()
    }

    #[test]
    fn defaults_come_first_and_variations_last() {
        let tree = tree(&[(
            "art/runtime/Android.bp",
            r#"
            cc_defaults { name: "base", srcs: ["base.cc"], target: { linux: { srcs: ["base_linux.cc"] } } }
            cc_defaults { name: "d", defaults: ["base", "platform_defaults"], srcs: ["d.cc"],
              arch: { x86_64: { srcs: ["x64.S"] }, arm: { srcs: ["arm.S"] } },
              codegen: { arm: { srcs: ["gen_arm.cc"] }, mips: { srcs: ["gen_mips.cc"] } } }
            cc_library { name: "lib", defaults: ["d"], srcs: ["lib.cc"], target: { android: { srcs: ["no.cc"] } } }
            "#,
        )]);
        assert_eq!(
            files(&tree.sources("lib", &linux()).unwrap()),
            [
                "base.cc",
                "base_linux.cc",
                "d.cc",
                "gen_arm.cc",
                "x64.S",
                "lib.cc"
            ]
            .map(|f| format!("art/runtime/{f}"))
        );
    }

    #[test]
    fn blocks_of_a_library_variant_apply_to_it_alone_and_the_last_flag_wins() {
        let tree = tree(&[(
            "Android.bp",
            r#"
            cc_defaults { name: "d", host_supported: true, static: { static_libs: ["s"] } }
            cc_library { name: "lib", defaults: ["d"], static_libs: ["own"], shared: { static_libs: ["top"] },
              target: { linux: { host_supported: false, shared: { static_libs: ["inner"] } } } }
            "#,
        )]);
        let of = |linkage| {
            let variation = Variation { linkage, ..linux() };
            tree.strings("lib", "static_libs", &variation).unwrap()
        };
        assert_eq!(of(None), ["own"]);
        assert_eq!(of(Some("static")), ["s", "own"]);
        assert_eq!(of(Some("shared")), ["own", "top", "inner"]);
        let flag = |variation| tree.flag("lib", "host_supported", &variation).unwrap();
        assert_eq!(flag(Variation::default()), Some(true));
        assert_eq!(flag(linux()), Some(false));
        assert_eq!(tree.flag("lib", "x", &linux()).unwrap(), None);
        assert!(tree.flag("lib", "static_libs", &linux()).is_err());
    }

    #[test]
    fn filegroups_of_other_folders_generated_outputs_and_exclusions() {
        let tree = tree(&[
            (
                "a/Android.bp",
                r#"filegroup { name: "group", srcs: ["x.java", ":inner", "drop.java"] }
                                filegroup { name: "inner", srcs: ["sub/y.java"] }
                                genrule { name: "gen", out: ["z.S"] }"#,
            ),
            (
                "b/Android.bp",
                r#"java_library { name: "lib", srcs: [":group", "own.java", ":gen", "bad.java", "own.java"],
                                  exclude_srcs: ["bad.java"] }"#,
            ),
        ]);
        assert_eq!(
            files(&tree.sources("lib", &linux()).unwrap()),
            [
                "a/x.java",
                "a/sub/y.java",
                "a/drop.java",
                "b/own.java",
                ":gen"
            ]
        );
    }

    #[test]
    fn missing_modules_cycles_duplicates_and_wrong_types_are_named() {
        let t = tree(&[(
            "Android.bp",
            "m { name: \"a\", srcs: [\":gone\"] }\n\nm { name: \"b\", srcs: \"x\" }",
        )]);
        let error = |name: &str| t.sources(name, &linux()).unwrap_err().to_string();
        assert_eq!(
            error("zzz"),
            "no module `zzz` in the loaded Android.bp files"
        );
        assert_eq!(
            error("a"),
            "no module `gone` in the loaded Android.bp files (needed by `a`)"
        );
        assert_eq!(
            error("b"),
            "Android.bp:3: `srcs` of module `b` is a string, not a list"
        );

        let t = tree(&[(
            "Android.bp",
            r#"m { name: "a", defaults: ["b"] } m { name: "b", defaults: ["a"] }
                        filegroup { name: "g", srcs: [":h"] } filegroup { name: "h", srcs: [":g"] }"#,
        )]);
        assert!(matches!(t.sources("a", &linux()), Err(Error::Cycle(_))));
        assert!(matches!(t.sources("g", &linux()), Err(Error::Cycle(_))));

        let mut t = tree(&[("one/Android.bp", "m { name: \"a\" }")]);
        let error = t
            .add(Path::new("two/Android.bp"), "\nm { name: \"a\" }")
            .unwrap_err();
        assert_eq!(
            error.to_string(),
            "two/Android.bp:2: module `a` is also defined in one/Android.bp"
        );
    }
}
