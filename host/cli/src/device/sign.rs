// SPDX-License-Identifier: Apache-2.0
//! Keys that sign policies, and their signatures. docs/policy.md has the formats.

use std::fs::{self, OpenOptions};
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use anyhow::{bail, ensure, Context as _, Result};
use base64::prelude::{Engine as _, BASE64_STANDARD};
use ed25519_dalek::{Signer as _, SigningKey};

use crate::output::write_file;

/// What DER has before the 32 bytes of a private, and of a public Ed25519 key (RFC 8410).
const PRIVATE: [u8; 16] = [
    0x30, 0x2e, 2, 1, 0, 0x30, 5, 6, 3, 0x2b, 0x65, 0x70, 4, 0x22, 4, 0x20,
];
const PUBLIC: [u8; 12] = [0x30, 0x2a, 0x30, 5, 6, 3, 0x2b, 0x65, 0x70, 3, 0x21, 0];
const BEGINNING: &str = "# signature:";
const KEY: &str = "key";
/// The longest file that is read, bytes: more than any key or policy has.
const MAX_BYTES: u64 = 1 << 20;

fn pem(kind: &str, der: &[u8], key: &[u8]) -> String {
    let digits = BASE64_STANDARD.encode([der, key].concat());
    format!("-----BEGIN {kind} KEY-----\n{digits}\n-----END {kind} KEY-----\n")
}

fn read(path: &Path) -> Result<String> {
    let name = path.display();
    let length = fs::metadata(path)
        .with_context(|| format!("cannot read {name}"))?
        .len();
    ensure!(
        length <= MAX_BYTES,
        "{name} is too long for a key or a policy"
    );
    fs::read_to_string(path).with_context(|| format!("cannot read {name}"))
}

/// A key's name is the name of its file, without the ending.
fn key_name(path: &Path) -> Result<&str> {
    let name = path
        .file_stem()
        .and_then(|name| name.to_str())
        .unwrap_or_default();
    let is_plain = |c: char| c.is_ascii_alphanumeric() || ".-_".contains(c);
    let is_name = (1..=64).contains(&name.len()) && name.chars().all(is_plain);
    ensure!(
        is_name,
        "'{name}' is no name of a key: at most 64 letters, digits, '.', '-' or '_'"
    );
    Ok(name)
}

fn read_key(path: &Path) -> Result<SigningKey> {
    let text = read(path)?;
    let inside = text.trim().strip_prefix("-----BEGIN PRIVATE KEY-----");
    let inside = inside.and_then(|text| text.strip_suffix("-----END PRIVATE KEY-----"));
    let digits: String = inside
        .unwrap_or_default()
        .split_ascii_whitespace()
        .collect();
    let der = BASE64_STANDARD.decode(digits).unwrap_or_default();
    let seed = der
        .strip_prefix(&PRIVATE)
        .and_then(|seed| seed.try_into().ok());
    let seed = seed.with_context(|| {
        let name = path.display();
        format!("{name} is no private Ed25519 key as PEM: 'hindsight device policy new-key NAME' makes one")
    })?;
    Ok(SigningKey::from_bytes(&seed))
}

/// Makes the files NAME.key, which signs, and NAME.pem, which belongs into the ROM.
pub(super) fn new_key(name: &Path) -> Result<()> {
    let file = |ending: &str| {
        let mut path = name.as_os_str().to_owned();
        path.push(format!(".{ending}"));
        std::path::PathBuf::from(path)
    };
    let (private, public) = (file(KEY), file("pem"));
    key_name(&private)?;
    let mut seed = [0; 32];
    getrandom::fill(&mut seed).context("the system gives no random numbers")?;
    let key = SigningKey::from_bytes(&seed);
    ensure!(
        !public.exists(),
        "{} is there already: use another name",
        public.display()
    );
    let mut options = OpenOptions::new();
    options.write(true).create_new(true).mode(0o600);
    let made = options.open(&private);
    let mut made = made.with_context(|| format!("cannot make {}", private.display()))?;
    let written = made
        .write_all(pem("PRIVATE", &PRIVATE, &seed).as_bytes())
        .and_then(|()| made.sync_all())
        .with_context(|| format!("cannot write {}", private.display()));
    let text = pem("PUBLIC", &PUBLIC, key.verifying_key().as_bytes());
    let written = written.and_then(|()| write_file(&public, |out| out.write_all(text.as_bytes())));
    if written.is_err() {
        // Half of a key, or one whose other half nobody has, is of no use.
        let _ = fs::remove_file(&private);
    }
    written?;
    anstream::println!("{}: signs policies; keep it secret", private.display());
    anstream::println!(
        "{}: for the ROM, below /system/etc/hindsight/keys",
        public.display()
    );
    Ok(())
}

