// SPDX-License-Identifier: Apache-2.0
//! Decodes *modified UTF-8*, the encoding of ART's strings and of dex files. It differs from UTF-8 in two points: U+0000
//! takes two bytes, and a supplementary character is a surrogate pair of three bytes each. A lone surrogate is possible.

use std::borrow::Cow;

/// The text of these bytes of modified UTF-8 or UTF-8. Lone surrogates and malformed bytes become U+FFFD.
pub(crate) fn decode(bytes: &[u8]) -> Cow<'_, str> {
    // Text that is valid in both encodings means the same in both.
    if let Ok(text) = std::str::from_utf8(bytes) {
        return Cow::Borrowed(text);
    }
    let mut text = String::with_capacity(bytes.len());
    let mut rest = bytes;
    while !rest.is_empty() {
        let (character, length) = first_character(rest);
        text.push(character);
        rest = rest.get(length..).unwrap_or_default();
    }
    Cow::Owned(text)
}

/// The first character, and its length in bytes. `bytes` is not empty.
fn first_character(bytes: &[u8]) -> (char, usize) {
    const REPLACEMENT: char = char::REPLACEMENT_CHARACTER;
    match bytes {
        [0xc0, 0x80, ..] => ('\0', 2),
        [0xed, a @ 0xa0..=0xaf, b @ 0x80..=0xbf, 0xed, c @ 0xb0..=0xbf, d @ 0x80..=0xbf, ..] => {
            let ten_bits = |high: u8, low: u8| u32::from(high & 0x0f) << 6 | u32::from(low & 0x3f);
            let code = 0x1_0000 + (ten_bits(*a, *b) << 10 | ten_bits(*c, *d));
            (char::from_u32(code).unwrap_or(REPLACEMENT), 6)
        }
        [0xed, 0xa0..=0xbf, 0x80..=0xbf, ..] => (REPLACEMENT, 3),
        _ => (1..=4)
            .filter_map(|length| std::str::from_utf8(bytes.get(..length)?).ok())
            .find_map(|text| Some((text.chars().next()?, text.len())))
            .unwrap_or((REPLACEMENT, 1)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn utf8_is_borrowed() {
        for text in ["", "main", "Größe", "\u{1f600} smile"] {
            assert!(matches!(decode(text.as_bytes()), Cow::Borrowed(same) if same == text));
        }
    }

    #[test]
    fn what_differs_from_utf8_is_decoded() {
        assert_eq!(decode(b"a\xc0\x80b"), "a\0b");
        // U+1F600 is the pair D83D DE00; U+10000 and U+10FFFF are the first and the last pair.
        assert_eq!(decode(b"a\xed\xa0\xbd\xed\xb8\x80b"), "a\u{1f600}b");
        assert_eq!(decode(b"\xed\xa0\x80\xed\xb0\x80"), "\u{10000}");
        assert_eq!(decode(b"\xed\xaf\xbf\xed\xbf\xbf"), "\u{10ffff}");
        // Text of one, two, three and four bytes beside it.
        let mixed = b"\xc0\x80\x7f\xc3\xb6\xe2\x82\xac\xed\x9f\xbf\xee\x80\x80\xf0\x9f\x98\x80";
        assert_eq!(decode(mixed), "\0\u{7f}ö€\u{d7ff}\u{e000}\u{1f600}");
    }

    #[test]
    fn lone_surrogates_are_replaced() {
        assert_eq!(decode(b"a\xed\xa0\xbd"), "a\u{fffd}");
        assert_eq!(decode(b"\xed\xb8\x80z"), "\u{fffd}z");
        // The high one is alone, the low one after it begins no pair either.
        assert_eq!(
            decode(b"\xed\xa0\xbd\xed\xa0\xbd\xed\xb8\x80\xed\xb8\x80"),
            "\u{fffd}\u{1f600}\u{fffd}"
        );
    }

    #[test]
    fn malformed_bytes_are_replaced_one_by_one() {
        assert_eq!(decode(b"\xff\xc0a"), "\u{fffd}\u{fffd}a");
        assert_eq!(decode(b"\xed\xa0"), "\u{fffd}\u{fffd}");
        assert_eq!(decode(b"ab\xe2\x82"), "ab\u{fffd}\u{fffd}");
        // Every string of up to three of these bytes has an end.
        let bytes = [0, b'a', 0x80, 0xa0, 0xb0, 0xc0, 0xed, 0xf0, 0xff];
        for a in bytes {
            for b in bytes {
                for c in bytes {
                    assert!(!decode(&[a, b, c]).is_empty());
                }
            }
        }
    }
}
