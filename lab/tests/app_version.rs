// SPDX-License-Identifier: Apache-2.0
//! A report has the version of the app that the framework has bound to its process. Run with `--ignored` after
//! `cargo xtask lab build` and `cargo build -p hindsight-service`.

mod common;

use std::path::Path;
use std::process::Command;

use common::{lab, program, until};
use hindsight_lab::device::{Device, Service};
use hindsight_lab::{Execution, Framework};
use serde_json::Value;

/// A version with a major part (`versionCodeMajor`), which a number of 32 bits does not hold.
const VERSION: u64 = (2 << 32) + 31;

fn start(folder: &Path, level: &str) -> (Device, Service) {
    let framework = Framework::build(&lab(), &|_| {}).unwrap();
    let checkout = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let device = Device::new(&framework, checkout, &program("hindsightd"), folder).unwrap();
    let device = device.without_facts();
    let policy = folder.join("policy.toml");
    let text = format!(
        "version = 1\n[limits]\nper-uid = 100\n[reports]\nkilled = \"all\"\n\
         [consent.end-user]\nunasked = \"{level}\"\n"
    );
    std::fs::write(&policy, text).unwrap();
    let service = device.start_service(Some(&policy)).unwrap();
    (device, service)
}

fn reports(service: &Service) -> Vec<Value> {
    let lines = service.ask("reports").unwrap();
    let reports = lines.iter().map(|line| serde_json::from_str(line).unwrap());
    reports.collect()
}

/// Waits until the app has done what followed from the user seeing it: it has looked for its name by then.
fn wait_until_seen(service: &Service) {
    until("the app has its ring", || {
        let status = service.ask("status").unwrap().concat();
        status.contains("\"is_foreground\":true") && status.contains("\"rings_held\":1")
    });
}

/// The version in the report with this detector, and in its trace.
fn versions(device: &Device, service: &Service, detector: &str) -> (u64, Option<u64>) {
    let of = |reports: &[Value]| {
        let found = reports.iter().find(|report| report["detector"] == detector);
        found.cloned()
    };
    until(detector, || of(&reports(service)).is_some());
    let report = of(&reports(service)).unwrap();
    let trace = device
        .store()
        .join(format!("{}.hindsight", report["report"]));
    let trace = common::open(&trace);
    (
        report["version"].as_u64().unwrap(),
        trace.process.app_version(),
    )
}

#[test]
#[ignore = "needs the lab's ART"]
fn a_report_has_the_version_of_its_app() {
    for (level, version) in [
        ("full", (VERSION, Some(VERSION))),
        ("signatures", (VERSION, Some(VERSION))),
        ("summary", (0, None)),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let (device, service) = start(folder.path(), level);
        let mut app = device
            .start_app(Execution::Jit, "trace=main,ring=16,rewind=off")
            .unwrap();
        app.ask("foreground").unwrap();
        app.ask("work 20").unwrap();
        wait_until_seen(&service);
        service
            .ask(&format!("report {} before", app.pid()))
            .unwrap();
        let before = versions(&device, &service, "requested");
        assert_eq!(before, (0, None), "{level}: no app is bound yet");
        // The crash comes right after: nothing else tells the runtime to look again.
        app.ask(&format!("bind {VERSION}")).unwrap();
        app.ask("crash").unwrap();
        app.wait().unwrap();
        let crashed = versions(&device, &service, "uncaught-exception");
        assert_eq!(crashed, version, "{level}");
    }
}

#[test]
#[ignore = "needs the lab's ART"]
fn a_process_that_is_killed_leaves_the_version_of_its_app() {
    let folder = tempfile::tempdir().unwrap();
    let (device, service) = start(folder.path(), "full");
    let mut app = device
        .start_app(Execution::Jit, "trace=main,ring=16,rewind=off")
        .unwrap();
    app.ask("foreground").unwrap();
    app.ask("work 20").unwrap();
    wait_until_seen(&service);
    // It answers after it has done what it was told before, so that it records: else its end would leave no report.
    let answers = format!("report {} it answers", app.pid());
    until("it records", || {
        let answer = service.ask(&answers).unwrap_or_default().concat();
        answer.contains("\"problem\":null")
    });
    for report in service.ask("reports").unwrap() {
        let report: serde_json::Value = serde_json::from_str(&report).unwrap();
        service
            .ask(&format!("remove {}", report["report"]))
            .unwrap();
    }
    // The recorder has looked before; it is told that there is more to be found.
    app.ask(&format!("bind {VERSION}")).unwrap();
    app.ask("bound").unwrap();
    app.kill();
    let killed = versions(&device, &service, "killed");
    assert_eq!(killed, (VERSION, Some(VERSION)));
    let shown = Command::new(program("hindsight"))
        .args(["device", "--lab"])
        .arg(folder.path())
        .arg("reports")
        .output()
        .unwrap();
    let shown = String::from_utf8_lossy(&shown.stdout).into_owned();
    let mut lines = shown.lines();
    let words = |line: Option<&str>| -> Vec<String> {
        let words = line.unwrap_or_default().split_whitespace();
        words.map(str::to_owned).collect()
    };
    // No group, so that its column is empty; "when (UTC)" and the time are two words each.
    let (titles, values) = (words(lines.next()), words(lines.next()));
    let at = titles.iter().position(|title| title == "version");
    assert_eq!(at, Some(5), "{shown}");
    assert_eq!(values.get(4), Some(&VERSION.to_string()), "{shown}");
}

/// ART finds the version by the names of these fields: the lab's stand-in classes name them as Android does.
#[test]
#[ignore = "needs the lab's sources"]
fn the_framework_has_the_fields_by_which_the_version_is_found() {
    let originals = lab()
        .source_dir("frameworks_base")
        .join("core/java/android");
    for (file, declarations) in [
        (
            "app/ActivityThread.java",
            &[
                "static volatile ActivityThread sCurrentActivityThread;",
                "AppBindData mBoundApplication;",
                "static final class AppBindData {",
                "ApplicationInfo appInfo;",
                "public static Application currentApplication() {",
            ][..],
        ),
        (
            "content/pm/ApplicationInfo.java",
            &["long longVersionCode;"],
        ),
    ] {
        let path = originals.join(file);
        let text = std::fs::read_to_string(&path).unwrap();
        for declaration in declarations {
            let path = path.display();
            assert!(text.contains(declaration), "{path}: no '{declaration}'");
        }
    }
}
