// SPDX-License-Identifier: Apache-2.0
//! The suite on the lab: as it is, and with each fault that it has to find.
#![cfg(feature = "lab")]

mod common;

use common::failures;
use hindsight_emulator_tests::junit::{Case, Outcome};
use hindsight_emulator_tests::lab::{LabTarget, Variant};
use hindsight_emulator_tests::suite::{run, Options};
use std::path::{Path, PathBuf};
use std::time::Duration;

const PROGRAM: &str = include_str!("../java/dev/hindsight/boottest/BootTest.java");
const ANOMALY: &str = "an anomaly saves a trace";
const CONTENT: &str = "the trace holds what the program did";
const TRACE_POINTS: &str = "the boot image has trace points";
const LOG: &str = "no crash and no denial in the log";

/// Runs the suite with the program, in which each of `changes` is made.
fn suite(target: &mut LabTarget, changes: &[(&str, &str)], deadline: Duration) -> Vec<Case> {
    let mut program = PROGRAM.to_owned();
    for (from, to) in changes {
        assert!(program.contains(from), "the program has no '{from}'");
        program = program.replace(from, to);
    }
    let dir = tempfile::tempdir().unwrap();
    let java = dir.path().join("BootTest.java");
    std::fs::write(&java, program).unwrap();
    let jar = dir.path().join("boot-test.jar");
    target.compile(&java, &jar).unwrap();
    let options = options(deadline, None);
    run(target, &jar, &options)
}

fn options(boot_deadline: Duration, apk: Option<PathBuf>) -> Options {
    Options {
        boot_deadline,
        pairs: 1,
        apk,
        app_deadline: ENOUGH,
        poll: Duration::from_millis(50),
    }
}

const ENOUGH: Duration = Duration::from_secs(120);

#[test]
#[ignore = "needs the lab: cargo xtask lab build"]
fn the_lab_passes_every_step() {
    let mut lab = LabTarget::new(Variant::Hindsight).unwrap();
    let cases = suite(&mut lab, &[], ENOUGH);
    assert_eq!(failures(&cases), []);
    assert!(
        cases
            .iter()
            .filter(|case| matches!(case.outcome, Outcome::Skipped(_)))
            .all(|case| case.name.contains("the app")),
        "{cases:?}"
    );
}

/// Builds the app after a change of its source, and runs the suite with it; returns the outcome of the steps on it.
fn app_steps(change: Option<(&str, &str)>) -> Vec<Outcome> {
    let mut lab = LabTarget::new(Variant::Hindsight).unwrap();
    let dir = tempfile::tempdir().unwrap();
    let jar = dir.path().join("boot-test.jar");
    let java = dir.path().join("BootTest.java");
    std::fs::write(&java, PROGRAM).unwrap();
    lab.compile(&java, &jar).unwrap();
    let apk = dir.path().join("app.apk");
    lab.build_app(dir.path(), &apk, change).unwrap();
    let cases = run(&mut lab, &jar, &options(ENOUGH, Some(apk)));
    let of_app = cases.into_iter().filter(|case| case.name.contains("app"));
    of_app.map(|case| case.outcome).collect()
}

#[test]
#[ignore = "needs the lab: cargo xtask lab build"]
fn an_app_s_stall_is_saved_under_another_uid_and_the_filter() {
    let outcomes = app_steps(None);
    // Root alone can change the uid: for others, the steps say so and are skipped.
    let failed = outcomes
        .iter()
        .find(|outcome| matches!(outcome, Outcome::Failed(_)));
    assert_eq!(failed, None);
    assert!(matches!(outcomes[0], Outcome::Passed(_)), "{outcomes:?}");
}

#[test]
#[ignore = "needs the lab: cargo xtask lab build"]
fn an_app_that_ends_or_does_not_stall_is_found() {
    for (change, why) in [
        (
            ("SystemClock.sleep(MILLIS)", "System.exit(7)"),
            "it had ended with exit status: 7",
        ),
        (
            ("SystemClock.sleep(MILLIS);", "for (;;) {}"),
            "its reason is",
        ),
    ] {
        let outcomes = app_steps(Some(change));
        match &outcomes[2] {
            Outcome::Failed(said) => assert!(said.contains(why), "{said}"),
            Outcome::Skipped(_) => {}
            Outcome::Passed(said) => panic!("{change:?}: {said}"),
        }
    }
}

