// SPDX-License-Identifier: Apache-2.0
//! Patches in git's format, read for their hunks and their footprint. Applying is git's job.

use anyhow::{anyhow, bail, Context, Result};
use std::path::{Path, PathBuf};

/// A patch file.
#[derive(Clone, Debug)]
pub struct Patch {
    /// The file's path.
    pub path: PathBuf,
    /// The subject of its message, without `[PATCH]`.
    pub subject: String,
    /// The files that it changes, in its order.
    pub files: Vec<FileChange>,
}

/// The change of one file.
#[derive(Clone, Debug)]
pub struct FileChange {
    /// The path before; `None` if the file is new.
    pub old: Option<String>,
    /// The path after; `None` if the file is removed.
    pub new: Option<String>,
    /// The changes in it.
    pub hunks: Vec<Hunk>,
}

/// One change in a file.
#[derive(Clone, Debug)]
pub struct Hunk {
    /// The first line before, counted from 1 (0 if there is none).
    pub start: usize,
    /// Its lines: `' '` context, `'-'` removed, `'+'` added, and the text.
    pub lines: Vec<(char, String)>,
}

impl Hunk {
    /// The lines that it expects.
    pub fn before(&self) -> Vec<&str> {
        self.side('+')
    }

    /// The lines that it leaves.
    pub fn after(&self) -> Vec<&str> {
        self.side('-')
    }

    fn side(&self, without: char) -> Vec<&str> {
        self.lines
            .iter()
            .filter(|(kind, _)| *kind != without)
            .map(|(_, text)| text.as_str())
            .collect()
    }

    /// How many lines it adds.
    pub fn added(&self) -> usize {
        self.lines.iter().filter(|(kind, _)| *kind == '+').count()
    }

    /// How many lines it removes.
    pub fn removed(&self) -> usize {
        self.lines.iter().filter(|(kind, _)| *kind == '-').count()
    }
}

impl Patch {
    /// Reads a patch.
    ///
    /// # Errors
    /// If it can't be read, or is no git patch; the error names the line.
    pub fn load(path: &Path) -> Result<Patch> {
        let bytes =
            std::fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
        let mut patch = Patch::parse(&String::from_utf8_lossy(&bytes))
            .map_err(|error| anyhow!("{}: {error}", path.display()))?;
        path.clone_into(&mut patch.path);
        Ok(patch)
    }

    /// Reads the text of a patch.
    ///
    /// # Errors
    /// If it is no git patch; the error names the line.
    pub fn parse(text: &str) -> Result<Patch> {
        let mut subject = None;
        let mut files: Vec<FileChange> = Vec::new();
        // The message may hold anything; the changes begin with the first `diff --git`.
        let mut lines = text
            .lines()
            .enumerate()
            .map(|(i, line)| (i + 1, line))
            .peekable();
        while let Some((number, line)) = lines.next() {
            if let Some(rest) = line.strip_prefix("diff --git ") {
                let (old, new) =
                    git_paths(rest).ok_or_else(|| anyhow!("line {number}: odd paths"))?;
                files.push(FileChange {
                    old: Some(old),
                    new: Some(new),
                    hunks: Vec::new(),
                });
                continue;
            }
            let Some(file) = files.last_mut() else {
                if let (None, Some(text)) = (&subject, line.strip_prefix("Subject: ")) {
                    let mut text = text.to_owned();
                    // Long subjects are folded.
                    while let Some((_, more)) = lines.next_if(|(_, line)| line.starts_with(' ')) {
                        text += more;
                    }
                    let plain = text
                        .strip_prefix('[')
                        .and_then(|t| t.split_once("] "))
                        .map(|(_, t)| t);
                    subject = Some(plain.unwrap_or(&text).to_owned());
                }
                continue;
            };
            if line.starts_with("new file mode") {
                file.old = None;
            } else if line.starts_with("deleted file mode") {
                file.new = None;
            } else if line.starts_with("GIT binary patch") || line.starts_with("Binary files") {
                bail!("line {number}: binary changes are not for upstream trees");
            } else if let Some(header) = line.strip_prefix("@@ -") {
                let (start, mut before, mut after) = ranges(header)
                    .ok_or_else(|| anyhow!("line {number}: not a hunk's header: {line}"))?;
                let mut hunk = Hunk {
                    start,
                    lines: Vec::new(),
                };
                while before > 0 || after > 0 {
                    let Some((number, line)) = lines.next() else {
                        bail!("the last hunk is cut off");
                    };
                    // An empty line of context may have lost its space to an editor.
                    let kind = line.chars().next().unwrap_or(' ');
                    let (takes_before, takes_after) = match kind {
                        ' ' => (1, 1),
                        '-' => (1, 0),
                        '+' => (0, 1),
                        '\\' => continue,
                        _ => bail!("line {number}: not a line of a hunk: {line}"),
                    };
                    if takes_before > before || takes_after > after {
                        bail!("line {number}: the hunk is longer than its header says");
                    }
                    (before, after) = (before - takes_before, after - takes_after);
                    hunk.lines
                        .push((kind, line.get(1..).unwrap_or("").to_owned()));
                }
                file.hunks.push(hunk);
            }
        }
        if files.is_empty() {
            bail!("no change in git's format (diff --git …)");
        }
        Ok(Patch {
            path: PathBuf::new(),
            subject: subject
                .ok_or_else(|| anyhow!("no 'Subject:': make it with git format-patch"))?,
            files,
        })
    }

