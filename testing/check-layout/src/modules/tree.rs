// SPDX-License-Identifier: Apache-2.0
//! The modules of a crate, read from its files.

use std::collections::HashMap;
use std::path::Path;

use anyhow::{anyhow, Context as _, Result};
use syn::{Expr, ExprLit, Item, Lit, Meta, Visibility};

use super::syntax::{describe, imports, only_in_tests, text};

/// All modules of a library or program; the first is the root.
pub(super) struct Crate {
    pub(super) modules: Vec<Module>,
    /// The modules that define a macro.
    pub(super) macros: HashMap<String, Vec<usize>>,
}

/// A module, without the parts that only tests compile.
pub(super) struct Module {
    /// `crate::parent::child`.
    pub(super) name: String,
    /// Path in the checkout.
    pub(super) file: String,
    pub(super) parent: Option<usize>,
    /// The module that it counts as: itself, or for a bridge to C++, which names its parent's functions, the parent.
    pub(super) node: usize,
    /// Everything but child modules.
    pub(super) items: Vec<Item>,
    pub(super) names: HashMap<String, Vec<Binding>>,
    /// Paths of `use path::*`.
    pub(super) globs: Vec<Vec<String>>,
}

/// The meaning of a name in a module. A name can have several, of which `cfg` or the kind of use chooses.
pub(super) enum Binding {
    Module(usize),
    /// Defined here.
    Item,
    /// A path, seen from this module.
    Import(Vec<String>),
}

/// Where the files of child modules are, seen from the checkout.
#[derive(Clone)]
struct Place {
    file: String,
    folder: String,
}

impl Crate {
    /// Reads a crate from the file of its root module.
    pub(super) fn load(checkout: &Path, root: &str) -> Result<Self> {
        let mut krate = Self {
            modules: Vec::new(),
            macros: HashMap::new(),
        };
        let items = parse(checkout, root)?;
        let place = Place {
            file: root.to_owned(),
            folder: folder_of(root),
        };
        krate.add(checkout, "crate".to_owned(), None, false, items, &place)?;
        Ok(krate)
    }

    /// The number of modules that count.
    pub(super) fn nodes(&self) -> usize {
        let counts = |(index, module): (usize, &Module)| usize::from(index == module.node);
        self.modules.iter().enumerate().map(counts).sum()
    }

    fn add(
        &mut self,
        checkout: &Path,
        name: String,
        parent: Option<usize>,
        bridge: bool,
        items: Vec<Item>,
        place: &Place,
    ) -> Result<usize> {
        let index = self.modules.len();
        self.modules.push(Module {
            name,
            file: place.file.clone(),
            parent,
            node: match parent {
                Some(parent) if bridge => self.modules[parent].node,
                _ => index,
            },
            items: Vec::new(),
            names: HashMap::new(),
            globs: Vec::new(),
        });
        for item in items {
            let (attributes, names) = describe(&item);
            if only_in_tests(attributes) {
                continue;
            }
            let names: Vec<String> = names.into_iter().map(text).collect();
            if let Item::Mod(module) = item {
                let child = self.add_child(checkout, index, module, place)?;
                for name in names {
                    self.bind(index, name, Binding::Module(child));
                }
                continue;
            }
            if let Item::Macro(_) = item {
                for name in &names {
                    self.macros.entry(name.clone()).or_default().push(index);
                }
            }
            for name in names {
                self.bind(index, name, Binding::Item);
            }
            if let Item::Use(declaration) = &item {
                for import in imports(declaration) {
                    match import.name {
                        Some(name) => self.bind(index, name, Binding::Import(import.path)),
                        None => self.modules[index].globs.push(import.path),
                    }
                }
            }
            self.modules[index].items.push(item);
        }
        Ok(index)
    }

    fn bind(&mut self, module: usize, name: String, binding: Binding) {
        self.modules[module]
            .names
            .entry(name)
            .or_default()
            .push(binding);
    }

    fn add_child(
        &mut self,
        checkout: &Path,
        parent: usize,
        module: syn::ItemMod,
        place: &Place,
    ) -> Result<usize> {
        let name = text(&module.ident);
        let full_name = format!("{}::{name}", self.modules[parent].name);
        if let Some((_, items)) = module.content {
            let bridge = module.attrs.iter().any(|attribute| {
                let last = attribute.path().segments.last();
                last.is_some_and(|last| last.ident == "bridge")
            });
            let place = Place {
                file: place.file.clone(),
                folder: format!("{}/{name}", place.folder),
            };
            return self.add(checkout, full_name, Some(parent), bridge, items, &place);
        }
        let place = match path_attribute(&module.attrs) {
            // Relative to the folder of the file; the file's children are beside it.
            Some(path) => {
                let file = format!("{}/{path}", parent_of(&place.file));
                let folder = parent_of(&file).to_owned();
                Place { file, folder }
            }
            None => {
                let folder = format!("{}/{name}", place.folder);
                let candidates = [format!("{folder}.rs"), format!("{folder}/mod.rs")];
                let file = candidates
                    .into_iter()
                    .find(|file| checkout.join(file).is_file())
                    .ok_or_else(|| anyhow!("{}: no file of module {name}", place.file))?;
                Place { file, folder }
            }
        };
        let items = parse(checkout, &place.file)?;
        self.add(checkout, full_name, Some(parent), false, items, &place)
    }
}

fn parse(checkout: &Path, file: &str) -> Result<Vec<Item>> {
    let text = std::fs::read_to_string(checkout.join(file))
        .with_context(|| format!("cannot read {file}"))?;
    let parsed = syn::parse_file(&text);
    let parsed =
        parsed.map_err(|error| anyhow!("{file}:{}: {error}", error.span().start().line))?;
    Ok(parsed.items)
}

fn path_attribute(attributes: &[syn::Attribute]) -> Option<String> {
    attributes
        .iter()
        .find_map(|attribute| match &attribute.meta {
            Meta::NameValue(pair) if pair.path.is_ident("path") => match &pair.value {
                Expr::Lit(ExprLit {
                    lit: Lit::Str(path),
                    ..
                }) => Some(path.value()),
                _ => None,
            },
            _ => None,
        })
}

fn parent_of(file: &str) -> &str {
    file.rsplit_once('/').map_or(".", |(folder, _)| folder)
}

/// The folder of the children of a root module.
fn folder_of(root: &str) -> String {
    parent_of(root).to_owned()
}

/// Whether a `use` only passes names on.
pub(super) fn is_re_export(visibility: &Visibility) -> bool {
    !matches!(visibility, Visibility::Inherited)
}
