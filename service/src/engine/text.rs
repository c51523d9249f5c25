// SPDX-License-Identifier: Apache-2.0
//! Texts of processes, which may be hostile.

use hindsight_trace_format::protocol::AppDetector;

/// Longest name of a detector, bytes.
const MAX_DETECTOR_BYTES: usize = 64;

/// On one line, without characters that control a terminal.
pub(super) fn line(text: &str) -> String {
    let visible = |c: char| if c.is_control() { '?' } else { c };
    text.chars().map(visible).collect()
}

/// Who found something, by the account of a process: the detectors of processes, the program itself, and else `other`. No level of
/// consent removes the name of a detector, so a process must not choose it.
pub(super) fn detector_of_process(text: &str) -> String {
    let is_known = AppDetector::from_name(text).is_some() || text == "program";
    let name = if is_known { text } else { "other" };
    name.to_owned()
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
