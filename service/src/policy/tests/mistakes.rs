// SPDX-License-Identifier: Apache-2.0
//! Files with mistakes.

use proptest::prelude::*;

use super::parse;
use crate::policy::*;

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
            "write package, app-id or uid",
        ),
        (
            "[[record.override]]\nuid = 1\napp-id = 1\nrings = 1",
            2,
            1,
            "record.override",
            "keep app-id",
        ),
        (
            "[[record.override]]\napp-id = 1010123\nrings = 1",
            3,
            10,
            "record.override.app-id",
            "from 0 to 99999",
        ),
        (
            "[[record.override]]\nuid = 1\nrings = 1\n[[record.override]]\nuid = 1\nrings = 2",
            5,
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
        (
            "[uploads]\ndevice = 5\nselect = \"campaign\"",
            4,
            10,
            "uploads.select",
            "add campaign",
        ),
        (
            "[uploads]\nselect = \"campaign\"\ncampaign = []",
            3,
            10,
            "uploads.select",
            "add campaign",
        ),
        (
            "[uploads]\nselect = \"campaign\"\ncampaign = [\"com..x\"]",
            4,
            12,
            "uploads.campaign",
            "no process has such a name",
        ),
        (
            "[[record.override]]\npackage = \"com..x\"\nrings = 1",
            2,
            1,
            "record.override",
            "no process has such a name",
        ),
        (
            "[[record.override]]\npackage = \"com.x\"\nuid = 1",
            2,
            1,
            "record.override",
            "it changes nothing",
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
        (
            "[[consent.region]]\nmost = \"none\"",
            2,
            1,
            "consent.region",
            "write regions or models",
        ),
        (
            "[[consent.region]]\nmodels = []\nmost = \"none\"",
            2,
            1,
            "consent.region",
            "write regions or models",
        ),
        (
            "[[consent.region]]\nmodels = [\"Phone\", \"*\"]\nmost = \"none\"",
            3,
            10,
            "consent.region.models",
            "its beginning and a star",
        ),
        (
            "[[consent.region]]\nmodels = [\"P*3\"]\nmost = \"none\"",
            3,
            10,
            "consent.region.models",
            "\"P*3\" is no device model",
        ),
        (
            "[reports]\nlog-kib = 65",
            3,
            11,
            "reports.log-kib",
            "from 0 to 64",
        ),
        ("a", 2, 2, "", "expected"),
        ("\"é\" = 1 2", 2, 7, "", "quoted"),
    ];
    for (lines, line, column, key, problem) in cases {
        let error = Policy::parse_new(&format!("version = 1\n{lines}")).unwrap_err();
        let found = (error.line, error.column, error.key.as_str());
        assert_eq!(found, (line, column, key), "{lines:?}: {error}");
        assert!(error.problem.contains(problem), "{lines:?}: {error}");
        assert!(!error.to_string().contains('\n'));
    }
}

#[test]
fn what_has_no_effect_is_refused_only_when_it_is_loaded() {
    for lines in [
        "[[record.override]]\npackage = \"com.x\"",
        "[[record.override]]\npackage = \"com..x\"\nrings = 1",
        "[uploads]\nselect = \"campaign\"",
        "[uploads]\nselect = \"campaign\"\ncampaign = [\"com..x\"]",
        "[detectors.slow-start]\nlimit-ms = 30000",
    ] {
        let text = format!("version = 1\n{lines}");
        assert!(Policy::parse_new(&text).is_err(), "{lines:?}");
        assert!(Policy::parse(&text).is_ok(), "{lines:?}");
    }
    // A detector that is off may have any limit.
    let off = "version = 1\n[detectors.slow-start]\nenabled = false\nlimit-ms = 30000";
    assert!(Policy::parse_new(off).is_ok());
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
        .map(|uid| format!("[[record.override]]\nuid={uid}\nrings=1\n"))
        .collect();
    assert!(parse(&many).unwrap_err().problem.contains("1000"));
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
            "[detectors.slow-start]\nlimit-ms = 20001",
            2,
            "detectors.slow-start",
            "raise most-ms",
        ),
        (
            "[detectors.slow-start]\nmost-ms = 2000",
            2,
            "detectors.slow-start",
            "above most-ms (2000)",
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
            "write package, app-id or uid",
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
        let error = Policy::parse_new(&format!("version = 1\n{text}")).unwrap_err();
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
}
