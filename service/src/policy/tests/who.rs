// SPDX-License-Identifier: Apache-2.0
//! What holds for which process, and whose consent counts.

use hindsight_trace_format::container::Consent;
use proptest::prelude::*;

use super::{parse, person};
use crate::policy::*;

#[test]
fn names_match_packages_with_their_processes() {
    let cases = [
        ("com.example.notes", "com.example.notes", true),
        ("com.example.notes", "com.example.notes:sync", true),
        ("com.example.notes", "com.example.notes2", false),
        ("com.example.notes:sync", "com.example.notes", false),
        ("com.example.*", "com.example.notes", true),
        ("com.example.*", "com.example", false),
        ("com.example.*", "com.examples.x", false),
        ("*", "system_server", true),
        ("*", "", true),
    ];
    for (pattern, name, expected) in cases {
        let of = Selector {
            package: Some(Package::parse(pattern).unwrap()),
            ..Selector::default()
        };
        assert_eq!(of.matches(1, name), expected, "{pattern} and {name}");
    }
    for wrong in [
        "",
        ".*",
        "com.*.x",
        "com*",
        "a b",
        "a\n",
        "**",
        &"a".repeat(257),
    ] {
        assert!(Package::parse(wrong).is_err(), "{wrong}");
    }
}

#[test]
fn the_most_specific_override_that_has_a_key_decides() {
    let text = "[[record.override]]\npackage = \"*\"\nrings = 1\nbackground = true\n\
                [[record.override]]\npackage = \"com.example.*\"\nrings = 2\ncategories = []\n\
                [[record.override]]\npackage = \"com.example.notes\"\nrings = 3\n\
                [[record.override]]\npackage = \"com.example.notes:sync\"\nrings = 4\n\
                [[record.override]]\nuid = 7\nrings = 5\n\
                [[record.override]]\nuid = 7\npackage = \"com.example.*\"\nrings = 6\n";
    // The order in the file does not matter.
    let mut parts: Vec<String> = text.split("[[").skip(1).map(|p| format!("[[{p}")).collect();
    for _ in 0..2 {
        let policy = parse(&parts.concat()).unwrap();
        let all = Policy::default().record.categories;
        let cases = [
            (1, "org.sample", 1, all),
            (1, "com.example.maps", 2, 0),
            (1, "com.example.notes", 3, 0),
            (1, "com.example.notes:ui", 3, 0),
            (1, "com.example.notes:sync", 4, 0),
            (7, "org.sample", 5, all),
            (7, "com.example.notes:sync", 6, 0),
        ];
        for (uid, name, rings, categories) in cases {
            let person = person(UserType::Internal, "", None);
            let found = policy.recording(&person, uid, name);
            let expected = Recording {
                categories,
                rings,
                background: true,
                level: Level::Full,
            };
            assert_eq!(found, expected, "{uid} {name}");
        }
        parts.reverse();
    }
}

#[test]
fn an_app_id_holds_for_the_app_of_all_android_users_and_a_uid_for_one() {
    let bank = "[[record.override]]\napp-id = 10123\nenabled = false\n";
    let own = "[[record.override]]\nuid = 1010123\nenabled = true\n";
    let person = person(UserType::Internal, "", None);
    // Of the first user, in a work profile (user 10), and another app.
    let recorded = |text: &str| {
        let policy = parse(text).unwrap();
        [10_123, 1_010_123, 1_010_124, 123].map(|uid| {
            let by_name = policy.recording(&person, uid, "any.name");
            assert_eq!(policy.recording_unnamed(&person, uid), by_name, "{uid}");
            by_name != Recording::default()
        })
    };
    assert_eq!(recorded(bank), [false, false, true, true]);
    assert_eq!(
        recorded(&bank.replace("app-id", "uid")),
        [false, true, true, true]
    );
    for text in [format!("{bank}{own}"), format!("{own}{bank}")] {
        assert_eq!(recorded(&text), [false, true, true, true]);
    }
    let named = format!("{bank}[[record.override]]\npackage = \"any.name\"\nenabled = true\n");
    let policy = parse(&named).unwrap();
    let found = policy.recording(&person, 1_010_123, "any.name");
    assert_eq!(found, Recording::default(), "a process chooses its name");
    let methods = "[[detectors.slow-method]]\napp-id = 10123\nmethod = \"a.b.c\"\n";
    let detectors = parse(methods).unwrap().detectors;
    assert!(detectors.watches_methods(1_010_123, "x"));
    assert!(!detectors.watches_methods(1_010_124, "x"));
}

#[test]
fn without_consent_or_switched_off_nothing_is_recorded() {
    let internal = person(UserType::Internal, "DE", None);
    let nothing = Recording::default();
    let of = |lines: &str, person: &Person| parse(lines).unwrap().recording(person, 1, "a");
    assert_ne!(of("", &internal), nothing);
    assert_eq!(of("enabled = false", &internal), nothing);
    assert_eq!(
        of("[[record.override]]\nuid = 1\nenabled = false", &internal),
        nothing
    );
    assert_eq!(
        of(
            "[[record.override]]\nuid = 1\nconsent = \"none\"",
            &internal
        ),
        nothing
    );
    assert_eq!(of("", &Person::default()), nothing);
    let switched_off = "enabled = false\n[[record.override]]\nuid = 1\nenabled = true";
    assert_eq!(
        of(switched_off, &internal),
        nothing,
        "enabled = false stops everything"
    );
}

