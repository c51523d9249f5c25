// SPDX-License-Identifier: Apache-2.0
use hindsight_trace_format::catalogue::Category;
use hindsight_trace_format::container::Consent;
use hindsight_trace_format::protocol::TriggerSeverity;
use proptest::prelude::*;

use super::*;

fn parse(lines: &str) -> Result<Policy, PolicyError> {
    Policy::parse(&format!("version = 1\n{lines}"))
}

fn person(user: UserType, region: &str, agreed: Option<Level>) -> Person {
    Person {
        user,
        region: region.into(),
        agreed,
        ..Person::default()
    }
}

#[test]
fn the_listed_defaults_are_the_built_in_ones() {
    assert_eq!(Policy::parse(DEFAULT_TEXT), Ok(Policy::default()));
    assert_eq!(parse(""), Ok(Policy::default()));
}

/// The comments of the listed defaults are examples: they must be right.
#[test]
fn the_listed_examples_are_valid() {
    let lines = DEFAULT_TEXT
        .lines()
        .map(|line| match line.strip_prefix("# ") {
            Some(code) if code.starts_with("[[") || code.contains(" = ") => code,
            _ => line,
        });
    let text: Vec<&str> = lines.collect();
    let policy = Policy::parse(&text.join("\n")).unwrap();
    assert_eq!(policy.record.overrides().len(), 1);
    assert_eq!(policy.consent.regions.len(), 1);
}

#[test]
fn mistakes_are_refused_with_place_key_and_remedy() {
    let cases = [
        // The text, line, column, key, and a part of the problem.
        ("enabled = 1", 2, 11, "enabled", "expected a boolean"),
        ("enabeld = true", 2, 1, "enabeld", "expected one of"),
        (
            "[memory]\nbudget-mib = 0",
            3,
            14,
            "memory.budget-mib",
            "from 16 to 65536",
        ),
        (
            "[memory]\nbudget-mib = -1",
            3,
            14,
            "memory.budget-mib",
            "from 16 to 65536",
        ),
        (
            "[memory]\nbudget-mib = \"64\"",
            3,
            14,
            "memory.budget-mib",
            "from 16 to 65536",
        ),
        (
            "[memory]\nbudget-mib = 64.5",
            3,
            14,
            "memory.budget-mib",
            "from 16 to 65536",
        ),
        (
            "[memory]\nbudget = 64",
            3,
            1,
            "memory.budget",
            "`budget-mib`",
        ),
        (
            "[memory]\nring-share = 100",
            3,
            14,
            "memory.ring-share",
            "from 10 to 90",
        ),
        ("[memory]\n[memory]", 3, 2, "", "duplicate"),
        (
            "[record]\ncategories = [\"waits\", \"sleeps\"]",
            3,
            14,
            "record.categories",
            "waits, tasks",
        ),
        (
            "[record]\ncategories = \"all\"",
            3,
            14,
            "record.categories",
            "sequence",
        ),
        (
            "[[record.override]]\nrings = 1",
            2,
            1,
            "record.override",
            "write package or uid",
        ),
        (
            "[[record.override]]\nuid = 1\n[[record.override]]\nuid = 1",
            4,
            1,
            "record.override",
            "one of both",
        ),
        (
            "[[record.override]]\npackage = \"com.*.x\"",
            3,
            11,
            "record.override.package",
            "com.example.*",
        ),
        (
            "[[record.override]]\npackage = \"com*\"",
            3,
            11,
            "record.override.package",
            "com.example.*",
        ),
        (
            "[[record.override]]\nuid = 1\nconsent = \"all\"",
            4,
            11,
            "record.override.consent",
            "summary",
        ),
        (
            "[reports]\nkilled = \"always\"",
            3,
            10,
            "reports.killed",
            "foreground, all, none",
        ),
        (
            "[reports]\nseverities = [\"bad\"]",
            3,
            14,
            "reports.severities",
            "requested, slow",
        ),
        (
            "[limits]\ndevice = 5001",
            3,
            10,
            "limits.device",
            "from 0 to 5000",
        ),
        (
            "[uploads]\nselect = \"best\"",
            3,
            10,
            "uploads.select",
            "campaign",
        ),
        (
            "[uploads]\ncampaign = [\"com.example\"]",
            3,
            12,
            "uploads.campaign",
            "select",
        ),
        ("[consent.user]", 2, 10, "consent.user", "end-user"),
        (
            "[consent.beta]\nmost = \"everything\"",
            3,
            8,
            "consent.beta.most",
            "signatures",
        ),
        (
            "[[consent.region]]\nregions = [\"Germany\"]\nmost = \"none\"",
            3,
            11,
            "consent.region.regions",
            "two capitals",
        ),
        (
            "[[consent.region]]\nregions = [\"DE\"]",
            2,
            1,
            "consent.region",
            "missing field `most`",
        ),
        ("a", 2, 2, "", "expected"),
        ("\"é\" = 1 2", 2, 7, "", "quoted"),
    ];
    for (lines, line, column, key, problem) in cases {
        let error = parse(lines).unwrap_err();
        let found = (error.line, error.column, error.key.as_str());
        assert_eq!(found, (line, column, key), "{lines:?}: {error}");
        assert!(error.problem.contains(problem), "{lines:?}: {error}");
        assert!(!error.to_string().contains('\n'));
    }
}

