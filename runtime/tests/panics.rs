// SPDX-License-Identifier: Apache-2.0
//! The message of a panic gets into the host's log. A process has one panic hook, so this test is alone in its file.

use std::panic::{catch_unwind, panic_any};
use std::sync::Mutex;

use hindsight_runtime::{log_panics, Severity};

static LOG: Mutex<Vec<String>> = Mutex::new(Vec::new());

fn log(severity: Severity, message: &str) {
    assert_eq!(severity, Severity::Error);
    LOG.lock().unwrap().push(message.to_owned());
}

fn take_log() -> Vec<String> {
    std::mem::take(&mut *LOG.lock().unwrap())
}

#[test]
fn the_message_and_the_place_of_a_panic_get_into_the_log() {
    log_panics(log);
    let line = line!() + 1;
    assert!(catch_unwind(|| panic!("slot {} is full", 7)).is_err());
    let here = file!();
    assert_eq!(
        take_log(),
        [format!("panic at {here}:{line}: slot 7 is full")]
    );
    assert!(catch_unwind(|| panic!("no arguments")).is_err());
    assert!(take_log()[0].ends_with(": no arguments"));
    assert!(catch_unwind(|| panic_any(7)).is_err());
    assert!(take_log()[0].ends_with(": no message"));
    // Once installed, it stays the only one.
    log_panics(log);
    assert!(catch_unwind(|| panic!("again")).is_err());
    assert_eq!(take_log().len(), 1);
}
