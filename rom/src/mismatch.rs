// SPDX-License-Identifier: Apache-2.0
//! Explains why a patch does not apply: which hunks, and where upstream has their lines now.

use crate::locate::{locate, Place};
use crate::manifest::Pinned;
use crate::patch::Patch;
use anyhow::Result;

/// Reads a path of the scratch index: whether it is there, its text, and git's error message.
pub(crate) type Blob<'a> = dyn Fn(&str) -> Result<(bool, String, String)> + 'a;

/// Says which hunks of a patch don't apply to `project`, where their lines are now, and what to do.
///
/// `said` is what git said, `files` lists the files of the scratch index.
pub(crate) fn explain(
    project: &Pinned,
    patch: &Patch,
    said: &str,
    blob: &Blob<'_>,
    files: &str,
) -> String {
    let mut text = format!(
        "{} ('{}') does not apply to {}; nothing has been touched",
        patch.path.display(),
        patch.subject,
        project.path
    );
    // git names the first hunk of a file that fails, by its line, and stops there: it says nothing of the others.
    let failed: Vec<(&str, usize)> = said
        .lines()
        .filter_map(|line| line.strip_prefix("error: patch failed: ")?.rsplit_once(':'))
        .filter_map(|(file, line)| Some((file, line.parse().ok()?)))
        .collect();
    for file in &patch.files {
        let Some(path) = &file.old else {
            if let Some(new) = file
                .new
                .as_deref()
                .filter(|new| files.lines().any(|name| name == *new))
            {
                text += &format!("\n  {new}: is in the tree already");
            }
            continue;
        };
        let content = match blob(path) {
            Ok((true, content, _)) => content,
            _ => {
                let name = path.rsplit('/').next().unwrap_or(path);
                let others: Vec<&str> = files
                    .lines()
                    .filter(|other| other.rsplit('/').next() == Some(name))
                    .take(5)
                    .collect();
                text += &format!("\n  {path}: is not in the tree");
                if !others.is_empty() {
                    text += &format!("; of that name there is {}", others.join(", "));
                }
                continue;
            }
        };
        for (i, hunk) in file.hunks.iter().enumerate() {
            let place = locate(hunk, &content);
            let blamed = failed
                .iter()
                .any(|(f, line)| f == path && *line == hunk.start);
            // A hunk whose lines have only moved applies, unless git says otherwise.
            if blamed || !matches!(place, Place::Exact { .. }) {
                text += &format!("\n  {path}: hunk {} (line {}): {place}", i + 1, hunk.start);
            }
        }
    }
    for line in said.lines().filter(|line| line.starts_with("error: ")) {
        text += &format!("\n  git: {}", &line["error: ".len()..]);
    }
    text + &format!(
        "\n  Every line of context must match. Check out the tag {} in {}, or correct the patch and run \
         'cargo xtask patches check'",
        project.tag, project.path
    )
}
