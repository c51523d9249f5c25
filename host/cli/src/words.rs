// SPDX-License-Identifier: Apache-2.0
//! Numbers, durations, sizes and names of methods as text. Widths are columns of a terminal, in which a CJK
//! character takes two.

pub(crate) use hindsight_analysis::duration;
use hindsight_analysis::{PairSide, Unmatched};
use textwrap::{Options, WordSeparator, WordSplitter, WrapAlgorithm};
use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

/// A time after the trace's beginning, to the microsecond: `1.234567 s`.
pub(crate) fn time(ns: u64) -> String {
    format!("{}.{:06} s", ns / 1_000_000_000, ns % 1_000_000_000 / 1_000)
}

/// `12 345 678`
pub(crate) fn count(n: u64) -> String {
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

/// `1 call`, `2 calls`
pub(crate) fn counted(n: u64, one: &str, many: &str) -> String {
    format!("{} {}", count(n), if n == 1 { one } else { many })
}

/// `2 causes`, `1 effect`: the ends that are there.
pub(crate) fn unmatched_ends(unmatched: &Unmatched) -> String {
    let (one, many) = match unmatched.side {
        PairSide::From => ("cause", "causes"),
        PairSide::To => ("effect", "effects"),
    };
    counted(unmatched.count, one, many)
}

/// `32 MiB`
pub(crate) fn bytes(n: u64) -> String {
    const UNITS: [&str; 4] = ["B", "KiB", "MiB", "GiB"];
    let mut value = n as f64;
    let mut unit = 0;
    while value >= 1024.0 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    let decimals = usize::from(unit > 0 && value < 100.0 && value.fract() > 0.0);
    format!("{value:.decimals$} {}", UNITS[unit])
}

/// `54.7 %`; `<0.1 %` for a part that would be rounded to 0.
pub(crate) fn percent(part: u64, whole: u64) -> String {
    let percent = part as f64 * 100.0 / whole.max(1) as f64;
    if part > 0 && percent < 0.05 {
        "<0.1 %".to_owned()
    } else {
        format!("{percent:.1} %")
    }
}

/// Shortens a method's name to at most `width` columns. The method is kept longest, then its class, then the
/// packages next to the class: `com…list.NoteListScreen.handleMessage(…)`.
pub(crate) fn shorten(name: &str, width: usize) -> String {
    if name.width() <= width {
        return name.to_owned();
    }
    let (path, parameters) = match name.find('(') {
        Some(at) if at > 0 => (&name[..at], if &name[at..] == "()" { "()" } else { "(…)" }),
        _ => (name, ""),
    };
    let short = format!("{path}{parameters}");
    if short.width() <= width {
        return short;
    }
    // Other texts, such as `<method 0x…>` and `… 3 calls in …`, are cut in the middle.
    let is_name = path
        .split('.')
        .all(|part| !part.is_empty() && !part.contains(' '));
    if is_name {
        let parts: Vec<&str> = path.split('.').collect();
        // The first package, and as many of the last parts as fit, but at least class and method.
        for from in 2..parts.len().saturating_sub(1) {
            let short = format!("{}…{}{parameters}", parts[0], parts[from..].join("."));
            if short.width() <= width {
                return short;
            }
        }
        // Then the end of the class, as long as the method is whole.
        let method = parts[parts.len() - 1];
        let last = format!(
            "{}{parameters}",
            parts[parts.len().saturating_sub(2)..].join(".")
        );
        if parts.len() > 1 && method.width() + parameters.width() + 3 <= width {
            return format!("…{}", end(&last, width - 1));
        }
    }
    middle(&short, width)
}

/// Cuts a text in the middle; two thirds of the width go to its end, which tells more than its beginning.
fn middle(text: &str, width: usize) -> String {
    let Some(kept) = width.checked_sub(1) else {
        return String::new();
    };
    if text.width() <= width {
        return text.to_owned();
    }
    let head = beginning(text, kept / 3);
    // A wide character that does not fit into the head leaves a column to the tail.
    let tail = end(text, kept - head.width());
    format!("{head}…{tail}")
}

/// The longest beginning of at most `width` columns.
fn beginning(text: &str, width: usize) -> &str {
    let mut columns = 0;
    for (at, c) in text.char_indices() {
        columns += c.width().unwrap_or(0);
        if columns > width {
            return &text[..at];
        }
    }
    text
}

/// The longest end of at most `width` columns.
fn end(text: &str, width: usize) -> &str {
    let mut columns = 0;
    for (at, c) in text.char_indices().rev() {
        columns += c.width().unwrap_or(0);
        if columns > width {
            return &text[at + c.len_utf8()..];
        }
    }
    text
}

/// Lines of at most `width` columns, broken at spaces; a longer word has a line of its own.
pub(crate) fn wrap(text: &str, width: Option<usize>) -> Vec<String> {
    let Some(width) = width else {
        return vec![text.to_owned()];
    };
    let options = Options::new(width)
        .break_words(false)
        .word_separator(WordSeparator::AsciiSpace)
        // A method's name may have a hyphen, where it must not be broken.
        .word_splitter(WordSplitter::NoHyphenation)
        .wrap_algorithm(WrapAlgorithm::FirstFit);
    let lines = textwrap::wrap(text, options);
    lines.into_iter().map(String::from).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_grouped() {
        assert_eq!(count(0), "0");
        assert_eq!(count(999), "999");
        assert_eq!(count(1_000), "1 000");
        assert_eq!(count(12_345_678), "12 345 678");
        assert_eq!(counted(1, "call", "calls"), "1 call");
        assert_eq!(counted(2_000, "call", "calls"), "2 000 calls");
    }

    #[test]
    fn sizes_have_units() {
        assert_eq!(bytes(512), "512 B");
        assert_eq!(bytes(33_554_432), "32 MiB");
        assert_eq!(bytes(1_669_464), "1.6 MiB");
    }

    #[test]
    fn a_method_keeps_its_name_longest() {
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
            assert!(got.width() <= width, "{got}");
            assert_eq!(got, short, "{width}");
        }
        assert_eq!(shorten("C.run", 4), "C…un");
        assert_eq!(shorten("Class.run", 6), "…s.run");
        assert_eq!(shorten("<method 0x70001000>", 12), "<me…0001000>");
        assert_eq!(shorten("a.very.long.Class$Inner.f", 14), "…Class$Inner.f");
    }

    #[test]
    fn wide_characters_take_two_columns() {
        let name = "例.メモ帳.画面.開く(Message)";
        for width in 0..=name.width() {
            let got = shorten(name, width);
            assert!(got.width() <= width, "{got:?} at {width}");
        }
        assert_eq!(shorten(name, 16), "例…画面.開く(…)");
        assert_eq!(shorten(name, 13), "…画面.開く(…)");
        assert_eq!(wrap("例例 メモ", Some(5)), ["例例", "メモ"]);
    }

    #[test]
    fn sentences_are_wrapped_at_spaces() {
        assert_eq!(wrap("one two three", None), ["one two three"]);
        assert_eq!(wrap("one two three", Some(8)), ["one two", "three"]);
        assert_eq!(wrap("one extraordinary", Some(5)), ["one", "extraordinary"]);
        assert_eq!(wrap("a-b-c d-e", Some(5)), ["a-b-c", "d-e"]);
    }
}
