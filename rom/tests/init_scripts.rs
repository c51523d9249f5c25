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

/// The data source is served as hindsightd's own user. The socket for commands is open to all by its mode: Settings of a second Android
/// user has no group in common with the first one's.
#[test]
fn the_data_source_may_give_commands() {
    let (_, of_service) = service("hindsightd");
    assert!(of_service.contains("socket hindsightd_commands stream 0666 system shell"));
    assert!(of_service.contains("user nobody"));
    let (_, options) = service("hindsight_perfetto");
    assert!(options.contains("user nobody") && !options.contains("shell"));
}

/// An action of a script: the properties that it waits for, and what it sets.
struct PropertyAction {
    conditions: Vec<(String, String)>,
    sets: Vec<(String, String)>,
}

/// The actions on properties in a script.
fn property_actions(script: &str) -> Vec<PropertyAction> {
    let mut actions: Vec<PropertyAction> = Vec::new();
    let mut is_inside = false;
    for line in script.lines() {
        if !line.starts_with(' ') {
            is_inside = line.starts_with("on property:");
        }
        if let Some(conditions) = line.strip_prefix("on property:") {
            let condition = |text: &str| {
                let (name, value) = text.split_once('=').unwrap();
                (name.to_owned(), value.to_owned())
            };
            let conditions = conditions.split(" && property:").map(condition);
            actions.push(PropertyAction {
                conditions: conditions.collect(),
                sets: Vec::new(),
            });
        } else if let Some(set) = line.trim().strip_prefix("setprop ").filter(|_| is_inside) {
            let (name, value) = set.split_once(' ').unwrap();
            let value = value.trim_matches('"').to_owned();
            let action = actions.last_mut().unwrap();
            action.sets.push((name.to_owned(), value));
        }
    }
    actions
}

/// Properties, and what init does when one of them changes, as in `Action::CheckPropertyTriggers` of AOSP's init.
struct Init {
    actions: Vec<PropertyAction>,
    properties: std::collections::BTreeMap<String, String>,
}

impl Init {
    fn new() -> Self {
        // Init reads the scripts of a folder in the order of their names.
        let mut names = ["../hindsight.rc", "hindsightd.rc"];
        names.sort_by_key(|name| name.rsplit('/').next());
        let scripts = names.map(script);
        Init {
            actions: scripts.iter().flat_map(|s| property_actions(s)).collect(),
            properties: std::collections::BTreeMap::new(),
        }
    }

    fn get(&self, name: &str) -> &str {
        self.properties.get(name).map_or("", String::as_str)
    }

    fn set(&mut self, name: &str, value: &str) {
        self.properties.insert(name.to_owned(), value.to_owned());
        let holds = |(of, expected): &(String, String)| match expected.as_str() {
            "*" => of == name || !self.get(of).is_empty(),
            expected => self.get(of) == expected,
        };
        let fires = |action: &&PropertyAction| {
            let mut of = action.conditions.iter().map(|(of, _)| of);
            of.any(|of| of == name) && action.conditions.iter().all(holds)
        };
        let sets = self.actions.iter().filter(fires).flat_map(|a| &a.sets);
        // No action waits for what another one sets.
        let sets: Vec<_> = sets.cloned().collect();
        self.properties.extend(sets);
    }
}

/// At boot init reads properties that stay in an order of its own; later, people change them in any order.
#[test]
fn the_service_has_the_configuration_in_whatever_order_properties_are_set() {
    const ENABLE: &str = "persist.hindsight.enable";
    const SERVICE: &str = "persist.hindsight.service";
    let values = ["", "0", "1"];
    for debuggable in ["0", "1"] {
        for steps in 0..81 {
            // Two steps of each property; an empty value is none.
            let digit = |place: u32| values[steps / 3_usize.pow(place) % 3];
            for order in [[0, 1, 0, 1], [1, 0, 1, 0], [0, 0, 1, 1], [1, 1, 0, 0]] {
                let mut init = Init::new();
                init.set("ro.debuggable", debuggable);
                let mut told = Vec::new();
                for (step, property) in (0..).zip(order) {
                    let (name, value) = ([ENABLE, SERVICE][property], digit(step));
                    if !value.is_empty() {
                        init.set(name, value);
                        told.push((name, value));
                    }
                }
                let expected = match (init.get(SERVICE), init.get(ENABLE), debuggable) {
                    ("1", ..) => "trace=main,events=all,service=/dev/socket/hindsightd",
                    (_, "1", "1") => "trace=main,events=all,dir=/data/misc/trace",
                    _ => "",
                };
                let trace = init.get("persist.hindsight.trace");
                assert_eq!(trace, expected, "debuggable={debuggable} {told:?}");
            }
        }
    }
}