/// The text with a signature of this key at its end, in place of the one that it has.
fn signed(policy: &str, name: &str, key: &SigningKey) -> Result<String> {
    let whole = policy.trim_end_matches('\n');
    let (mut text, last) = whole.split_at(whole.rfind('\n').map_or(0, |newline| newline + 1));
    if !last.starts_with(BEGINNING) {
        text = policy;
    }
    if let Some(line) = text.lines().position(|line| line.starts_with(BEGINNING)) {
        bail!(
            "line {} is a signature that is not the last line: remove it",
            line + 1
        );
    }
    let has_revision = |line: &str| {
        let value = line.trim_start().strip_prefix("revision");
        value.is_some_and(|value| value.trim_start().starts_with('='))
    };
    ensure!(
        text.lines().any(has_revision),
        "the revision is missing: add 'revision = N' below the version, higher than that of the policy before, as devices refuse older ones"
    );
    let end = if text.ends_with('\n') { "" } else { "\n" };
    let text = format!("{text}{end}");
    let signature = BASE64_STANDARD.encode(key.sign(text.as_bytes()).to_bytes());
    Ok(format!("{text}{BEGINNING} {name} {signature}\n"))
}

/// Signs a policy file: in place, or into another file.
pub(super) fn sign(policy: &Path, key: &Path, output: Option<&Path>) -> Result<()> {
    let name = key_name(key)?;
    let text = signed(&read(policy)?, name, &read_key(key)?);
    let text = text.with_context(|| policy.display().to_string())?;
    write_file(output.unwrap_or(policy), |out| {
        out.write_all(text.as_bytes())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "version = 1\nrevision = 7\n";
    /// Made by OpenSSL 3: `openssl genpkey -algorithm ed25519`, and `openssl pkeyutl -sign -rawin` of [`TEXT`].
    const PRIVATE_PEM: &str = "-----BEGIN PRIVATE KEY-----\nMC4CAQAwBQYDK2VwBCIEIFgwiqskGvyQhfrW8eEMKPOVTmgoQZzk/RjN0J3edXZr\n-----END PRIVATE KEY-----\n";
    const LINE: &str = "# signature: fleet nu5CqgUAtyFxvCXdR1ATx4q27BC7Z3QykRTegq6A3f0gaDyzTs4pyNHe6ei6DUN5DoscEf6CieERUOSErN0SDg==\n";

    #[test]
    fn a_policy_is_signed_as_openssl_signs_it_and_again_in_place() {
        let folder = tempfile::tempdir().unwrap();
        let (key, policy) = (
            folder.path().join("fleet.key"),
            folder.path().join("p.toml"),
        );
        fs::write(&key, PRIVATE_PEM).unwrap();
        for text in [
            TEXT,
            TEXT.trim_end(),
            &format!("{TEXT}# signature: other x\n"),
        ] {
            fs::write(&policy, text).unwrap();
            for _ in 0..2 {
                sign(&policy, &key, None).unwrap();
                assert_eq!(
                    fs::read_to_string(&policy).unwrap(),
                    format!("{TEXT}{LINE}")
                );
            }
        }
        let other = folder.path().join("out.toml");
        sign(&policy, &key, Some(&other)).unwrap();
        assert_eq!(fs::read(&policy).unwrap(), fs::read(&other).unwrap());
    }

    #[test]
    fn what_cannot_be_signed_is_named_with_the_remedy() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        fs::write(path("fleet.key"), PRIVATE_PEM).unwrap();
        fs::write(path("a b.key"), PRIVATE_PEM).unwrap();
        fs::write(path("bad.key"), PRIVATE_PEM.replace("MC4C", "MC4D")).unwrap();
        fs::write(path("good"), TEXT).unwrap();
        fs::write(path("old"), "version = 1\n").unwrap();
        fs::write(path("after"), format!("{TEXT}{LINE}enabled = true\n")).unwrap();
        fs::write(path("binary"), b"\xff").unwrap();
        for (policy, key, part) in [
            ("good", "bad.key", "no private Ed25519 key"),
            ("good", "good", "no private Ed25519 key"),
            ("good", "none.key", "cannot read"),
            ("good", "a b.key", "no name of a key"),
            ("old", "fleet.key", "the revision is missing"),
            ("after", "fleet.key", "line 3 is a signature"),
            ("binary", "fleet.key", "cannot read"),
        ] {
            let problem = sign(&path(policy), &path(key), None).unwrap_err();
            let problem = format!("{problem:#}");
            assert!(problem.contains(part), "{policy}, {key}: {problem}");
        }
    }

    #[test]
    fn a_new_key_is_secret_and_never_replaces_another() {
        use std::os::unix::fs::PermissionsExt as _;
        let folder = tempfile::tempdir().unwrap();
        let name = folder.path().join("fleet-2026");
        new_key(&name).unwrap();
        let private = folder.path().join("fleet-2026.key");
        let mode = fs::metadata(&private).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        let key = read_key(&private).unwrap();
        let public = fs::read_to_string(folder.path().join("fleet-2026.pem")).unwrap();
        assert_eq!(
            public,
            pem("PUBLIC", &PUBLIC, key.verifying_key().as_bytes())
        );
        assert!(new_key(&name).is_err());
        fs::remove_file(folder.path().join("fleet-2026.pem")).unwrap();
        assert!(new_key(&name).is_err());
        assert!(new_key(&folder.path().join("a b")).is_err());
        new_key(&folder.path().join("other")).unwrap();
        assert_ne!(key, read_key(&folder.path().join("other.key")).unwrap());
    }
}