#[test]
fn a_file_of_another_version_says_so_whatever_else_it_has() {
    for (text, line) in [
        ("new-key = 1\nversion = 2", 2),
        ("version = \"1\"", 1),
        ("version = 99999999999999999999", 1),
        ("", 1),
    ] {
        let error = Policy::parse(text).unwrap_err();
        assert!(error.problem.contains("write version = 1"), "{error}");
        assert_eq!(error.line, line);
    }
    let long = format!("version = 1\n{}", "#".repeat(MAX_POLICY_BYTES));
    assert!(Policy::parse(&long).is_err());
    let many: String = (0..5001)
        .map(|uid| format!("[[record.override]]\nuid={uid}\n"))
        .collect();
    assert!(parse(&many).unwrap_err().problem.contains("1000"));
}

#[test]
fn all_keys_are_read() {
    let policy = parse(
        "revision = 7\nenabled = false\n\
         [memory]\nbudget-mib = 64\nring-share = 40\nuid-share = 30\ncall-rings = 5\n\
         rings-per-process = 3\nprocesses = 9\nprocesses-per-uid = 4\n\
         [record]\ncategories = [\"waits\"]\n\
         [reports]\nkilled = \"all\"\ngrace-seconds = 9\nseverities = [\"fatal\"]\nqueue = 3\n\
         [limits]\nwindow-hours = 2\ndevice = 3\nper-uid = 2\nper-detector = 1\n\
         [uploads]\nwindow-hours = 1\ndevice = 1\nselect = \"campaign\"\ncampaign = [\"com.example.*\"]\n",
    )
    .unwrap();
    assert_eq!((policy.revision, policy.enabled), (7, false));
    let memory = Memory {
        budget_bytes: 64 << 20,
        ring_share: 40,
        uid_share: 30,
        call_rings: 5,
        rings_per_process: 3,
        processes: 9,
        processes_per_uid: 4,
    };
    assert_eq!(policy.memory, memory);
    let waits = Category::Waits.bit() | Category::Recording.bit();
    assert_eq!(policy.record.categories, waits);
    let reports = Reports {
        killed: Killed::All,
        grace_ns: 9_000_000_000,
        severities: vec![TriggerSeverity::Fatal],
        queue: 3,
    };
    assert_eq!(policy.reports, reports);
    let hour_ns = 3_600_000_000_000;
    let limits = Limits {
        window_ns: 2 * hour_ns,
        device: 3,
        per_uid: 2,
        per_detector: 1,
    };
    assert_eq!(policy.limits, limits);
    assert_eq!(
        (policy.uploads.window_ns, policy.uploads.device),
        (hour_ns, 1)
    );
    let severity = TriggerSeverity::Slow;
    assert!(policy.uploads.is_selected(severity, 1, "com.example.notes"));
    assert!(!policy
        .uploads
        .is_selected(severity, 1, "com.examples.notes"));
}

#[test]
fn uploads_are_selected_by_severity() {
    let severe = parse("[uploads]\nselect = \"severe\"").unwrap().uploads;
    assert!(severe.is_selected(TriggerSeverity::Fatal, 1, "a"));
    assert!(!severe.is_selected(TriggerSeverity::Stuck, 1, "a"));
    let first = Policy::default().uploads;
    assert!(first.is_selected(TriggerSeverity::Requested, 1, "a"));
}

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
            uid: None,
            package: Some(Package::parse(pattern).unwrap()),
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
fn nothing_is_recorded_of_whoever_is_off_or_has_not_agreed() {
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
}

#[test]
fn each_level_stands_for_strings_in_a_file() {
    let strings = Level::ALL.map(Level::strings);
    let [first, second, third] = Consent::ALL.map(Some);
    assert_eq!(strings, [None, first, second, third]);
    assert!(Level::ALL.is_sorted());
}

/// Pieces that policies are made of.
const PIECES: [&str; 24] = [
    "version = 1\n",
    "[memory]\n",
    "budget-mib",
    " = ",
    "64",
    "\"",
    "[[record.override]]\n",
    "package",
    "*",
    "com.example",
    "[",
    "]",
    "\n",
    "categories",
    "'''",
    "true",
    "-",
    "9999999999999999999999",
    "é",
    "\0",
    "uid = 1\n",
    ".",
    "{",
    "}",
];

