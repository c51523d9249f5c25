// SPDX-License-Identifier: Apache-2.0
//! Links between Markdown files, and paths of the checkout that text names.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use anyhow::Result;
use pulldown_cmark::{Event, Options, Parser, Tag, TagEnd};
use regex_lite::Regex;

use crate::problem::Problem;
use crate::text::File;

/// A file with planted dead links.
const PLANTED: &str = "testing/check-layout/src/tests.rs";
/// A file about the past: its paths need not exist any more, its links must.
const HISTORY: &str = "CHANGELOG.md";

/// Finds links of Markdown files and paths in text that lead nowhere.
pub(crate) fn check(files: &[File]) -> Result<Vec<Problem>> {
    let tree = Tree::new(files);
    let documents: BTreeMap<&str, Document> = files
        .iter()
        .filter(|file| file.path.ends_with(".md"))
        .filter_map(|file| Some((file.path.as_str(), Document::parse(file.text.as_ref()?))))
        .collect();
    let mut problems = Vec::new();
    for (path, document) in &documents {
        for (line, target) in &document.links {
            let fault = dead_link(path, target, &tree, &documents);
            problems.extend(fault.map(|what| Problem::new(*path, *line, what)));
        }
        if *path == HISTORY {
            continue;
        }
        for (line, code) in &document.codes {
            problems.extend(
                tree.missing(code)
                    .map(|what| Problem::new(*path, *line, what)),
            );
        }
    }
    // In other text, of comments and messages: quoted paths, and names of documents.
    let quoted = Regex::new(r"`([^`\s]+/[^`\s]*)`")?;
    let named = Regex::new(r"(?:^|[^A-Za-z0-9_./-])(docs/[A-Za-z0-9_-]+\.md)")?;
    for file in files {
        let others = [".md", ".patch", ".snap", ".lock", ".json"];
        let Some(text) = &file.text else { continue };
        if file.path == PLANTED || others.iter().any(|end| file.path.ends_with(end)) {
            continue;
        }
        for (index, line) in text.lines().enumerate() {
            if !line.contains('`') && !line.contains("docs/") {
                continue;
            }
            let names: BTreeSet<&str> = [&quoted, &named]
                .iter()
                .flat_map(|expression| expression.captures_iter(line))
                .filter_map(|found| Some(found.get(1)?.as_str()))
                .collect();
            for name in names {
                let fault = tree.missing(name);
                problems.extend(fault.map(|what| Problem::new(&file.path, index + 1, what)));
            }
        }
    }
    Ok(problems)
}

/// Files and folders of the checkout.
struct Tree<'a> {
    paths: BTreeSet<&'a str>,
    top_folders: BTreeSet<&'a str>,
}

impl<'a> Tree<'a> {
    fn new(files: &'a [File]) -> Self {
        let mut paths = BTreeSet::new();
        let mut top_folders = BTreeSet::new();
        for file in files {
            paths.insert(file.path.as_str());
            for (at, _) in file.path.match_indices('/') {
                paths.insert(&file.path[..at]);
            }
            if let Some((top, _)) = file.path.split_once('/') {
                top_folders.insert(top);
            }
        }
        Self { paths, top_folders }
    }

    fn has(&self, path: &str) -> bool {
        self.paths.contains(path.trim_end_matches('/'))
    }

    /// The fault of a text that looks like a path of the checkout but is none.
    fn missing(&self, text: &str) -> Option<String> {
        // `file.rs:12` names a line.
        let path = match text.rsplit_once(':') {
            Some((path, line)) if line.parse::<u32>().is_ok() => path,
            _ => text,
        };
        let plain = |c: char| c.is_ascii_alphanumeric() || "._-/".contains(c);
        let (top, rest) = path.split_once('/')?;
        // `NN` stands for a number of a release.
        let pattern = rest.is_empty()
            || path.contains("NN")
            || path.contains("..")
            || !path.chars().all(plain);
        if !self.top_folders.contains(top) || pattern || self.has(path) {
            return None;
        }
        Some(format!(
            "`{path}` is not in the checkout: name its new place, or take it out"
        ))
    }
}

/// Links, headings and inline code of a Markdown file, with the lines where they start.
struct Document {
    links: Vec<(usize, String)>,
    codes: Vec<(usize, String)>,
    anchors: BTreeSet<String>,
}

impl Document {
    fn parse(text: &str) -> Self {
        let mut document = Self {
            links: Vec::new(),
            codes: Vec::new(),
            anchors: BTreeSet::new(),
        };
        let mut used: HashMap<String, usize> = HashMap::new();
        let mut heading: Option<String> = None;
        let options = Options::ENABLE_TABLES | Options::ENABLE_FOOTNOTES;
        for (event, range) in Parser::new_ext(text, options).into_offset_iter() {
            let line = 1 + text[..range.start].matches('\n').count();
            match event {
                Event::Start(Tag::Link { dest_url, .. } | Tag::Image { dest_url, .. }) => {
                    document.links.push((line, dest_url.into_string()));
                }
                Event::Start(Tag::Heading { .. }) => heading = Some(String::new()),
                Event::End(TagEnd::Heading(_)) => {
                    let slug = slug(&heading.take().unwrap_or_default());
                    let times = used.entry(slug.clone()).or_default();
                    document.anchors.insert(match *times {
                        0 => slug,
                        times => format!("{slug}-{times}"),
                    });
                    *times += 1;
                }
                Event::Code(code) => {
                    if let Some(heading) = &mut heading {
                        heading.push_str(&code);
                    }
                    document.codes.push((line, code.into_string()));
                }
                Event::Text(words) => {
                    if let Some(heading) = &mut heading {
                        heading.push_str(&words);
                    }
                }
                _ => {}
            }
        }
        document
    }
}

/// GitHub's anchor of a heading.
fn slug(heading: &str) -> String {
    heading
        .chars()
        .flat_map(char::to_lowercase)
        .filter_map(|c| match c {
            ' ' => Some('-'),
            c if c.is_alphanumeric() || c == '-' || c == '_' => Some(c),
            _ => None,
        })
        .collect()
}

fn dead_link(
    from: &str,
    target: &str,
    tree: &Tree<'_>,
    documents: &BTreeMap<&str, Document>,
) -> Option<String> {
    if target.contains("://") || target.starts_with("mailto:") {
        return None;
    }
    let (path, anchor) = target.split_once('#').unwrap_or((target, ""));
    let to = if path.is_empty() {
        from.to_owned()
    } else {
        resolve(from, path)
    };
    if !to.is_empty() && !tree.has(&to) {
        return Some(format!(
            "the link to {target} is dead, there is no {to}: correct or remove it"
        ));
    }
    let headings = documents.get(to.as_str())?;
    if anchor.is_empty() || headings.anchors.contains(anchor) {
        return None;
    }
    Some(format!(
        "the link to {target} is dead, {to} has no heading #{anchor}: correct or remove it"
    ))
}

/// The path in the checkout that a relative link of a document means.
fn resolve(from: &str, link: &str) -> String {
    let mut parts: Vec<&str> = from.split('/').collect();
    parts.pop();
    for part in link.split('/') {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop()),
            name => parts.push(name),
        }
    }
    parts.join("/")
}
