// SPDX-License-Identifier: Apache-2.0
//! Which thread `hindsight why` is about if none is named.

use assert_cmd::Command;
use hindsight_decoder::Extension;
use hindsight_testkit::Script;

const MS: u64 = 1_000_000;

#[test]
fn why_is_about_the_thread_that_served_if_another_process_waited_for_it() {
    let folder = tempfile::tempdir().unwrap();
    let mut s = Script::new("server");
    let main = s.events_thread(1, "main", 1);
    let binder = s.events_thread(2, "binder", 2);
    let message = [("message", 1)];
    s.at(main, 0)
        .event(Extension::MessageDispatched, &message)
        .after(MS)
        .event(Extension::MessageDone, &message);
    s.at(binder, 2 * MS)
        .event(Extension::BinderServe, &[("transaction", 5)]);
    s.stop_at(600 * MS);
    s.process.raised_by = 2;
    let mut why = |reason: &str, arguments: &[&str]| {
        s.process.reason = reason.into();
        s.write(&folder.path().join("t.hindsight")).unwrap();
        let mut command = Command::cargo_bin("hindsight").unwrap();
        let command = command.current_dir(folder.path());
        let output = command
            .args(["why", "t.hindsight"])
            .args(arguments)
            .output();
        String::from_utf8(output.unwrap().stdout).unwrap()
    };
    let waited = "process 9 (report 1) waited 603 ms for a transaction of this process";
    let of_binder = "One service had run for 598 ms on thread \"binder\" (tid 2)";
    for reason in [waited, "a.Store.read took 598 ms, over 400 ms"] {
        let said = why(reason, &[]);
        assert!(said.contains(of_binder), "{said}");
    }
    // The thread that was named counts, and other reports name the thread that noticed something.
    let of_main = "No stall: the longest message on thread \"main\" (tid 1) took 1.00 ms.";
    for said in [
        why(waited, &["-t", "main"]),
        why("a message on main took 598 ms, over 400 ms", &[]),
    ] {
        assert!(said.contains(of_main), "{said}");
    }
}
