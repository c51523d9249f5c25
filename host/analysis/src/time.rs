// SPDX-License-Identifier: Apache-2.0
//! Durations as people write them.

use jiff::SignedDuration;

/// Reads a duration, such as `1.5s`, `200 ms` or `1m30s`, in ns. `None` if the text is none.
pub fn parse_duration(text: &str) -> Option<u64> {
    let text = text.trim();
    // 0 is the only duration that needs no unit.
    if text == "0" {
        return Some(0);
    }
    if !text.starts_with(|c: char| c.is_ascii_digit() || c == '.') {
        return None;
    }
    let duration: SignedDuration = text.parse().ok()?;
    u64::try_from(duration.as_nanos()).ok()
}