/// Breaks one thing; exactly these steps fail, and say why.
fn breaks(lab: &mut LabTarget, changes: &[(&str, &str)], expected: &[(&str, &str)]) {
    let cases = suite(lab, changes, ENOUGH);
    let failed = failures(&cases);
    assert_eq!(failed.len(), expected.len(), "{changes:?}: {failed:?}");
    for ((step, text), (expected_step, why)) in failed.iter().zip(expected) {
        assert!(
            step == expected_step && text.contains(why),
            "{changes:?}: instead of '{why}': {failed:?}"
        );
    }
}

#[test]
#[ignore = "needs the lab: cargo xtask lab build"]
fn what_is_broken_is_found_and_said() {
    let mut lab = LabTarget::new(Variant::Hindsight).unwrap();
    let lab = &mut lab;
    breaks(
        lab,
        &[("i < ROUNDS;", "i < ROUNDS - 1;")],
        &[(CONTENT, "6 calls of round instead of 7")],
    );
    breaks(
        lab,
        &[("Thread.sleep(500)", "Thread.sleep(400)")],
        &[(CONTENT, "and it sleeps for 500 ms")],
    );
    breaks(
        lab,
        &[
            ("        stall();\n", ""),
            ("int sum = 0;", "int sum = 0; stall();"),
        ],
        &[(CONTENT, "a round ended after the stall had begun")],
    );
    breaks(
        lab,
        &[("sum += round(i)", "sum += more(i)"), (
            "    private static void stall",
            "    private static int more(int i) throws Exception { return i < 0 ? more(-i) : round(i); }\n\
             private static void stall",
        )],
        &[(CONTENT, "main has called each round and the stall")],
    );
    breaks(
        lab,
        &[("a stall of 500 ms", "something else")],
        &[(CONTENT, "its reason is 'boot test: something else'")],
    );
    breaks(
        lab,
        &[("dev.hindsight.Hindsight\"", "dev.hindsight.Missing\"")],
        &[(ANOMALY, "0 new files instead of one")],
    );
    breaks(
        lab,
        &[("int sum = 0;", "int sum = 0; Runtime.getRuntime().exit(3);")],
        &[(ANOMALY, "exit status: 3")],
    );
    // A crash is found by its exit status, and in the log.
    let unsafe_store = "int sum = 0;\
        java.lang.reflect.Field field = Class.forName(\"sun.misc.Unsafe\").getDeclaredField(\"theUnsafe\");\
        field.setAccessible(true);\
        field.getType().getMethod(\"putLong\", long.class, long.class).invoke(field.get(null), 16L, 0L);";
    breaks(
        lab,
        &[("int sum = 0;", unsafe_store)],
        &[(ANOMALY, "dalvikvm ended with"), (LOG, "Fatal signal 11")],
    );
    lab.set_time_limit(Duration::from_secs(15));
    breaks(
        lab,
        &[
            (
                "int sum = 0;",
                "int sum = 0; while (ROUNDS == 7) { Thread.sleep(50); }",
            ),
            ("final int ROUNDS = 7", "int ROUNDS = 7"),
        ],
        &[(ANOMALY, "has not ended after 15 s")],
    );
}

#[test]
#[ignore = "needs the lab: cargo xtask lab build"]
fn a_vm_that_is_not_up_in_time_is_not_booted_and_nothing_else_is_tried() {
    let mut lab = LabTarget::new(Variant::Hindsight).unwrap();
    let cases = suite(&mut lab, &[], Duration::ZERO);
    let failed = failures(&cases);
    assert!(
        matches!(failed[..], [("boots", why)] if why.contains("has not ended after 0 s")),
        "{failed:?}"
    );
    let skipped = cases
        .iter()
        .filter(|case| matches!(case.outcome, Outcome::Skipped(_)))
        .count();
    // The step that restores the device is never skipped.
    assert_eq!(skipped, cases.len() - 2);
}

#[test]
#[ignore = "needs the lab: cargo xtask lab build --stock"]
fn an_art_without_hindsight_fails() {
    let mut lab = LabTarget::new(Variant::Stock).unwrap();
    breaks(
        &mut lab,
        &[],
        &[
            (TRACE_POINTS, "it was not compiled by Hindsight's ART"),
            (ANOMALY, "0 new files instead of one"),
        ],
    );
}

#[test]
#[ignore = "needs the lab: cargo xtask lab build"]
fn the_program_that_is_missing_is_named() {
    let mut lab = LabTarget::new(Variant::Hindsight).unwrap();
    let cases = run(&mut lab, Path::new("missing.jar"), &options(ENOUGH, None));
    assert!(failures(&cases)[0].1.contains("missing.jar"), "{cases:?}");
}
