// SPDX-License-Identifier: Apache-2.0
//! `dev.hindsight.Watchdog` on the original looper: a slow message is reported when it ends, a stuck one
//! while it runs, also around a loop of its own; while the looper is idle, the watchdog does not wake up; a watchdog that another
//! observer has replaced leaves that one alone; while tracing is off, and on stock ART, the report names no file.

use std::path::Path;

use hindsight_lab::{Execution, Framework, Isa, Lab, Parts, Release, Variant};

const EXPECTED: &str = "\
ended: a message on watched took N ms, over 100 ms: WatchdogTest$1, 0x7
stuck: a message on watched has been running for N ms, over 300 ms: now in ...
idle: true
woken: true
idle again: true
busy: few wake-ups
idle at last: true
idle inside: true 0
outer: true
replaced: ended
second: true
another observer: true
";

#[test]
#[ignore = "needs the lab: cargo xtask lab build"]
fn watchdog_reports_slow_messages() {
    check(Variant::Hindsight);
}

#[test]
#[ignore = "needs the lab: cargo xtask lab build --stock"]
fn watchdog_reports_slow_messages_on_stock_art() {
    check(Variant::Stock);
}

fn check(variant: Variant) {
    let lab = Lab::open_parts(Release::Android10, Isa::X86_64, variant, Parts::Programs).unwrap();
    let framework = Framework::build(&lab, &|_| ()).unwrap();
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/java/watchdog");
    let app = framework.compile_app("watchdog-test", &sources).unwrap();
    for execution in [Execution::Interpreter, Execution::Jit, Execution::Aot] {
        let output = framework
            .app_command(&app, "WatchdogTest", execution)
            .output()
            .unwrap();
        let text = String::from_utf8_lossy(&output.stdout);
        assert_eq!(
            text,
            EXPECTED,
            "{execution:?}: {}",
            String::from_utf8_lossy(&output.stderr)
        );
    }
}
