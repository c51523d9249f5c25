// SPDX-License-Identifier: Apache-2.0
//! Questions about syntax trees.

use proc_macro2::{Ident, TokenStream, TokenTree};
use syn::{Attribute, Item, Meta, UseTree};

/// An imported name, with the path to its item.
pub(super) struct Import {
    /// None for `*`.
    pub(super) name: Option<String>,
    pub(super) path: Vec<String>,
    pub(super) line: usize,
}

/// All names that a `use` declaration brings. Paths that begin with `::` lead to other crates and are left out.
pub(super) fn imports(item: &syn::ItemUse) -> Vec<Import> {
    let mut found = Vec::new();
    if item.leading_colon.is_none() {
        walk(&item.tree, &mut Vec::new(), &mut found);
    }
    found
}

fn walk(tree: &UseTree, path: &mut Vec<String>, found: &mut Vec<Import>) {
    let mut add = |name: Option<&Ident>, last: Option<&Ident>, line: usize| {
        let mut full = path.clone();
        full.extend(last.map(text).filter(|last| last != "self"));
        found.push(Import {
            name: name.map(|name| match text(name) {
                name if name == "self" => full.last().cloned().unwrap_or(name),
                name => name,
            }),
            path: full,
            line,
        });
    };
    match tree {
        UseTree::Path(part) => {
            path.push(text(&part.ident));
            walk(&part.tree, path, found);
            path.pop();
        }
        UseTree::Name(name) => add(Some(&name.ident), Some(&name.ident), line(&name.ident)),
        UseTree::Rename(name) => add(Some(&name.rename), Some(&name.ident), line(&name.ident)),
        UseTree::Glob(glob) => add(None, None, glob.star_token.spans[0].start().line),
        UseTree::Group(group) => group.items.iter().for_each(|tree| walk(tree, path, found)),
    }
}

/// An identifier without `r#`.
pub(super) fn text(ident: &Ident) -> String {
    let text = ident.to_string();
    text.strip_prefix("r#").map(str::to_owned).unwrap_or(text)
}

pub(super) fn line(ident: &Ident) -> usize {
    ident.span().start().line
}

/// Whether the attributes restrict an item to tests.
pub(super) fn only_in_tests(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        attribute.path().is_ident("test")
            || (attribute.path().is_ident("cfg")
                && matches!(&attribute.meta, Meta::List(list) if needs_test(list.tokens.clone())))
    })
}

/// Whether a `cfg` predicate holds in tests only.
fn needs_test(predicate: TokenStream) -> bool {
    let tokens: Vec<TokenTree> = predicate.into_iter().collect();
    match &tokens[..] {
        [TokenTree::Ident(word)] => word == "test",
        [TokenTree::Ident(word), TokenTree::Group(group), ..] => {
            let tokens: Vec<TokenTree> = group.stream().into_iter().collect();
            let comma = |token: &TokenTree| matches!(token, TokenTree::Punct(comma) if comma.as_char() == ',');
            let mut parts = tokens
                .split(comma)
                .filter(|part| !part.is_empty())
                .map(|part| part.iter().cloned().collect())
                .peekable();
            match word.to_string().as_str() {
                "all" => parts.any(needs_test),
                "any" => parts.peek().is_some() && parts.all(needs_test),
                _ => false,
            }
        }
        _ => false,
    }
}

/// The attributes and the names of an item; a block of foreign items has more than one name.
pub(super) fn describe(item: &Item) -> (&[Attribute], Vec<&Ident>) {
    match item {
        Item::Const(item) => (&item.attrs, vec![&item.ident]),
        Item::Enum(item) => (&item.attrs, vec![&item.ident]),
        Item::ExternCrate(item) => (&item.attrs, Vec::new()),
        Item::Fn(item) => (&item.attrs, vec![&item.sig.ident]),
        Item::ForeignMod(block) => (
            &block.attrs,
            block.items.iter().filter_map(foreign).collect(),
        ),
        Item::Impl(item) => (&item.attrs, Vec::new()),
        Item::Macro(item) => (&item.attrs, item.ident.iter().collect()),
        Item::Mod(item) => (&item.attrs, vec![&item.ident]),
        Item::Static(item) => (&item.attrs, vec![&item.ident]),
        Item::Struct(item) => (&item.attrs, vec![&item.ident]),
        Item::Trait(item) => (&item.attrs, vec![&item.ident]),
        Item::TraitAlias(item) => (&item.attrs, vec![&item.ident]),
        Item::Type(item) => (&item.attrs, vec![&item.ident]),
        Item::Union(item) => (&item.attrs, vec![&item.ident]),
        Item::Use(item) => (&item.attrs, Vec::new()),
        _ => (&[], Vec::new()),
    }
}

fn foreign(item: &syn::ForeignItem) -> Option<&Ident> {
    match item {
        syn::ForeignItem::Fn(item) => Some(&item.sig.ident),
        syn::ForeignItem::Static(item) => Some(&item.ident),
        syn::ForeignItem::Type(item) => Some(&item.ident),
        _ => None,
    }
}

/// A path in tokens that are not parsed: the input of a macro or an attribute.
pub(super) struct TokenPath {
    pub(super) path: Vec<String>,
    pub(super) line: usize,
}

/// Finds everything with the form of a path to an item: names joined by `::`, a called name, a capitalized name.
pub(super) fn paths_in(tokens: TokenStream, found: &mut Vec<TokenPath>) {
    let tokens: Vec<TokenTree> = tokens.into_iter().collect();
    let is = |at: usize, wanted: char| matches!(tokens.get(at), Some(TokenTree::Punct(punct)) if punct.as_char() == wanted);
    let mut at = 0;
    while at < tokens.len() {
        match &tokens[at] {
            TokenTree::Group(group) => {
                paths_in(group.stream(), found);
                at += 1;
            }
            TokenTree::Ident(first) => {
                let begin = at;
                let mut path = vec![text(first)];
                at += 1;
                while is(at, ':') && is(at + 1, ':') {
                    let Some(TokenTree::Ident(name)) = tokens.get(at + 2) else {
                        break;
                    };
                    path.push(text(name));
                    at += 3;
                }
                let after =
                    |offset: usize, wanted: char| begin >= offset && is(begin - offset, wanted);
                // A field or method, a lifetime, a path to another crate.
                let other = after(1, '.') || after(1, '\'') || (after(1, ':') && after(2, ':'));
                let called = match tokens.get(at) {
                    Some(TokenTree::Group(_)) => true,
                    _ => is(at, '!'),
                };
                let capital = path[0].starts_with(|c: char| c.is_ascii_uppercase());
                if !other && (path.len() > 1 || called || capital) {
                    found.push(TokenPath {
                        path,
                        line: line(first),
                    });
                }
            }
            _ => at += 1,
        }
    }
}
