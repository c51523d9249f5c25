// SPDX-License-Identifier: Apache-2.0
//! Texts of processes, which may be hostile.

/// Longest name of a detector, bytes.
const MAX_DETECTOR_BYTES: usize = 64;

/// On one line, without characters that control a terminal.
pub(super) fn line(text: &str) -> String {
    let visible = |c: char| if c.is_control() { '?' } else { c };
    text.chars().map(visible).collect()
}

/// A detector's name: small letters, digits and dashes, so it can be part of a file's name.
pub(super) fn detector(text: &str) -> String {
    let allowed = |c: char| match c {
        'a'..='z' | '0'..='9' => c,
        _ => '-',
    };
    let name: String = text.chars().take(MAX_DETECTOR_BYTES).map(allowed).collect();
    match name.as_str() {
        "" => "unnamed".into(),
        _ => name,
    }
}
