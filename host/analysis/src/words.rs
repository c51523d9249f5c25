// SPDX-License-Identifier: Apache-2.0
//! Numbers, times and names as people write them.

use jiff::SignedDuration;

/// The reverse of [`duration`], in ns: `1.5s`, `200 ms`, `1m30s`. `None` if it is no time.
pub fn parse_duration(text: &str) -> Option<u64> {
    let text = text.trim();
    // Without a unit only nothing is clear.
    if text == "0" {
        return Some(0);
    }
    if !text.starts_with(|c: char| c.is_ascii_digit() || c == '.') {
        return None;
    }
    let duration: SignedDuration = text.parse().ok()?;
    u64::try_from(duration.as_nanos()).ok()
}

/// A duration as people say it, with three significant digits: `702 ms`, `1.43 s`, `12 ns`.
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

/// `12 345 678`
pub fn count(n: u64) -> String {
    let digits = n.to_string();
    let mut out = String::new();
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            out.push(' ');
        }
        out.push(digit);
    }
    out
}

/// A method's name in at most `width` characters. What says most is kept longest: the method, its class,
/// then the packages next to the class: `com…list.NoteListScreen.handleMessage(…)`.
pub fn shorten(name: &str, width: usize) -> String {
    let length = |s: &str| s.chars().count();
    if length(name) <= width {
        return name.to_owned();
    }
    let (path, parameters) = match name.find('(') {
        Some(at) if at > 0 => (&name[..at], if &name[at..] == "()" { "()" } else { "(…)" }),
        _ => (name, ""),
    };
    let short = format!("{path}{parameters}");
    if length(&short) <= width {
        return short;
    }
    // Not a dotted name: `<method 0x…>`, `… 3 calls in …`.
    let is_name = path
        .split('.')
        .all(|part| !part.is_empty() && !part.contains(' '));
    if is_name {
        let parts: Vec<&str> = path.split('.').collect();
        // The first package, and as many of the last parts as fit, but at least class and method.
        for from in 2..parts.len().saturating_sub(1) {
            let short = format!("{}…{}{parameters}", parts[0], parts[from..].join("."));
            if length(&short) <= width {
                return short;
            }
        }
        // Then the end of the class, as long as the method is whole.
        let method = parts[parts.len() - 1];
        let last = format!(
            "{}{parameters}",
            parts[parts.len().saturating_sub(2)..].join(".")
        );
        if parts.len() > 1 && length(method) + length(parameters) + 3 <= width {
            let hidden = (length(&last) + 1).saturating_sub(width);
            return format!("…{}", last.chars().skip(hidden).collect::<String>());
        }
    }
    middle(&short, width)
}

/// Cut in the middle; the end says more than the beginning.
fn middle(text: &str, width: usize) -> String {
    let chars: Vec<char> = text.chars().collect();
    let Some(kept) = width.checked_sub(1).filter(|_| chars.len() > width) else {
        return chars.into_iter().take(width).collect();
    };
    let head = kept / 3;
    let tail = kept - head;
    let (head, tail) = (&chars[..head], &chars[chars.len() - tail..]);
    head.iter().chain(&['…']).chain(tail).collect()
}

/// Lines of at most `width` columns, broken at spaces; a longer word has a line of its own.
pub fn wrap(text: &str, width: Option<usize>) -> Vec<String> {
    let Some(width) = width else {
        return vec![text.to_owned()];
    };
    let mut lines: Vec<String> = Vec::new();
    for word in text.split(' ') {
        match lines.last_mut() {
            Some(line) if line.chars().count() + 1 + word.chars().count() <= width => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
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

    #[test]
    fn counts_are_grouped() {
        assert_eq!(count(0), "0");
        assert_eq!(count(999), "999");
        assert_eq!(count(1_000), "1 000");
        assert_eq!(count(12_345_678), "12 345 678");
    }

    #[test]
    fn names_lose_first_what_says_least() {
        let name = "com.example.notes.list.NoteListScreen.handleMessage(Message)";
        let expected = [
            (60, name),
            (59, "com.example.notes.list.NoteListScreen.handleMessage(…)"),
            (53, "com…notes.list.NoteListScreen.handleMessage(…)"),
            (45, "com…list.NoteListScreen.handleMessage(…)"),
            (39, "com…NoteListScreen.handleMessage(…)"),
            (34, "…NoteListScreen.handleMessage(…)"),
            (31, "…oteListScreen.handleMessage(…)"),
            (20, "…en.handleMessage(…)"),
            (12, "com…ssage(…)"),
            (1, "…"),
            (0, ""),
        ];
        for (width, short) in expected {
            let got = shorten(name, width);
            assert!(got.chars().count() <= width, "{got}");
            assert_eq!(got, short, "{width}");
        }
        assert_eq!(shorten("C.run", 4), "C…un");
        assert_eq!(shorten("Class.run", 6), "…s.run");
        assert_eq!(shorten("<method 0x70001000>", 12), "<me…0001000>");
        assert_eq!(shorten("a.very.long.Class$Inner.f", 14), "…Class$Inner.f");
    }

    #[test]
    fn sentences_are_wrapped_at_spaces() {
        assert_eq!(wrap("one two three", None), ["one two three"]);
        assert_eq!(wrap("one two three", Some(8)), ["one two", "three"]);
        assert_eq!(wrap("one extraordinary", Some(5)), ["one", "extraordinary"]);
    }
}
