// SPDX-License-Identifier: Apache-2.0
//! The signature of a policy file: its last line, a comment for TOML.
//!
//! ```text
//! # signature: KEY BASE64
//! ```
//!
//! KEY is the name of the key; BASE64 is the Ed25519 signature (RFC 8032) of all bytes before this line. Empty
//! lines may follow: clients add one.

use super::base64;
use super::keys::is_name;

/// What the line begins with.
const BEGINNING: &str = "# signature:";

/// Why the signature of a policy is none.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SignatureError {
    /// Something follows the line.
    #[error("line {0} is a signature, but not the last line: remove what follows it, or sign the file again")]
    NotLast(usize),
    /// There are several.
    #[error("line {0} is a signature, and the last line is one, too: remove both, and sign the file again")]
    Several(usize),
    /// The line is not of the format.
    #[error(
        "the last line is no signature of the form '{BEGINNING} KEY BASE64': sign the file again"
    )]
    Form,
    /// The device has no key of this name.
    #[error("the policy is signed with the key '{name}', and this device has {known}: sign it with one of its keys")]
    Key {
        /// The name.
        name: String,
        /// The keys that the device has, for people.
        known: String,
    },
    /// The signature is not of this text.
    #[error("the signature does not fit: the file was changed after the key '{0}' signed it (line ends count, too), or another key of this name signed it: sign it again")]
    Wrong(String),
}

/// A policy file, taken apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Signed<'a> {
    /// What is signed.
    pub(super) text: &'a str,
    /// The name of the key.
    pub(super) key: &'a str,
    /// The signature.
    pub(super) signature: [u8; 64],
}

/// Takes a policy file apart; `None`: it is not signed.
///
/// # Errors
/// If it has a signature in the wrong place or form.
pub(super) fn split(file: &str) -> Result<Option<Signed<'_>>, SignatureError> {
    let whole = file.trim_end_matches('\n');
    let last = whole.rfind('\n').map_or(0, |newline| newline + 1);
    let (text, line) = whole.split_at(last);
    let is_signed = line.starts_with(BEGINNING);
    let earlier = text.lines().position(|line| line.starts_with(BEGINNING));
    match earlier {
        Some(line) if is_signed => return Err(SignatureError::Several(line + 1)),
        Some(line) => return Err(SignatureError::NotLast(line + 1)),
        None if !is_signed => return Ok(None),
        None => {}
    }
    let words = line[BEGINNING.len()..].strip_prefix(' ');
    let words = words.and_then(|words| words.split_once(' '));
    let (key, digits) = words.ok_or(SignatureError::Form)?;
    match base64::decode(digits) {
        Some(signature) if is_name(key) => Ok(Some(Signed {
            text,
            key,
            signature,
        })),
        _ => Err(SignatureError::Form),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_line_is_a_signature_or_there_is_none() {
        let digits = base64::encode(&[7; 64]);
        let line = format!("# signature: a-key {digits}");
        for text in [
            "",
            "\n",
            "version = 1\n",
            "version = 1\r\n",
            "version = 1",
            "#signature: x",
        ] {
            assert_eq!(split(text), Ok(None), "{text:?}");
        }
        for text in ["", "version = 1\n", "version = 1\r\n", "\n\n"] {
            for end in ["", "\n", "\n\n"] {
                let file = format!("{text}{line}{end}");
                let found = split(&file).unwrap().unwrap();
                assert_eq!((found.text, found.key), (text, "a-key"));
                assert_eq!(found.signature, [7; 64]);
            }
        }
        let after = format!("{line}\n\r\n");
        assert_eq!(split(&after), Err(SignatureError::NotLast(1)));
        let after = format!("x = 1\n{line}\nenabled = false\n");
        assert_eq!(split(&after), Err(SignatureError::NotLast(2)));
        let twice = format!("x = 1\n{line}\n{line}\n");
        assert_eq!(split(&twice), Err(SignatureError::Several(2)));
    }

    #[test]
    fn a_line_of_another_form_is_refused() {
        let digits = base64::encode(&[7; 64]);
        let line = format!("x = 1\n# signature: a-key {digits}");
        let broken = [
            format!("{line}\r\n"),
            format!("{line} \n"),
            line.replace(": ", ":"),
            line.replace("a-key ", "a-key  "),
            line.replace("a-key", "ä"),
            line.replace("a-key ", ""),
            line.replace("==", ""),
            line.replace("Bw", "B!"),
            "# signature:".to_owned(),
            "# signature: ".to_owned(),
            format!("# signature: {} {digits}", "k".repeat(65)),
        ];
        for file in broken {
            assert_eq!(split(&file), Err(SignatureError::Form), "{file:?}");
        }
        for cut in 6 + BEGINNING.len()..line.len() {
            assert_eq!(split(&line[..cut]), Err(SignatureError::Form), "{cut}");
        }
    }
}
