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

/// A duration with three significant digits: `702 ms`, `1.43 s`, `12 ns`.
pub fn duration(ns: u64) -> String {
    const UNITS: [(f64, &str); 4] = [(1.0, "ns"), (1e3, "µs"), (1e6, "ms"), (1e9, "s")];
    let value = ns as f64;
    // 999.5 would be rounded up to 1000.
    let (scale, unit) = UNITS
        .into_iter()
        .find(|(scale, _)| value / scale < 999.5)
        .unwrap_or(UNITS[3]);
    let value = value / scale;
    let decimals = match value {
        _ if scale == 1.0 => 0,
        v if v < 9.995 => 2,
        v if v < 99.95 => 1,
        _ => 0,
    };
    format!("{value:.decimals$} {unit}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_have_three_digits_and_the_unit_that_fits() {
        let expected = [
            (0, "0 ns"),
            (999, "999 ns"),
            (1_000, "1.00 µs"),
            (9_994, "9.99 µs"),
            (9_995, "10.0 µs"),
            (99_950, "100 µs"),
            (999_499, "999 µs"),
            (999_500, "1.00 ms"),
            (702_400_000, "702 ms"),
            (1_430_000_000, "1.43 s"),
            (123_456_000_000_000, "123456 s"),
        ];
        for (ns, text) in expected {
            assert_eq!(duration(ns), text, "{ns}");
        }
    }
}
