// SPDX-License-Identifier: Apache-2.0
//! The uses of items of other modules.

use std::collections::{BTreeMap, HashMap, HashSet};

use proc_macro2::TokenStream;
use syn::visit::{self, Visit};
use syn::{Attribute, Expr, ImplItem, Item, Type};

use super::resolve::Target;
use super::syntax::{describe, imports, line, only_in_tests, paths_in, text, TokenPath};
use super::tree::{is_re_export, Crate};

/// A use of an item.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Use {
    pub(super) file: String,
    pub(super) line: usize,
    pub(super) item: String,
}

/// From the using to the defining module, with all uses.
pub(super) type Edges = BTreeMap<(usize, usize), Vec<Use>>;

/// Modules with inherent `impl` blocks, by the type's module and name and the function's name.
type Functions = HashMap<(usize, String, String), Vec<usize>>;

pub(super) fn edges(krate: &Crate) -> Edges {
    let functions = inherent_functions(krate);
    let mut edges = Edges::new();
    for module in 0..krate.modules.len() {
        let mut visitor = Visitor {
            krate,
            functions: &functions,
            module,
            scopes: Vec::new(),
            variables: HashSet::new(),
            self_type: None,
            edges: &mut edges,
        };
        for item in &krate.modules[module].items {
            visitor.visit_item(item);
        }
    }
    for uses in edges.values_mut() {
        uses.sort();
        uses.dedup();
    }
    edges
}

fn inherent_functions(krate: &Crate) -> Functions {
    let mut functions = Functions::new();
    for (index, module) in krate.modules.iter().enumerate() {
        for item in &module.items {
            let Item::Impl(block) = item else { continue };
            let Some((owner, name)) = self_type(krate, index, block) else {
                continue;
            };
            if block.trait_.is_some() {
                continue;
            }
            for member in &block.items {
                let ident = match member {
                    ImplItem::Fn(member) if !only_in_tests(&member.attrs) => &member.sig.ident,
                    ImplItem::Const(member) if !only_in_tests(&member.attrs) => &member.ident,
                    _ => continue,
                };
                functions
                    .entry((owner, name.clone(), text(ident)))
                    .or_default()
                    .push(index);
            }
        }
    }
    functions
}

/// The type of this crate that an `impl` block belongs to.
fn self_type(krate: &Crate, module: usize, block: &syn::ItemImpl) -> Option<(usize, String)> {
    let Type::Path(path) = &*block.self_ty else {
        return None;
    };
    let path: Vec<String> = path
        .path
        .segments
        .iter()
        .map(|part| text(&part.ident))
        .collect();
    match krate.resolve(module, &path).into_iter().next()? {
        Target::Item { module, name, .. } => Some((module, name)),
        Target::Module(_) => None,
    }
}

struct Visitor<'a> {
    krate: &'a Crate,
    functions: &'a Functions,
    module: usize,
    /// Names that `use` in the bodies of functions brings.
    scopes: Vec<HashMap<String, Vec<String>>>,
    /// Names that the current function binds to values.
    variables: HashSet<String>,
    self_type: Option<(usize, String)>,
    edges: &'a mut Edges,
}

impl Visitor<'_> {
    fn note(&mut self, path: &[String], line: usize) {
        let Some(first) = path.first() else { return };
        if first == "Self" || (path.len() == 1 && self.variables.contains(first)) {
            return;
        }
        let local = self.scopes.iter().rev().find_map(|scope| scope.get(first));
        let full: Vec<String> = match local {
            Some(import) => import.iter().chain(&path[1..]).cloned().collect(),
            None => path.to_vec(),
        };
        for target in self.krate.resolve(self.module, &full) {
            let Target::Item {
                module,
                name,
                member,
            } = target
            else {
                continue;
            };
            self.add(module, &name, line);
            if let Some(member) = member {
                self.note_function(module, &name, &member, line);
            }
        }
    }

    /// The use of an inherent function, which need not be in the type's module.
    fn note_function(&mut self, owner: usize, name: &str, function: &str, line: usize) {
        let key = (owner, name.to_owned(), function.to_owned());
        let modules = self.functions.get(&key).cloned().unwrap_or_default();
        if !modules.contains(&self.module) {
            for module in modules {
                self.add(module, &format!("{name}::{function}"), line);
            }
        }
    }

    fn note_macro(&mut self, name: &str, line: usize) {
        let defined = self.krate.macros.get(name).cloned().unwrap_or_default();
        if !defined.contains(&self.module) {
            for module in defined {
                self.add(module, &format!("{name}!"), line);
            }
        }
    }

    fn add(&mut self, defining: usize, item: &str, line: usize) {
        let modules = &self.krate.modules;
        let (from, to) = (modules[self.module].node, modules[defining].node);
        if from != to {
            self.edges.entry((from, to)).or_default().push(Use {
                file: modules[self.module].file.clone(),
                line,
                item: format!("{}::{item}", modules[defining].name),
            });
        }
    }

    fn note_tokens(&mut self, tokens: TokenStream) {
        let mut found = Vec::new();
        paths_in(tokens, &mut found);
        for TokenPath { path, line } in found {
            if let [name] = &path[..] {
                self.note_macro(name, line);
            }
            self.note(&path, line);
        }
    }

    /// Visits a function, whose variables hide items of the same name.
    fn in_function(&mut self, visit: impl FnOnce(&mut Self), collect: impl FnOnce(&mut Variables)) {
        let mut variables = Variables(self.variables.clone());
        collect(&mut variables);
        let outer = std::mem::replace(&mut self.variables, variables.0);
        visit(self);
        self.variables = outer;
    }
}

