// SPDX-License-Identifier: Apache-2.0
//! Base64 (RFC 4648) of values with a known length.

/// The bytes of such a text; `None`: it is not exactly the text of so many bytes.
pub(super) fn decode<const N: usize>(text: &str) -> Option<[u8; N]> {
    let text = text.as_bytes();
    if text.len() != N.div_ceil(3) * 4 {
        return None;
    }
    let padding = N.div_ceil(3) * 3 - N;
    let (digits, end) = text.split_at(text.len() - padding);
    if end.iter().any(|byte| *byte != b'=') {
        return None;
    }
    let mut bytes = [0; N];
    let (mut bits, mut held, mut at) = (0_u32, 0, 0);
    for digit in digits {
        bits = bits << 6 | u32::from(value(*digit)?);
        held += 6;
        if held >= 8 {
            held -= 8;
            *bytes.get_mut(at)? = (bits >> held) as u8;
            bits &= (1 << held) - 1;
            at += 1;
        }
    }
    // Bits that belong to no byte are zero, so that one value has one text.
    (bits == 0 && at == N).then_some(bytes)
}

fn value(digit: u8) -> Option<u8> {
    Some(match digit {
        b'A'..=b'Z' => digit - b'A',
        b'a'..=b'z' => digit - b'a' + 26,
        b'0'..=b'9' => digit - b'0' + 52,
        b'+' => 62,
        b'/' => 63,
        _ => return None,
    })
}

/// The text of bytes, for tests.
#[cfg(test)]
pub(crate) fn encode(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let group = |three: &[u8]| {
        let all = (0..3).fold(0, |all, i| {
            all << 8 | u32::from(*three.get(i).unwrap_or(&0))
        });
        let digit = |i: usize| match i <= three.len() {
            true => char::from(DIGITS[(all >> (18 - 6 * i) & 63) as usize]),
            false => '=',
        };
        [0, 1, 2, 3].map(digit)
    };
    bytes.chunks(3).flat_map(group).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_one_text_of_a_value_is_taken() {
        // RFC 4648, section 10.
        assert_eq!(decode(""), Some([]));
        assert_eq!(decode("Zg=="), Some(*b"f"));
        assert_eq!(decode("Zm8="), Some(*b"fo"));
        assert_eq!(decode("Zm9v"), Some(*b"foo"));
        assert_eq!(decode("Zm9vYmE="), Some(*b"fooba"));
        for wrong in [
            "Zh==", "Zg=", "Zg", "Zg=A", "Z===", "Zm8=", "Zm9v", "Zg==\n", "Z g=",
        ] {
            assert_eq!(decode::<1>(wrong), None, "{wrong}");
        }
        assert_eq!(decode::<3>("Zm9-"), None);
        let bytes: [u8; 64] = std::array::from_fn(|i| (i * 37) as u8);
        assert_eq!(decode(&encode(&bytes)), Some(bytes));
    }
}
