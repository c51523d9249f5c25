// SPDX-License-Identifier: Apache-2.0
//! Texts of others in lines, TOML and JSON.

use std::fmt::Write as _;

/// The text in quotes, as TOML and JSON write it. No line ends in it, and nothing that a terminal obeys.
pub(crate) fn quoted(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    push_escaped(&mut out, text);
    out.push('"');
    out
}

/// The text without line ends and characters that a terminal obeys.
pub(crate) fn one_line(text: &str) -> String {
    let is_plain = |c: char| !c.is_control() && c != '\\';
    if text.chars().all(is_plain) {
        return text.to_owned();
    }
    let mut out = String::with_capacity(text.len() + 8);
    for c in text.chars() {
        match is_plain(c) {
            true => out.push(c),
            false => out.extend(c.escape_default()),
        }
    }
    out
}

fn push_escaped(out: &mut String, text: &str) {
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\t' => out.push_str("\\t"),
            // All control characters are in the first plane.
            c if c.is_control() => {
                let _ = write!(out, "\\u{:04x}", u32::from(c));
            }
            c => out.push(c),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_in_a_text_ends_its_line_or_its_quotes() {
        let text = "a \"b\" \\ \n\r\t\u{1b}[31m \u{85} ä";
        let quoted = quoted(text);
        assert_eq!(quoted, r#""a \"b\" \\ \n\u000d\t\u001b[31m \u0085 ä""#);
        let table: toml::Table = toml::from_str(&format!("text = {quoted}")).unwrap();
        assert_eq!(table["text"].as_str(), Some(text));
        assert!(!one_line(text).contains(char::is_control));
        assert_eq!(one_line("plain ä"), "plain ä");
    }
}