impl<'ast> Visit<'ast> for Visitor<'_> {
    fn visit_item(&mut self, item: &'ast Item) {
        if !only_in_tests(describe(item).0) {
            visit::visit_item(self, item);
        }
    }

    fn visit_item_use(&mut self, item: &'ast syn::ItemUse) {
        for import in imports(item) {
            if let (Some(name), Some(scope)) = (&import.name, self.scopes.last_mut()) {
                scope.insert(name.clone(), import.path.clone());
            }
            if !is_re_export(&item.vis) {
                self.note(&import.path, import.line);
            }
        }
    }

    fn visit_block(&mut self, block: &'ast syn::Block) {
        self.scopes.push(HashMap::new());
        visit::visit_block(self, block);
        self.scopes.pop();
    }

    fn visit_item_impl(&mut self, block: &'ast syn::ItemImpl) {
        let outer = std::mem::replace(
            &mut self.self_type,
            self_type(self.krate, self.module, block),
        );
        visit::visit_item_impl(self, block);
        self.self_type = outer;
    }

    fn visit_item_fn(&mut self, function: &'ast syn::ItemFn) {
        self.in_function(
            |visitor| visit::visit_item_fn(visitor, function),
            |variables| variables.visit_item_fn(function),
        );
    }

    fn visit_impl_item_fn(&mut self, function: &'ast syn::ImplItemFn) {
        if !only_in_tests(&function.attrs) {
            self.in_function(
                |visitor| visit::visit_impl_item_fn(visitor, function),
                |variables| variables.visit_impl_item_fn(function),
            );
        }
    }

    fn visit_trait_item_fn(&mut self, function: &'ast syn::TraitItemFn) {
        if !only_in_tests(&function.attrs) {
            self.in_function(
                |visitor| visit::visit_trait_item_fn(visitor, function),
                |variables| variables.visit_trait_item_fn(function),
            );
        }
    }

    fn visit_field(&mut self, field: &'ast syn::Field) {
        if !only_in_tests(&field.attrs) {
            visit::visit_field(self, field);
        }
    }

    fn visit_local(&mut self, local: &'ast syn::Local) {
        if !only_in_tests(&local.attrs) {
            visit::visit_local(self, local);
        }
    }

    fn visit_expr_method_call(&mut self, call: &'ast syn::ExprMethodCall) {
        if let (Expr::Path(receiver), Some((owner, name))) =
            (&*call.receiver, self.self_type.clone())
        {
            if receiver.path.is_ident("self") {
                self.note_function(owner, &name, &text(&call.method), line(&call.method));
            }
        }
        visit::visit_expr_method_call(self, call);
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        if let (None, Some(first)) = (path.leading_colon, path.segments.first()) {
            let names: Vec<String> = path.segments.iter().map(|part| text(&part.ident)).collect();
            self.note(&names, line(&first.ident));
            if let ("Self", Some(member), Some((owner, name))) =
                (names[0].as_str(), names.get(1), self.self_type.clone())
            {
                self.note_function(owner, &name, member, line(&first.ident));
            }
        }
        visit::visit_path(self, path);
    }

    /// `pub(in path)` names no item.
    fn visit_visibility(&mut self, _: &'ast syn::Visibility) {}

    fn visit_macro(&mut self, invocation: &'ast syn::Macro) {
        if let Some(name) = invocation.path.get_ident() {
            self.note_macro(&text(name), line(name));
        }
        visit::visit_macro(self, invocation);
        self.note_tokens(invocation.tokens.clone());
    }

    /// Attributes name items in their arguments: `#[serde(with = "module")]`.
    fn visit_attribute(&mut self, attribute: &'ast Attribute) {
        let syn::Meta::List(list) = &attribute.meta else {
            return;
        };
        if ["cfg", "derive", "allow", "expect", "doc"]
            .iter()
            .any(|name| list.path.is_ident(name))
        {
            return;
        }
        self.note_tokens(list.tokens.clone());
        if list.path.is_ident("serde") {
            for token in list.tokens.clone() {
                let proc_macro2::TokenTree::Literal(literal) = token else {
                    continue;
                };
                let text = literal.to_string();
                let path: Vec<String> = text
                    .trim_matches('"')
                    .split("::")
                    .map(str::to_owned)
                    .collect();
                self.note(&path, literal.span().start().line);
            }
        }
    }
}

/// Collects the names that patterns bind.
struct Variables(HashSet<String>);

impl<'ast> Visit<'ast> for Variables {
    fn visit_pat_ident(&mut self, pattern: &'ast syn::PatIdent) {
        let name = text(&pattern.ident);
        // A name in capitals is a constant or a unit struct that is matched.
        if !name.starts_with(|c: char| c.is_ascii_uppercase()) {
            self.0.insert(name);
        }
        visit::visit_pat_ident(self, pattern);
    }
}
