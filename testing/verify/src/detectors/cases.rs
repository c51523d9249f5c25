// SPDX-License-Identifier: Apache-2.0
//! All cases. What is injected takes longer than the limit by any clock; what must not fire is far from it.

use super::case::{Case, End};

const NONE: Case = Case {
    name: "",
    detector: "",
    rules: "",
    quiet: &[],
    fires: &[],
    end: End::Lives,
    reloaded: None,
    refused: None,
    reason: "",
};

/// All cases.
pub(super) fn all() -> Vec<Case> {
    let mut all = of_the_main_thread();
    all.extend(of_the_process());
    all
}

fn of_the_main_thread() -> Vec<Case> {
    vec![
        Case {
            name: "slow-message",
            detector: "slow-message",
            rules: "[detectors.slow-message]\nlimit-ms = 2000",
            quiet: &["message 1", "message 50"],
            fires: &["message 2100"],
            reason: "over 2000 ms",
            ..NONE
        },
        Case {
            name: "stuck-message",
            detector: "stuck-message",
            rules: "[detectors.stuck-message]\nlimit-ms = 2000",
            quiet: &["message 1"],
            fires: &["message 4000"],
            reason: "has been running",
            ..NONE
        },
        Case {
            name: "reload",
            detector: "slow-message",
            rules: "[detectors.slow-message]\nlimit-ms = 600000",
            quiet: &["message 2100"],
            fires: &["message 2100"],
            reloaded: Some("[detectors.slow-message]\nlimit-ms = 2000"),
            reason: "over 2000 ms",
            ..NONE
        },
        Case {
            name: "reload-off",
            detector: "long-lock-wait",
            rules: "[detectors.slow-message]\nenabled = false",
            quiet: &["message 2100"],
            fires: &["lock 2100"],
            reloaded: Some("[detectors.long-lock-wait]\nlimit-ms = 2000"),
            reason: "over 2000 ms",
            ..NONE
        },
        Case {
            name: "refused",
            detector: "slow-message",
            rules: "[detectors.slow-message]\nlimit-ms = 2000",
            quiet: &["message 1"],
            fires: &["message 2100"],
            refused: Some((
                "[detectors.slow-message]\nlimit-ms = 0",
                "detectors.slow-message.limit-ms: expected a whole number from 1 to 600000",
            )),
            reason: "over 2000 ms",
            ..NONE
        },
        Case {
            name: "late-frames",
            detector: "late-frames",
            rules: "[detectors.late-frames]\nlimit-ms = 1500\nframes = 3",
            quiet: &["frames 10 1", "frames 2 300"],
            // More than the rule wants: on a busy machine a pause between two may end the row.
            fires: &["frames 7 1600"],
            reason: "3 frames in a row ended over 1500 ms",
            ..NONE
        },
        Case {
            name: "slow-input",
            detector: "slow-input",
            rules: "[detectors.slow-input]\nlimit-ms = 2000",
            quiet: &["touch 0 1", "touch 100 50"],
            fires: &["touch 0 2100"],
            reason: "ms in the app",
            ..NONE
        },
        Case {
            name: "slow-input-delivery",
            detector: "slow-input",
            rules: "[detectors.slow-input]\nlimit-ms = 2000",
            quiet: &["touch 0 1"],
            fires: &["touch 2500 1"],
            reason: "ms to its delivery",
            ..NONE
        },
        Case {
            name: "slow-input-frame",
            detector: "slow-input",
            rules: "[detectors.slow-input]\nlimit-ms = 2000",
            quiet: &["draw 1"],
            fires: &["draw 2100"],
            reason: "ms in the app",
            ..NONE
        },
        Case {
            name: "long-lock-wait",
            detector: "long-lock-wait",
            rules: "[detectors.long-lock-wait]\nlimit-ms = 2000",
            quiet: &["lock 1", "park 1", "message 50"],
            fires: &["lock 2500"],
            reason: "for a lock",
            ..NONE
        },
        Case {
            name: "long-park",
            detector: "long-lock-wait",
            rules: "[detectors.long-lock-wait]\nlimit-ms = 2000",
            quiet: &["park 1"],
            fires: &["park 2500"],
            reason: "for a lock",
            ..NONE
        },
        Case {
            name: "long-binder-wait",
            detector: "long-binder-wait",
            rules: "[detectors.long-binder-wait]\nlimit-ms = 2000",
            quiet: &["transaction 1", "lock 50"],
            fires: &["transaction 2100"],
            reason: "for another process",
            ..NONE
        },
        Case {
            name: "gc-pressure",
            detector: "gc-pressure",
            rules: "[detectors.gc-pressure]\nstopped-ms = 60000\ncollections = 20\nwindow-seconds = 60",
            quiet: &["collect 1", "message 50"],
            fires: &["collect 30"],
            reason: "garbage collections",
            ..NONE
        },
        Case {
            name: "slow-method",
            detector: "slow-method",
            rules: "[[detectors.slow-method]]\npackage = \"*\"\nmethod = \"com.example.detectors.Store.load\"\nlimit-ms = 2000",
            quiet: &["method 1", "message 50"],
            fires: &["method 2100"],
            reason: "com.example.detectors.Store.load took",
            ..NONE
        },
        Case {
            name: "anr",
            detector: "anr",
            rules: "[detectors.anr]\nbusy-ms = 2000",
            quiet: &["stacks 2"],
            fires: &["stacks 8000"],
            reason: "SIGQUIT",
            ..NONE
        },
    ]
}

fn of_the_process() -> Vec<Case> {
    vec![
        Case {
            name: "slow-start",
            detector: "slow-start",
            // The app has started long before its first frame.
            rules: "[detectors.slow-start]\nlimit-ms = 1\nmost-ms = 600000",
            quiet: &["message 1"],
            fires: &["frames 1 1"],
            reason: "to the first frame, over 1 ms: class",
            ..NONE
        },
        Case {
            name: "normal-start",
            detector: "slow-message",
            rules: "[detectors.slow-start]\nlimit-ms = 600000\nmost-ms = 600000\n[detectors.slow-message]\nlimit-ms = 2000",
            quiet: &["frames 1 1"],
            fires: &["message 2100"],
            reason: "over 2000 ms",
            ..NONE
        },
        Case {
            name: "uncaught-exception",
            detector: "uncaught-exception",
            rules: "[detectors.uncaught-exception]",
            quiet: &["caught"],
            fires: &["uncaught"],
            end: End::Ends,
            reason: "IllegalStateException",
            ..NONE
        },
        Case {
            name: "native-crash",
            detector: "native-crash",
            rules: "[detectors.native-crash]",
            quiet: &["message 1"],
            fires: &["segv"],
            end: End::Ends,
            reason: "signal 11",
            ..NONE
        },
        Case {
            name: "native-crash-abort",
            detector: "native-crash",
            rules: "[detectors.native-crash]",
            quiet: &["caught"],
            fires: &["abort"],
            end: End::Ends,
            reason: "signal 6",
            ..NONE
        },
        Case {
            name: "killed",
            detector: "killed",
            rules: "",
            quiet: &["message 1"],
            fires: &["message 1"],
            end: End::Killed,
            reason: "killed",
            ..NONE
        },
    ]
}