proptest! {
    #[test]
    fn no_text_panics(text in any::<String>()) {
        let _ = Policy::parse(&text);
        let _ = Policy::parse(&format!("version = 1\n{text}"));
    }

    #[test]
    fn no_pieces_panic(pieces in prop::collection::vec(0..PIECES.len(), 0..40)) {
        let text: String = pieces.into_iter().map(|piece| PIECES[piece]).collect();
        let _ = parse(&text);
    }

    /// The error of a changed file is about the place of the change, or the file means what it says.
    #[test]
    fn no_changed_file_panics(at in 0..DEFAULT_TEXT.len(), to: char, deleted in 0..4_usize) {
        let mut chars: Vec<char> = DEFAULT_TEXT.chars().collect();
        let end = chars.len().min(at + deleted);
        chars.splice(at..end, [to]);
        let text: String = chars.into_iter().collect();
        if let Err(error) = Policy::parse(&text) {
            prop_assert!(error.line <= text.matches('\n').count() + 1);
        }
    }

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

#[test]
fn mistakes_in_rules_of_detectors_are_refused_with_place_key_and_remedy() {
    let method = "[[detectors.slow-method]]\npackage = \"a.b\"\n";
    let cases = [
        // The text, line, key, and a part of the problem.
        (
            "[detectors.slow-mesage]",
            2,
            "detectors.slow-mesage",
            "slow-message",
        ),
        (
            "[detectors]\nslow-input = 5",
            3,
            "detectors.slow-input",
            "write [slow-input]",
        ),
        (
            "[detectors.slow-message]\nlimit-ms = 0",
            3,
            "detectors.slow-message.limit-ms",
            "from 1 to 600000",
        ),
        (
            "[detectors.slow-message]\nlimit-ms = -4",
            3,
            "detectors.slow-message.limit-ms",
            "from 1 to 600000",
        ),
        (
            "[detectors.slow-message]\nlimit-ms = \"4\"",
            3,
            "detectors.slow-message.limit-ms",
            "a whole number",
        ),
        (
            "[detectors.slow-message]\nlimit = 4",
            3,
            "detectors.slow-message.limit",
            "limit-ms",
        ),
        (
            "[detectors.anr]\nenabled = 1",
            3,
            "detectors.anr.enabled",
            "true or false",
        ),
        (
            "[detectors.thermal]\ncelsius = 500",
            3,
            "detectors.thermal.celsius",
            "from 20 to 200",
        ),
        (
            "[detectors.slow-method]\nmethod = \"a.b\"",
            2,
            "detectors.slow-method",
            "[[detectors.slow-method]]",
        ),
        (
            "[[detectors.slow-method]]\nmethod = \"a.b.c\"",
            2,
            "detectors.slow-method",
            "write package or uid",
        ),
        (
            "[[detectors.slow-method]]\npackage = \"a.b\"",
            2,
            "detectors.slow-method",
            "the method is missing",
        ),
        (
            "[[detectors.slow-method]]\npackage = \"a b\"",
            3,
            "detectors.slow-method.package",
            "not a name",
        ),
        (
            "[[detectors.correlated]]\nname = \"X\"",
            3,
            "detectors.correlated.name",
            "small letters",
        ),
        (
            "[[detectors.correlated]]\nname = \"x\"",
            2,
            "detectors.correlated",
            "the conditions are missing",
        ),
        (
            "[[detectors.correlated]]\nname = \"x\"\nall = [{ metric = \"psi\", over = 1 }]",
            4,
            "detectors.correlated.all.metric",
            "psi-cpu-percent",
        ),
        (
            "[[detectors.correlated]]\nname = \"x\"\nall = [{ metric = \"frames\" }]",
            4,
            "detectors.correlated.all",
            "over is missing",
        ),
    ];
    for (text, line, key, problem) in cases {
        let error = parse(text).unwrap_err();
        assert_eq!(
            (error.line, error.key.as_str()),
            (line, key),
            "{text}: {error}"
        );
        assert!(error.problem.contains(problem), "{text}: {error}");
    }
    let no_method = |name: &str| parse(&format!("{method}method = \"{name}\"")).unwrap_err();
    for name in ["load", "a..b", "a.b()", &"a.b".repeat(100)] {
        assert!(no_method(name).problem.contains("is no method"), "{name}");
    }
    let nine = format!("{method}method = \"a.b.c\"\n").repeat(9);
    assert!(parse(&nine)
        .unwrap_err()
        .problem
        .contains("more than 8 methods"));
    let twice =
        "[[detectors.correlated]]\nname = \"x\"\nall = [{ metric = \"frames\", over = 1 }]\n"
            .repeat(2);
    assert!(parse(&twice).unwrap_err().problem.contains("a second rule"));
}
