// SPDX-License-Identifier: Apache-2.0
//! Naming the methods of a snapshot does not keep other threads waiting: the control thread passes a suspend check after
//! a bounded number of classes or methods. Run with `--ignored` after `cargo xtask lab build`.

mod common;

use std::collections::BTreeMap;

use common::{jar, lab, open};

/// The most items between two suspend checks, as in `method_names.cc`.
const CLASSES: u64 = 256;
const METHODS: u64 = 32;

/// Slices, the most items of one, and the longest time of one in µs, for each step that the process has printed.
fn steps(log: &str) -> BTreeMap<&str, [u64; 3]> {
    let lines = log
        .lines()
        .filter_map(|line| line.strip_prefix("hindsight: names: "));
    lines
        .map(|line| {
            let (step, rest) = line.split_once(": ").unwrap();
            let numbers: Vec<u64> = rest
                .split(|c: char| !c.is_ascii_digit())
                .filter_map(|number| number.parse().ok())
                .collect();
            (step, numbers.try_into().unwrap())
        })
        .collect()
}

#[test]
#[ignore = "needs the lab: cargo xtask lab build"]
fn other_threads_suspend_all_threads_while_methods_are_named() {
    let folder = tempfile::tempdir().unwrap();
    let output = lab()
        .dalvikvm_command()
        .args(["-Xint", "-cp"])
        .arg(jar("names"))
        .arg("Names")
        .arg(folder.path())
        .env("HINDSIGHT_CHECK_NAMES", "1")
        .env(
            "HINDSIGHT",
            format!(
                "trace=main,ring=24,rewind=off,dir={}",
                folder.path().display()
            ),
        )
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    let log = String::from_utf8_lossy(&output.stderr);
    assert_eq!(
        text, "many classes: true\nmany methods: true\ndone\n",
        "{log}"
    );
    let trace = open(&folder.path().join("0.hindsight"));
    let mut losses = trace.losses.counts.iter();
    assert!(losses.all(|(what, _)| what != "methods without a name"));
    let steps = steps(&log);
    println!("{steps:?}");
    let [lists, classes, _] = steps["list"];
    assert_eq!(lists, 5, "one look at all classes for each snapshot: {log}");
    assert!(classes > 3000, "{log}");
    let [slices, most, _] = steps["find"];
    assert!(
        most <= CLASSES && slices >= 5 * classes.div_ceil(CLASSES),
        "{log}"
    );
    let [slices, most, _] = steps["name"];
    assert!(most <= METHODS && slices > 5 * 2000 / METHODS, "{log}");
}