    /// Lines added and removed in upstream's files. New files are ours: they never conflict in a merge.
    pub fn footprint(&self) -> Footprint {
        let mut sum = Footprint::default();
        for file in &self.files {
            let added: usize = file.hunks.iter().map(Hunk::added).sum();
            if file.old.is_none() {
                sum.new_file_lines += added;
            } else {
                sum.added += added;
                sum.removed += file.hunks.iter().map(Hunk::removed).sum::<usize>();
            }
        }
        sum
    }
}

/// How many lines a patch changes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Footprint {
    /// Added to upstream's files.
    pub added: usize,
    /// Removed from them.
    pub removed: usize,
    /// In new files.
    pub new_file_lines: usize,
}

impl std::ops::AddAssign for Footprint {
    fn add_assign(&mut self, other: Footprint) {
        self.added += other.added;
        self.removed += other.removed;
        self.new_file_lines += other.new_file_lines;
    }
}

/// The patches of a folder, in the order of their names. None if there is no such folder.
///
/// # Errors
/// If the folder can't be listed.
pub fn in_folder(dir: &Path) -> Result<Vec<PathBuf>> {
    if !dir.is_dir() {
        return Ok(Vec::new());
    }
    let mut patches = Vec::new();
    for entry in std::fs::read_dir(dir).with_context(|| format!("cannot list {}", dir.display()))? {
        let path = entry
            .with_context(|| format!("cannot list {}", dir.display()))?
            .path();
        if path
            .extension()
            .is_some_and(|extension| extension == "patch")
        {
            patches.push(path);
        }
    }
    patches.sort();
    Ok(patches)
}

/// Splits `a/x b/y`. Paths may have spaces; without a rename both are equal, which shows where the first ends.
fn git_paths(text: &str) -> Option<(String, String)> {
    let text = text.strip_prefix("a/")?;
    let middle = text.len().checked_sub(3)? / 2;
    if text.is_char_boundary(middle) && text.get(middle..middle + 3) == Some(" b/") {
        let (old, new) = (&text[..middle], &text[middle + 3..]);
        if old == new {
            return Some((old.to_owned(), new.to_owned()));
        }
    }
    let (old, new) = text.split_once(" b/")?;
    Some((old.to_owned(), new.to_owned()))
}

/// Parses `12,7 +12,9 @@ …`: the first line before, and the number of lines before and after.
fn ranges(text: &str) -> Option<(usize, usize, usize)> {
    let (old, rest) = text.split_once(" +")?;
    let (new, _) = rest.split_once(" @@")?;
    let range = |text: &str| -> Option<(usize, usize)> {
        match text.split_once(',') {
            Some((start, count)) => Some((start.parse().ok()?, count.parse().ok()?)),
            None => Some((text.parse().ok()?, 1)),
        }
    };
    let (start, before) = range(old)?;
    Some((start, before, range(new)?.1))
}

#[cfg(test)]
mod tests {
    use super::*;

    const PATCH: &str = "From 0 Mon Sep 17 00:00:00 2001\nSubject: [PATCH 1/2] Say one thing,\n and fold it\n\n\
        diff of opinions\n---\n a b.h | 2 +-\n\ndiff --git a/a b.h b/a b.h\nindex 1..2 100644\n--- a/a b.h\n\
        +++ b/a b.h\n@@ -1,3 +1,4 @@ class X\n one\n-two\n+zwei\n+--- drei\n three\ndiff --git a/n b/n\n\
        new file mode 100644\n--- /dev/null\n+++ b/n\n@@ -0,0 +1 @@\n+new\n\\ No newline at end of file\n-- \n2.1\n";

    #[test]
    fn hunks_and_footprint_are_read() {
        let patch = Patch::parse(PATCH).unwrap();
        assert_eq!(patch.subject, "Say one thing, and fold it");
        assert_eq!(patch.files[0].old.as_deref(), Some("a b.h"));
        let hunk = &patch.files[0].hunks[0];
        assert_eq!(hunk.before(), ["one", "two", "three"]);
        assert_eq!(hunk.after(), ["one", "zwei", "--- drei", "three"]);
        assert_eq!(patch.files[1].old, None);
        assert_eq!(
            patch.footprint(),
            Footprint {
                added: 2,
                removed: 1,
                new_file_lines: 1
            }
        );
    }

    #[test]
    fn what_is_not_a_patch_is_said() {
        let error = |text: &str| Patch::parse(text).unwrap_err().to_string();
        assert!(error("hello").contains("no change"));
        assert!(error(&PATCH.replace("Subject", "Object")).contains("Subject"));
        assert!(error(&PATCH.replace("@@ -1,3 ", "@@ -1,x ")).contains("not a hunk's header"));
        assert!(error(&PATCH.replace("@@ -1,3 +1,4", "@@ -1,2 +1,4")).contains("longer than"));
        assert!(error(&PATCH.replace("-two\n", "two\n")).contains("not a line of a hunk"));
        let cut = &PATCH[..PATCH.find("+--- drei").unwrap()];
        assert!(error(cut).contains("cut off"));
        // Multi-byte text where paths are split.
        assert!(Patch::parse("Subject: x\ndiff --git a/é b/é\n").is_ok());
        assert!(error("Subject: x\ndiff --git éé\n").contains("odd paths"));
    }
}