#[test]
fn consent_depends_on_user_type_agreement_and_region() {
    use Level::{Full, None as Nothing, Signatures, Summary};
    let rules = "[consent.beta]\nmost = \"signatures\"\n\
                 [[consent.region]]\nregions = [\"DE\", \"FR\"]\nmost = \"signatures\"\n\
                 [[consent.region]]\nregions = [\"FR\"]\nuser = \"end-user\"\nmost = \"summary\"\n";
    let policy = parse(rules).unwrap();
    let cases = [
        // An end user is asked, a tester may be, the maker's own people need not be.
        (UserType::EndUser, "US", None, Nothing),
        (UserType::Beta, "US", None, Summary),
        (UserType::Internal, "US", None, Full),
        (UserType::EndUser, "US", Some(Full), Full),
        (UserType::Beta, "US", Some(Full), Signatures),
        (UserType::Beta, "US", Some(Nothing), Nothing),
        (UserType::Internal, "US", Some(Summary), Summary),
        (UserType::EndUser, "DE", Some(Full), Signatures),
        (UserType::EndUser, "FR", Some(Full), Summary),
        (UserType::Internal, "FR", Some(Full), Signatures),
        // Nobody knows where: all rules hold.
        (UserType::EndUser, "", Some(Full), Summary),
    ];
    for (user, region, agreed, expected) in cases {
        let person = person(user, region, agreed);
        let found = policy.consent.level(&person, 10_001);
        assert_eq!(found, expected, "{user:?} {region} {agreed:?}");
    }
    // A second Android user has not agreed.
    let mut person = person(UserType::EndUser, "US", Some(Full));
    person.agreed_by_user.insert(10, Nothing);
    assert_eq!(policy.consent.level(&person, 10_001), Full);
    assert_eq!(policy.consent.level(&person, 1_010_001), Nothing);
    // The system server works for both.
    assert_eq!(policy.consent.level(&person, 1000), Nothing);
    person.agreed_by_user.insert(10, Summary);
    assert_eq!(policy.consent.level(&person, 1000), Summary);
}

#[test]
fn consent_depends_on_the_device_model() {
    use Level::{Full, Signatures, Summary};
    let rules = "[[consent.region]]\nmodels = [\"Phone 3\", \"Tablet*\"]\nmost = \"signatures\"\n\
                 [[consent.region]]\nmodels = [\"Phone 3\"]\nregions = [\"FR\"]\nuser = \"beta\"\nmost = \"summary\"\n";
    let policy = parse(rules).unwrap();
    let cases = [
        ("Phone 3", "US", UserType::Internal, Signatures),
        ("Phone 3a", "US", UserType::Internal, Full),
        ("phone 3", "US", UserType::Internal, Full),
        ("Tablet", "US", UserType::Internal, Signatures),
        ("Tablet 12 Pro", "FR", UserType::Beta, Signatures),
        // All four decide: user type, region, model, and what was agreed to.
        ("Phone 3", "FR", UserType::Beta, Summary),
        ("Phone 3", "DE", UserType::Beta, Signatures),
        ("Phone 3", "FR", UserType::Internal, Signatures),
        ("Phone 4", "FR", UserType::Beta, Full),
        // Nobody knows which model, or where: the rules of all hold.
        ("", "FR", UserType::Beta, Summary),
        ("Phone 3", "", UserType::Beta, Summary),
    ];
    for (model, region, user, expected) in cases {
        let mut person = person(user, region, Some(Full));
        person.model = model.into();
        let found = policy.consent.level(&person, 10_001);
        assert_eq!(found, expected, "{model} {region} {user:?}");
        person.agreed = Some(Level::None);
        assert_eq!(policy.consent.level(&person, 10_001), Level::None);
    }
}

#[test]
fn each_level_stands_for_strings_in_a_file() {
    let strings = Level::ALL.map(Level::strings);
    let [first, second, third] = Consent::ALL.map(Some);
    assert_eq!(strings, [None, first, second, third]);
    assert!(Level::ALL.is_sorted());
    for level in Consent::ALL {
        assert_eq!(Level::of_strings(level).strings(), Some(level));
    }
}

proptest! {
    #[test]
    fn no_recording_is_above_what_the_user_agreed_to(
        agreed in prop::option::of(0..4_usize),
        most in 0..4_usize,
        own in 0..4_usize,
        user in 0..3_usize,
    ) {
        let [agreed_name, most_name, own_name] =
            [agreed.unwrap_or(0), most, own].map(|level| Level::ALL[level].name());
        prop_assert_eq!(Level::from_name(agreed_name).is_some(), true);
        let user = UserType::ALL[user];
        let text = format!(
            "[consent.{}]\nmost = \"{most_name}\"\n[[record.override]]\nuid = 1\nconsent = \"{own_name}\"",
            user.name()
        );
        let person = person(user, "DE", agreed.map(|level| Level::ALL[level]));
        let found = parse(&text).unwrap().recording(&person, 1, "a").level;
        prop_assert!(found <= Level::ALL[most] && found <= Level::ALL[own]);
        prop_assert!(agreed.is_none_or(|agreed| found <= Level::ALL[agreed]));
    }
}
