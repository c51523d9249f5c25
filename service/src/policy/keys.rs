// SPDX-License-Identifier: Apache-2.0
//! Public keys of those who may sign policies.

use std::collections::BTreeMap;

use ed25519_compact::{PublicKey, Signature};

use super::base64;

/// What the name of a key's file ends with.
pub const KEY_SUFFIX: &str = ".pem";
/// The most keys of a device.
const MAX_KEYS: usize = 16;
/// Longest name of a key, bytes.
const MAX_NAME: usize = 64;
/// What DER has before the 32 bytes of an Ed25519 key (RFC 8410).
const DER: [u8; 12] = [0x30, 0x2a, 0x30, 5, 6, 3, 0x2b, 0x65, 0x70, 3, 0x21, 0];
const BEGIN: &str = "-----BEGIN PUBLIC KEY-----";
const END: &str = "-----END PUBLIC KEY-----";

/// Keys with their names.
#[derive(Clone, Debug, Default)]
pub struct Keys(BTreeMap<String, PublicKey>);

/// Whether a key may have this name.
pub(super) fn is_name(name: &str) -> bool {
    let is_plain =
        |byte| matches!(byte, b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'.' | b'_' | b'-');
    (1..=MAX_NAME).contains(&name.len()) && name.bytes().all(is_plain)
}

fn parse(pem: &str) -> Option<PublicKey> {
    let inside = pem.trim().strip_prefix(BEGIN)?.strip_suffix(END)?;
    let digits: String = inside.split_ascii_whitespace().collect();
    let der: [u8; 44] = base64::decode(&digits)?;
    let key = der.strip_prefix(&DER)?;
    PublicKey::from_slice(key).ok()
}

impl Keys {
    /// Adds the key of a file.
    ///
    /// # Errors
    /// If the file has none, or there are too many: why, and the remedy.
    pub fn add(&mut self, file_name: &str, pem: &str) -> Result<(), String> {
        let name = file_name.strip_suffix(KEY_SUFFIX).filter(|n| is_name(n));
        let name = name.ok_or_else(|| {
            format!("name it NAME{KEY_SUFFIX}, at most {MAX_NAME} letters, digits, '.', '_' or '-'")
        })?;
        let key = parse(pem).ok_or(
            "it is no public Ed25519 key as PEM: 'hindsight device policy new-key' writes one",
        )?;
        if self.0.len() >= MAX_KEYS && !self.0.contains_key(name) {
            return Err(format!("there are more than {MAX_KEYS} keys: remove some"));
        }
        self.0.insert(name.to_owned(), key);
        Ok(())
    }

    /// The names.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(String::as_str)
    }

    /// Whether the key of this name has signed this text; `None`: there is no such key.
    pub(super) fn has_signed(&self, name: &str, text: &str, signature: [u8; 64]) -> Option<bool> {
        let key = self.0.get(name)?;
        Some(key.verify(text, &Signature::new(signature)).is_ok())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Made by OpenSSL 3: `openssl genpkey -algorithm ed25519 | openssl pkey -pubout`.
    const PEM: &str = "-----BEGIN PUBLIC KEY-----\nMCowBQYDK2VwAyEAgO28JwQ79cBQPxbALHYrhC12oLDUHPfe47y+azbQSG8=\n-----END PUBLIC KEY-----\n";

    #[test]
    fn keys_are_read_as_openssl_writes_them() {
        let mut keys = Keys::default();
        keys.add("fleet-2026.pem", PEM).unwrap();
        keys.add("crlf.pem", &PEM.replace('\n', "\r\n")).unwrap();
        assert_eq!(keys.names().collect::<Vec<_>>(), ["crlf", "fleet-2026"]);
        for name in [
            "fleet",
            ".pem",
            "a b.pem",
            "ä.pem",
            &format!("{}.pem", "a".repeat(65)),
        ] {
            assert!(
                keys.add(name, PEM).unwrap_err().contains("NAME.pem"),
                "{name}"
            );
        }
        for broken in [
            String::new(),
            BEGIN.to_owned(),
            PEM.replace("MCow", "MCox"),
            PEM.replace("PUBLIC", "PRIVATE"),
            PEM.replace("=\n", "\n"),
            format!("{PEM}{PEM}"),
        ] {
            let why = keys.add("a.pem", &broken).unwrap_err();
            assert!(why.contains("new-key"), "{broken}");
        }
    }

    #[test]
    fn the_number_of_keys_is_bounded() {
        let mut keys = Keys::default();
        for i in 0..MAX_KEYS {
            keys.add(&format!("{i}.pem"), PEM).unwrap();
        }
        assert!(keys.add("0.pem", PEM).is_ok());
        assert!(keys.add("more.pem", PEM).unwrap_err().contains("remove"));
    }

    #[test]
    fn a_key_that_all_texts_fit_is_not_believed() {
        // The neutral point: with it, R of the neutral point and s = 0 would fit each text.
        let mut neutral = [0; 44];
        neutral[..12].copy_from_slice(&DER);
        neutral[12] = 1;
        let pem = format!("{BEGIN}\n{}\n{END}", base64::encode(&neutral));
        let mut keys = Keys::default();
        keys.add("weak.pem", &pem).unwrap();
        let mut signature = [0; 64];
        signature[0] = 1;
        assert_eq!(keys.has_signed("weak", "text", signature), Some(false));
    }
}
