// SPDX-License-Identifier: Apache-2.0
//! An app that hangs is told of by each report about it, also if an earlier report took its rings while it hung already. Run with
//! `--ignored` after `cargo xtask lab build` and `cargo build -p hindsight-service -p hindsight-cli`.

mod common;

use std::path::{Path, PathBuf};
use std::process::Command;

use common::{lab, open, program, until};
use hindsight_decoder::{Extension, Flags, Trace};
use hindsight_lab::device::{Device, Service};
use hindsight_lab::{Execution, Framework};

const POLICY: &str = r#"
version = 1

[memory]
budget-mib = 512

[reports]
killed = "all"

[consent.end-user]
unasked = "full"
"#;

/// The numbers of the reports that are complete, oldest first, each with its detector.
fn reports(service: &Service) -> Vec<(u64, String)> {
    let lines = service.ask("reports").unwrap();
    let lines = lines.iter().filter(|line| line.starts_with('{'));
    let report = |line: &String| -> (u64, String) {
        let report: serde_json::Value = serde_json::from_str(line).unwrap();
        let detector = report["detector"].as_str().unwrap();
        (report["report"].as_u64().unwrap(), detector.to_owned())
    };
    lines.map(report).collect()
}

/// The call that the main thread was in at the end, with its length, ns.
fn innermost(trace: &Trace) -> Option<(String, u64)> {
    let main = trace.main_thread()?;
    let open = |call: &hindsight_decoder::Call| call.flags.contains(Flags::OPEN_END);
    let last = main.calls.iter().rfind(open)?;
    let name = trace.methods.name(last.method).into_owned();
    Some((name, last.end_ns - last.start_ns))
}

/// The last kept event of this kind on the main thread, ns before its end.
fn ago(trace: &Trace, kind: Extension) -> Option<u64> {
    let main = trace.main_thread()?;
    let event = main.events.iter().rfind(|event| event.kind == kind)?;
    Some(main.end_ns - event.at_ns)
}

fn why(file: &Path) -> String {
    let mut command = Command::new(program("hindsight"));
    let output = command.arg("why").arg(file).output().unwrap();
    String::from_utf8(output.stdout).unwrap()
}

/// Lets an app hang, takes reports about it and kills it; returns their files, oldest first.
fn reports_about_a_hang(
    folder: &Path,
    configuration: &str,
    has_calls: bool,
) -> Vec<(PathBuf, String)> {
    let framework = Framework::build(&lab(), &|_| {}).unwrap();
    let checkout = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let device = Device::new(&framework, checkout, &program("hindsightd"), folder).unwrap();
    let device = device.without_facts();
    let policy = folder.join("policy.toml");
    std::fs::write(&policy, POLICY).unwrap();
    let service = device.start_service(Some(&policy)).unwrap();
    let mut app = device.start_app(Execution::Jit, configuration).unwrap();
    app.ask("foreground").unwrap();
    // A message during which recording of calls begins would have none.
    until("the main thread records", || {
        let status = service.ask("status").unwrap().concat();
        !has_calls || status.contains(r#""rings_held":1"#)
    });
    if has_calls {
        app.ask("bound").unwrap();
    }
    app.ask("work 5").unwrap();
    app.tell("stuck").unwrap();
    let wait_for = |count: usize| until("a report", || reports(&service).len() >= count);
    // The detector of stuck messages takes the rings.
    wait_for(1);
    for count in [2, 3] {
        let answer = service.ask(&format!("report {} again", app.pid()));
        let answer = answer.unwrap().concat();
        assert!(answer.contains(r#""problem":null"#), "{answer}");
        wait_for(count);
    }
    app.kill();
    wait_for(4);
    let file = |number| device.store().join(format!("{number}.hindsight"));
    let reports = reports(&service).into_iter();
    reports.map(|(number, by)| (file(number), by)).collect()
}

#[test]
#[ignore = "needs the lab: cargo xtask lab build"]
fn each_report_about_an_app_that_hangs_says_where() {
    for calls in [true, false] {
        let folder = tempfile::tempdir().unwrap();
        let trace = if calls { "main" } else { "off" };
        let configuration = format!("trace={trace},events=all");
        let reports = reports_about_a_hang(folder.path(), &configuration, calls);
        let by: Vec<&str> = reports.iter().map(|(_, by)| by.as_str()).collect();
        assert_eq!(by, ["stuck-message", "requested", "requested", "killed"]);
        let mut longest = 0;
        for (file, by) in &reports {
            let trace = open(file);
            let what = format!("{configuration}, {by}");
            // Each is longer than the one before, so none begins when its rings did.
            let dispatched = ago(&trace, Extension::MessageDispatched).expect(&what);
            assert!(
                dispatched > longest && dispatched >= 1_000_000_000,
                "{what}"
            );
            longest = dispatched;
            let waits = ago(&trace, Extension::WaitBegin).expect(&what);
            assert!(waits <= dispatched && waits > dispatched / 2, "{what}");
            let said = why(file);
            assert!(said.contains("One message had run for"), "{what}: {said}");
            assert!(said.contains("held the lock and slept"), "{what}: {said}");
            if calls {
                let (name, ns) = innermost(&trace).expect(&what);
                assert_eq!(name, "com.example.device.Store.read", "{what}");
                assert!(ns > dispatched / 2, "{what}: {ns}");
                assert!(said.contains("com.example.device.Store.read"), "{what}");
            }
        }
    }
}
