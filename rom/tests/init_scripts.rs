// SPDX-License-Identifier: Apache-2.0
//! The init scripts of the programs: only what init of all releases knows, and what belongs together in them and in the programs.

mod common;

use common::checkout;
use std::collections::BTreeSet;

/// Options of a service and commands that init of Android 10 knows; 11 and 14 know them, too.
const OPTIONS: [&str; 11] = [
    "class",
    "disabled",
    "user",
    "group",
    "socket",
    "priority",
    "ioprio",
    "oom_score_adjust",
    "rlimit",
    "writepid",
    "capabilities",
];
const COMMANDS: [&str; 5] = ["mkdir", "setprop", "start", "stop", "chmod"];
const SCRIPTS: [&str; 3] = ["hindsightd", "hindsight_perfetto", "hindsight_upload"];

fn script(name: &str) -> String {
    let path = checkout().join("aosp/common/service").join(name);
    std::fs::read_to_string(path).unwrap()
}

#[test]
fn init_of_all_releases_knows_the_scripts() {
    for name in SCRIPTS {
        let script = script(&format!("{name}.rc"));
        let mut in_service = false;
        let mut options = BTreeSet::new();
        for line in script
            .lines()
            .filter(|line| !line.starts_with('#') && !line.is_empty())
        {
            let word = line.split_whitespace().next().unwrap();
            if !line.starts_with(' ') {
                assert!(["on", "service"].contains(&word), "{line}");
                in_service = word == "service";
                continue;
            }
            let known: &[&str] = if in_service { &OPTIONS } else { &COMMANDS };
            assert!(known.contains(&word), "{line}");
            if in_service {
                options.insert(word);
            }
        }
        // Off until it is started; not root; restarted by init when it ends.
        assert!(["disabled", "user", "group"]
            .iter()
            .all(|option| options.contains(option)));
        assert!(!options.contains("capabilities"));
        // A service can be started and stopped by its name.
        for command in ["start", "stop"] {
            assert!(
                script.contains(&format!("    {command} {name}\n")),
                "{name}"
            );
        }
        assert!(
            script.contains(&format!("\nservice {name} /system/bin/")),
            "{name}"
        );
    }
}

/// The lines of a service in a script: its words after the program, and its options.
fn service(name: &str) -> (Vec<String>, BTreeSet<String>) {
    let script = script(&format!("{name}.rc"));
    let (_, service) = script.split_once("\nservice ").unwrap();
    let mut lines = service.lines();
    let words = lines.next().unwrap().split(' ').skip(1);
    let words = words.map(str::to_owned).collect();
    (words, lines.map(|line| line.trim().to_owned()).collect())
}

/// The uploader is another user than hindsightd, may use the network, and is the only one that hindsightd's socket is for.
#[test]
fn the_uploader_and_its_socket_have_one_user() {
    let (words, options) = service("hindsight_upload");
    let socket = "/dev/socket/hindsightd_uploads";
    assert_eq!(
        words[..3],
        ["/system/bin/hindsight-upload", "--service", socket]
    );
    assert!(options.contains("user metrics_coll"));
    assert!(options.contains("group metrics_coll inet"));
    let (_, of_service) = service("hindsightd");
    assert!(of_service.contains("socket hindsightd_uploads stream 0660 nobody metrics_coll"));
    assert!(script("hindsightd.cc").contains("kUploaderUid[] = \"1042\";"));
    // No collector: not started.
    let starts =
        "on property:persist.hindsight.service=1 && property:ro.hindsight.collector=*\n    start";
    assert!(script("hindsight_upload.rc").contains(starts));
    // hindsightd decides when to send, not a file.
    assert!(!words.iter().any(|word| word == "--conditions"));
}

/// The data source is served as hindsightd's own user, and may write to the socket for commands by its group.
#[test]
fn the_data_source_may_give_commands() {
    let (_, of_service) = service("hindsightd");
    assert!(of_service.contains("socket hindsightd_commands stream 0660 system shell"));
    assert!(of_service.contains("user nobody"));
    let (_, options) = service("hindsight_perfetto");
    assert!(options.contains("user nobody") && options.contains("group nobody shell"));
}
