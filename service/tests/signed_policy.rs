// SPDX-License-Identifier: Apache-2.0
//! Signed policies, through the socket for commands, and over restarts of the service.

mod common;

use std::fs;

use common::{Service, POLICY};
use ed25519_compact::{KeyPair, Seed};

/// The key pair that made [`signed`]; the test's own base64 is not the service's.
fn pair() -> KeyPair {
    KeyPair::from_seed(Seed::new([9; 32]))
}

fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let bit = |at: usize| bytes.get(at / 8).map_or(0, |byte| byte >> (7 - at % 8) & 1);
    let digit = |i: usize| DIGITS[(0..6).fold(0, |d, b| d << 1 | usize::from(bit(i * 6 + b)))];
    let mut text: String = (0..(bytes.len() * 8).div_ceil(6))
        .map(|i| char::from(digit(i)))
        .collect();
    while text.len() % 4 != 0 {
        text.push('=');
    }
    text
}

/// A policy that switches recording off, so that it can be told from the one of the start.
fn signed(revision: u32) -> String {
    let text = format!("version = 1\nrevision = {revision}\nenabled = false\n");
    let signature = pair().sk.sign(&text, None);
    format!("{text}# signature: rom {}\n", base64(&signature[..]))
}

fn start(options: &[&str]) -> (Service, tempfile::TempDir) {
    let keys = tempfile::tempdir().unwrap();
    let der = [0x30, 0x2a, 0x30, 5, 6, 3, 0x2b, 0x65, 0x70, 3, 0x21, 0];
    let key = base64(&[&der[..], &pair().pk[..]].concat());
    let pem = format!("-----BEGIN PUBLIC KEY-----\n{key}\n-----END PUBLIC KEY-----\n");
    fs::write(keys.path().join("rom.pem"), pem).unwrap();
    let folder = ["--policy-keys", keys.path().to_str().unwrap()];
    (Service::start(POLICY, &[&folder, options].concat()), keys)
}

fn load(service: &Service, text: &str) -> String {
    service.ask(&format!("policy -\n{text}")).remove(0)
}

fn is_on(service: &Service) -> bool {
    service.status()["engine"]["enabled"] == true
}

fn restart(service: &mut Service) {
    service.kill();
    service.start_again();
}

fn state(service: &Service, name: &str) -> std::path::PathBuf {
    service.path("store").join(format!("{name}.state"))
}

#[test]
fn only_signed_policies_are_taken_and_no_older_one_comes_back() {
    let (mut service, _keys) = start(&[]);
    let refused = load(&service, "version = 1\nenabled = false\n");
    assert!(refused.contains("it is not signed"), "{refused}");
    let changed = signed(5).replace("= 5", "= 6");
    assert!(load(&service, &changed).contains("was changed"));
    let checked = service.ask(&format!("policy check -\n{changed}"));
    assert!(checked[0].contains("was changed"), "{checked:?}");
    assert_eq!(
        service.ask(&format!("policy check -\n{}", signed(5))),
        ["ok"]
    );
    assert!(is_on(&service));
    assert_eq!(load(&service, &signed(5)), "ok");
    assert!(!is_on(&service));
    let dump = service.ask("dump").join("\n");
    assert!(
        dump.contains("the key rom; signed ones are taken from revision 5"),
        "{dump}"
    );
    restart(&mut service);
    assert!(!is_on(&service), "it is in force again");
    assert!(load(&service, &signed(4)).contains("a policy of revision 5 was in force"));
    // The ROM's policy is allowed, and makes no older one new.
    assert_eq!(service.ask("policy default"), ["ok"]);
    assert!(is_on(&service));
    restart(&mut service);
    assert!(is_on(&service));
    assert!(load(&service, &signed(4)).contains("a policy of revision 5 was in force"));
    assert_eq!(load(&service, &signed(5)), "ok");
}

#[test]
fn a_policy_on_disk_that_nobody_signed_records_nothing() {
    let (mut service, _keys) = start(&["--unsigned-policies", "1"]);
    assert_eq!(load(&service, "version = 1\nrevision = 3\n"), "ok");
    assert!(is_on(&service));
    restart(&mut service);
    assert!(is_on(&service), "allowed here");
    service.drop_options(2);
    restart(&mut service);
    assert!(!is_on(&service), "only signed policies are taken now");
    let nothing = service.ask("policy show").join("\n");
    assert!(nothing.contains("cannot be read"), "{nothing}");
    assert_eq!(service.ask("policy default"), ["ok"]);
    assert!(is_on(&service));
}

#[test]
fn a_lost_revision_is_that_of_the_policy_in_force_or_nothing_is_taken() {
    let (mut service, _keys) = start(&[]);
    assert_eq!(load(&service, &signed(5)), "ok");
    fs::write(state(&service, "revision"), "nonsense").unwrap();
    restart(&mut service);
    assert!(!is_on(&service));
    assert!(load(&service, &signed(4)).contains("a policy of revision 5 was in force"));
    for damage in [
        |path| fs::write(path, "").unwrap(),
        |path| fs::remove_file(path).unwrap(),
    ] {
        let (mut service, _keys) = start(&[]);
        assert_eq!(load(&service, &signed(5)), "ok");
        assert_eq!(service.ask("policy default"), ["ok"]);
        let path: std::path::PathBuf = state(&service, "revision");
        damage(path);
        restart(&mut service);
        assert!(is_on(&service), "the ROM's own policy needs no revision");
        assert!(load(&service, &signed(9)).contains("has lost the revision"));
        restart(&mut service);
        assert!(load(&service, &signed(9)).contains("has lost the revision"));
    }
}

#[test]
fn a_device_whose_older_service_knew_no_signatures_takes_signed_policies_after_its_update() {
    for age_is_damaged in [false, true] {
        let (mut service, _keys) = start(&[]);
        service.kill();
        // As the service before wrote it: no revision, and an age without the last line.
        fs::remove_file(state(&service, "revision")).unwrap();
        let age = fs::read_to_string(state(&service, "age")).unwrap();
        let text = age.split("# end of ").next().unwrap();
        let old = text.replace("keeps_revision = true\n", "");
        assert_ne!(old, text);
        let hash = old.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        });
        let length = old.len() + usize::from(age_is_damaged);
        let old = format!("{old}# end of {length} bytes, {hash:016x}\n");
        fs::write(state(&service, "age"), old).unwrap();
        service.start_again();
        let answer = load(&service, &signed(5));
        // Of a damaged file nobody knows what wrote it.
        let is_taken = !age_is_damaged;
        assert_eq!(answer == "ok", is_taken, "{answer}");
        restart(&mut service);
        assert_eq!(is_on(&service), !is_taken);
        let answer = load(&service, &signed(4));
        let why = [
            "has lost the revision",
            "a policy of revision 5 was in force",
        ];
        assert!(answer.contains(why[usize::from(is_taken)]), "{answer}");
    }
}

#[test]
fn the_roms_own_newer_policy_replaces_an_older_signed_one() {
    let (mut service, _keys) = start(&[]);
    assert_eq!(load(&service, &signed(5)), "ok");
    let path = service.path("policy.toml");
    fs::write(
        &path,
        POLICY.replace("version = 1", "version = 1\nrevision = 6"),
    )
    .unwrap();
    restart(&mut service);
    assert!(is_on(&service));
    assert!(load(&service, &signed(5)).contains("the ROM's own policy has revision 6"));
    assert_eq!(load(&service, &signed(6)), "ok");
}
