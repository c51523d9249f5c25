// SPDX-License-Identifier: Apache-2.0
//! Which policies a device takes.

use ed25519_compact::{KeyPair, Seed};
use proptest::prelude::*;

use super::super::base64::encode;
use super::*;

/// A line that OpenSSL 3 made (`openssl pkeyutl -sign -rawin`) for `version = 1`, `revision = 7`, with the key of `keys.rs`.
const BY_OPENSSL: &str = "version = 1\nrevision = 7\n# signature: openssl nu5CqgUAtyFxvCXdR1ATx4q27BC7Z3QykRTegq6A3f0gaDyzTs4pyNHe6ei6DUN5DoscEf6CieERUOSErN0SDg==\n";
const OPENSSL_KEY: &str = "-----BEGIN PUBLIC KEY-----\nMCowBQYDK2VwAyEAgO28JwQ79cBQPxbALHYrhC12oLDUHPfe47y+azbQSG8=\n-----END PUBLIC KEY-----\n";

fn pair(number: u8) -> KeyPair {
    KeyPair::from_seed(Seed::new([number; 32]))
}

fn pem(pair: &KeyPair) -> String {
    let der = [0x30, 0x2a, 0x30, 5, 6, 3, 0x2b, 0x65, 0x70, 3, 0x21, 0];
    let der = [&der[..], &pair.pk[..]].concat();
    let (kind, digits) = ("PUBLIC KEY", encode(&der));
    format!("-----BEGIN {kind}-----\n{digits}\n-----END {kind}-----\n")
}

fn sign(text: &str, key: &str, pair: &KeyPair) -> String {
    let signature = pair.sk.sign(text, None);
    format!("{text}# signature: {key} {}\n", encode(&signature[..]))
}

/// Keys `one` and `two`, of the pairs 1 and 2.
fn trust() -> Trust {
    let mut keys = Keys::default();
    keys.add("one.pem", &pem(&pair(1))).unwrap();
    keys.add("two.pem", &pem(&pair(2))).unwrap();
    Trust {
        keys: Some(keys),
        takes_unsigned: false,
    }
}

fn revision(number: u64) -> String {
    format!("version = 1\nrevision = {number}\n")
}

fn why(trust: &Trust, file: &str) -> String {
    let refused = trust.admit(file, Accepted::UpTo(0), 0).unwrap_err();
    refused.to_string()
}

#[test]
fn a_policy_that_a_key_of_the_device_has_signed_is_taken() {
    for (number, name) in [(1, "one"), (2, "two")] {
        for text in [revision(3), revision(3).replace('\n', "\r\n")] {
            let file = sign(&text, name, &pair(number));
            let admitted = trust().admit(&file, Accepted::UpTo(3), 3).unwrap();
            assert_eq!(admitted.policy.revision, 3);
            assert_eq!(admitted.key.as_deref(), Some(name));
        }
    }
    let mut keys = Keys::default();
    keys.add("openssl.pem", OPENSSL_KEY).unwrap();
    let trust = Trust {
        keys: Some(keys),
        takes_unsigned: false,
    };
    let admitted = trust.admit(BY_OPENSSL, Accepted::UpTo(7), 0).unwrap();
    assert_eq!(admitted.policy.revision, 7);
}

#[test]
fn all_else_is_refused_with_a_remedy() {
    let trust = trust();
    let good = sign(&revision(3), "one", &pair(1));
    let huge = format!("{}#{}\n", revision(3), "x".repeat(MAX_POLICY_BYTES));
    for (file, part) in [
        (revision(3), "not signed"),
        (String::new(), "not signed"),
        (
            sign(&revision(3), "one", &pair(2)),
            "another key of this name",
        ),
        (
            sign(&revision(3), "three", &pair(1)),
            "this device has one, two",
        ),
        (good.replace("= 3", "= 4"), "was changed"),
        (good.replace("\n#", "\n\n#"), "was changed"),
        (good.replace("3\n", "3\r\n"), "was changed"),
        (good.replace('\n', "\r\n"), "of the form"),
        (
            format!("{good}enabled = false\n"),
            "line 3 is a signature, but not",
        ),
        (sign(&good, "one", &pair(1)), "remove both"),
        (sign(&huge, "one", &pair(1)), "bytes"),
        (
            sign("version = 1\nnonsense = 1\n", "one", &pair(1)),
            "line 2",
        ),
        (sign("version = 1\0\n", "one", &pair(1)), "line 1"),
    ] {
        assert!(
            why(&trust, &file).contains(part),
            "{part}: {}",
            why(&trust, &file)
        );
    }
    let none = Trust {
        keys: Some(Keys::default()),
        takes_unsigned: false,
    };
    assert!(why(&none, &good).contains("this device has no key"));
    assert!(why(&none, &revision(3)).contains("not signed"));
}

