// SPDX-License-Identifier: Apache-2.0
//! The local manifests of `manifests/`, which pin the projects that are patched.

use anyhow::{anyhow, bail, Context, Result};
use std::path::{Component, Path};

/// A project of the tree that has patches.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pinned {
    /// Its name at the remote, `platform/art`.
    pub name: String,
    /// Where it is in the tree, `frameworks/base`.
    pub path: String,
    /// The tag that the patches are made for, without `refs/tags/`.
    pub tag: String,
}

impl Pinned {
    /// The folder of its patches: the path with `_` for `/`.
    pub fn folder(&self) -> String {
        self.path.replace('/', "_")
    }
}

/// The elements that a local manifest of ours may use, with their attributes, the required ones marked with
/// `!`. A part of repo's documented format (manifest-format.md of repo 2.31).
const FORMAT: [(&str, &[&str]); 6] = [
    (
        "remote",
        &["name!", "alias", "fetch!", "pushurl", "review", "revision"],
    ),
    (
        "project",
        &[
            "name!",
            "path",
            "remote",
            "revision",
            "dest-branch",
            "groups",
            "sync-c",
            "sync-s",
            "sync-tags",
            "upstream",
            "clone-depth",
            "force-path",
        ],
    ),
    (
        "extend-project",
        &[
            "name!",
            "path",
            "dest-path",
            "groups",
            "revision",
            "remote",
            "dest-branch",
            "upstream",
        ],
    ),
    ("remove-project", &["name!", "optional"]),
    ("copyfile", &["src!", "dest!"]),
    ("linkfile", &["src!", "dest!"]),
];

/// Reads a local manifest.
///
/// # Errors
/// If the file can't be read or isn't one; with its line.
pub fn load(path: &Path) -> Result<Vec<Pinned>> {
    let text =
        std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
    parse(&text).map_err(|error| anyhow!("{}: {error}", path.display()))
}

/// Reads the text of a local manifest, strictly: repo ignores what it doesn't know, so a misspelt
/// attribute would silently pin nothing.
///
/// # Errors
/// See [`load`].
pub fn parse(text: &str) -> Result<Vec<Pinned>> {
    let document = roxmltree::Document::parse(text)?;
    let line = |node: roxmltree::Node<'_, '_>| document.text_pos_at(node.range().start).row;
    let root = document.root_element();
    if root.tag_name().name() != "manifest" {
        bail!(
            "line {}: <{}> instead of <manifest>",
            line(root),
            root.tag_name().name()
        );
    }
    let mut pinned: Vec<Pinned> = Vec::new();
    for node in root
        .descendants()
        .filter(|node| node.is_element() && *node != root)
    {
        let element = node.tag_name().name();
        let Some((_, attributes)) = FORMAT.iter().find(|(name, _)| *name == element) else {
            bail!(
                "line {}: <{element}> does not belong into a local manifest of ours",
                line(node)
            );
        };
        for attribute in node.attributes() {
            if !attributes
                .iter()
                .any(|known| known.trim_end_matches('!') == attribute.name())
            {
                bail!(
                    "line {}: <{element}> has no attribute '{}'",
                    line(node),
                    attribute.name()
                );
            }
        }
        for required in attributes.iter().filter_map(|name| name.strip_suffix('!')) {
            if node.attribute(required).is_none_or(str::is_empty) {
                bail!("line {}: <{element}> needs '{required}'", line(node));
            }
        }
        for path in ["path", "dest-path", "src", "dest"]
            .into_iter()
            .filter_map(|name| node.attribute(name))
        {
            check_path(path).with_context(|| format!("line {}: '{path}'", line(node)))?;
        }
        if element != "extend-project" {
            continue;
        }
        let (Some(name), Some(path), Some(revision)) = (
            node.attribute("name"),
            node.attribute("path"),
            node.attribute("revision"),
        ) else {
            bail!(
                "line {}: <extend-project> needs 'path' and 'revision' to pin a project",
                line(node)
            );
        };
        let Some(tag) = revision.strip_prefix("refs/tags/") else {
            bail!("line {}: '{revision}' is no tag (refs/tags/…)", line(node));
        };
        if pinned.iter().any(|other| other.path == path) {
            bail!("line {}: {path} is pinned twice", line(node));
        }
        pinned.push(Pinned {
            name: name.to_owned(),
            path: path.to_owned(),
            tag: tag.to_owned(),
        });
    }
    if pinned.is_empty() {
        bail!("pins no project");
    }
    Ok(pinned)
}

/// Paths stay inside the tree, as repo requires.
fn check_path(path: &str) -> Result<()> {
    let fine = !path.is_empty()
        && !path.ends_with('/')
        && Path::new(path)
            .components()
            .all(|c| matches!(c, Component::Normal(_)))
        && !path
            .split('/')
            .any(|part| part == ".git" || part == ".repo" || part == "." || part.is_empty());
    if !fine {
        bail!("not a plain path inside the tree");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(body: &str) -> String {
        format!(
            "{:#}",
            parse(&format!("<manifest>\n{body}\n</manifest>")).unwrap_err()
        )
    }

    #[test]
    fn mistakes_are_named_with_their_line() {
        let good = r#"<extend-project name="platform/art" path="art" revision="refs/tags/t"/>"#;
        assert_eq!(
            parse(&format!("<manifest>{good}</manifest>")).unwrap(),
            [Pinned {
                name: "platform/art".into(),
                path: "art".into(),
                tag: "t".into()
            }]
        );
        assert!(error("").contains("pins no project"));
        assert!(error(&format!("{good}{good}")).contains("line 2: art is pinned twice"));
        assert!(error(&good.replace("revision", "revison")).contains("no attribute 'revison'"));
        assert!(error(&good.replace("refs/tags/t", "main")).contains("no tag"));
        assert!(error(&good.replace("\"art\"", "\"../art\"")).contains("not a plain path"));
        assert!(error(&good.replace("extend-project", "extends")).contains("does not belong"));
        assert!(error("<project path=\"a\"/>").contains("needs 'name'"));
        // The line is the parser's.
        assert!(
            error("<project name=").contains("3:"),
            "{}",
            error("<project name=")
        );
    }

    #[test]
    fn patches_of_a_project_are_in_the_folder_of_its_path() {
        let pinned = Pinned {
            name: "n".into(),
            path: "frameworks/base".into(),
            tag: "t".into(),
        };
        assert_eq!(pinned.folder(), "frameworks_base");
    }
}
