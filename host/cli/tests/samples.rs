// SPDX-License-Identifier: Apache-2.0
//! The recorded samples in `samples/`, and what the README shows of them.

use std::path::Path;

use assert_cmd::Command;

const CHECKOUT: &str = env!("HINDSIGHT_CHECKOUT");
/// The README's first command, without cargo.
const SAMPLE: &str = "samples/notes-stall.hindsight";

fn hindsight(arguments: &[&str]) -> String {
    let output = Command::cargo_bin("hindsight")
        .unwrap()
        .args(arguments)
        .current_dir(CHECKOUT)
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn the_readme_shows_what_its_first_command_prints() {
    let readme = std::fs::read_to_string(Path::new(CHECKOUT).join("README.md")).unwrap();
    let command = format!("    cargo run -p hindsight-cli -- why {SAMPLE}\n\n");
    let (_, shown) = readme
        .split_once(&command)
        .expect("the README's first command");
    let printed: String = hindsight(&["why", SAMPLE, "--width", "112", "--color", "never"])
        .lines()
        .map(|line| match line {
            "" => "\n".to_owned(),
            line => format!("    {line}\n"),
        })
        .collect();
    assert!(
        shown.starts_with(&printed),
        "README.md does not show what `hindsight why {SAMPLE} --width 112` prints:\n{printed}"
    );
}

#[test]
fn the_stall_of_the_sample_has_the_culprit_of_the_apps_source() {
    let json: serde_json::Value =
        serde_json::from_str(&hindsight(&["why", SAMPLE, "--json"])).unwrap();
    let text = json.to_string();
    assert!(
        text.contains("com.example.notes.NoteFile.syncToFlash"),
        "{text}"
    );
    assert_eq!(json["stall"], true, "{text}");
}

#[test]
fn the_sample_of_events_leads_to_the_culprit_of_the_apps_source() {
    let printed = hindsight(&["diagnose", "samples/notes-events.hindsight", "--json"]);
    let json: serde_json::Value = serde_json::from_str(&printed).unwrap();
    let culprit = &json["culprit"];
    assert_eq!(
        culprit["threads"][0]["method"], "com.example.notes.NoteFile.syncToFlash",
        "{culprit}"
    );
    assert_eq!(culprit["threads"][0]["thread"], "notes-sync", "{culprit}");
    assert_eq!(culprit["certainty"], "recorded", "{culprit}");
    let printed = hindsight(&["why", "samples/notes-events.hindsight", "--json"]);
    let why: serde_json::Value = serde_json::from_str(&printed).unwrap();
    assert_eq!(&why["diagnoses"][0]["culprit"], culprit);
    assert_eq!(
        why["told"][0]["culprit"][0],
        culprit["threads"][0]["method"]
    );
}

#[test]
fn samples_stay_small() {
    let bytes: u64 = std::fs::read_dir(Path::new(CHECKOUT).join("samples"))
        .unwrap()
        .map(|entry| entry.unwrap().metadata().unwrap().len())
        .sum();
    assert!(
        bytes <= 300 * 1024,
        "samples/ has {bytes} bytes, over 300 KiB"
    );
}