#[test]
fn an_older_policy_is_refused() {
    let file = |number| sign(&revision(number), "one", &pair(1));
    let admit = |number, accepted, rom| trust().admit(&file(number), accepted, rom);
    assert!(admit(5, Accepted::UpTo(5), 5).is_ok());
    assert!(admit(6, Accepted::UpTo(5), 5).is_ok());
    let old = Err(Refused::Old {
        revision: 4,
        accepted: 5,
    });
    assert_eq!(admit(4, Accepted::UpTo(5), 9), old);
    let older = Err(Refused::OlderThanRom {
        revision: 4,
        rom: 5,
    });
    assert_eq!(admit(4, Accepted::UpTo(0), 5), older);
    assert_eq!(
        admit(u64::MAX >> 1, Accepted::Lost, 0),
        Err(Refused::RevisionLost)
    );
    // The signature is looked at first: who has no key learns no revision.
    let unsigned = trust().admit(&revision(1), Accepted::UpTo(5), 5);
    assert_eq!(unsigned, Err(Refused::Unsigned));
}

#[test]
fn without_a_signature_only_where_that_is_allowed() {
    let open = Trust {
        takes_unsigned: true,
        ..trust()
    };
    for accepted in [Accepted::UpTo(9), Accepted::Lost] {
        let admitted = open.admit(&revision(3), accepted, 9).unwrap();
        assert_eq!((admitted.policy.revision, admitted.key), (3, None));
        assert!(Trust::default().admit(&revision(3), accepted, 9).is_ok());
    }
    // A signature that is there must fit all the same, unless there is no folder of keys at all.
    let wrong = sign(&revision(3), "one", &pair(2));
    assert!(why(&open, &wrong).contains("does not fit"));
    assert!(Trust::default().admit(&wrong, Accepted::Lost, 9).is_ok());
}

proptest! {
    #[test]
    fn a_file_with_any_other_bit_or_length_is_refused(
        at in any::<prop::sample::Index>(), bit in 0..8_u8, lines in "[a-z =0-9\n#]{0,60}"
    ) {
        let file = sign(&format!("version = 1\n#{lines}\n"), "one", &pair(1));
        prop_assume!(trust().signs(&file));
        let mut bytes = file.clone().into_bytes();
        // Without the last line end, it is the same policy.
        let at = at.index(bytes.len() - 1);
        bytes.truncate(at);
        let cut = String::from_utf8(bytes).unwrap();
        prop_assert!(!trust().signs(&cut), "{cut:?}");
        let mut bytes = file.into_bytes();
        bytes[at] ^= 1 << bit;
        if let Ok(flipped) = String::from_utf8(bytes) {
            prop_assert!(!trust().signs(&flipped), "{flipped:?}");
        }
    }

    #[test]
    fn nothing_is_believed_that_nobody_has_signed(file in "(version = 1\n)?(\\PC|\n){0,80}(# signature: (one|x) [A-Za-z0-9+/]{85}[AQgw]==\n?)?") {
        prop_assert!(!trust().signs(&file));
        let _ = Trust { takes_unsigned: true, ..trust() }.admit(&file, Accepted::Lost, 0);
    }
}

impl Trust {
    /// Whether a key has signed the file, whatever else is wrong with it.
    fn signs(&self, file: &str) -> bool {
        match self.read(file) {
            Ok(admitted) => admitted.key.is_some(),
            Err(refused) => matches!(refused, Refused::Policy(_)) && file.len() <= MAX_POLICY_BYTES,
        }
    }
}
