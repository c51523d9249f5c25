// SPDX-License-Identifier: Apache-2.0
//! Files of the checkout as text, and their licence lines.

use std::path::Path;

use crate::problem::Problem;

const LICENCE: &str = "SPDX-License-Identifier: Apache-2.0";
/// The licence line must be in this many first lines.
const FIRST_LINES: usize = 5;
/// Files without comments of their own: data, recorded output, and changes to files that have a licence.
const WITHOUT_COMMENTS: [&str; 5] = [".json", ".lock", ".patch", ".snap", "LICENSE"];

/// A file of the checkout.
pub(crate) struct File {
    /// Path in the checkout.
    pub(crate) path: String,
    /// None for a folder, a symbolic link, and for bytes that are no text.
    pub(crate) text: Option<String>,
}

/// Reads the text files. A file that is deleted but still in git's index is left out.
pub(crate) fn read_all(checkout: &Path, paths: Vec<String>) -> Vec<File> {
    paths
        .into_iter()
        .filter_map(|path| {
            let full = checkout.join(&path);
            let kind = full.symlink_metadata().ok()?.file_type();
            let text = kind.is_file().then(|| std::fs::read_to_string(&full).ok());
            Some(File {
                path,
                text: text.flatten(),
            })
        })
        .collect()
}

/// Finds the text files that do not name their licence.
pub(crate) fn licence_lines(files: &[File]) -> Vec<Problem> {
    files
        .iter()
        .filter(|file| !WITHOUT_COMMENTS.iter().any(|end| file.path.ends_with(end)))
        .filter(|file| {
            file.text.as_ref().is_some_and(|text| {
                !text
                    .lines()
                    .take(FIRST_LINES)
                    .any(|line| line.contains(LICENCE))
            })
        })
        .map(|file| {
            Problem::new(
                &file.path,
                1,
                format!("no licence line: begin the file with a comment “{LICENCE}”"),
            )
        })
        .collect()
}
