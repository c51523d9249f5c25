// SPDX-License-Identifier: Apache-2.0
//! `hindsight record` of real apps beside a real hindsightd. Run with `--ignored` after `cargo xtask lab build` and
//! `cargo build -p hindsight-service -p hindsight-cli`.

mod common;

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use common::{lab, open, program};
use hindsight_decoder::Trace;
use hindsight_lab::device::{Device, Service};
use hindsight_lab::{Execution, Framework};

/// The app has no package here: the name of its process.
const APP: &str = "dalvikvm64";
const CONFIGURATION: &str = "trace=all,events=all";
const POLICY: &str = r#"
version = 1

[memory]
budget-mib = 512
call-rings = 4

[reports]
killed = "none"

[consent.end-user]
unasked = "full"
"#;

struct Lab {
    folder: tempfile::TempDir,
    device: Device,
    service: Service,
}

impl Lab {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let framework = Framework::build(&lab(), &|_| {}).unwrap();
        let checkout = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
        let service = program("hindsightd");
        let device = Device::new(&framework, checkout, &service, folder.path()).unwrap();
        let device = device.without_facts();
        let policy = folder.path().join("policy.toml");
        std::fs::write(&policy, POLICY).unwrap();
        let service = device.start_service(Some(&policy)).unwrap();
        Lab {
            folder,
            device,
            service,
        }
    }

    fn output(&self) -> PathBuf {
        self.folder.path().join("out.hindsight")
    }

    /// Begins a recording, and waits until the service records.
    fn record(&self, seconds: u32) -> Child {
        self.record_with(&["-t", &format!("{seconds}s")])
    }

    fn record_with(&self, words: &[&str]) -> Child {
        let child = Command::new(program("hindsight"))
            .args(["record", "-a", APP, "-o"])
            .arg(self.output())
            .arg("--lab")
            .arg(self.folder.path())
            .args(words)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        self.wait_for("a recording", |status| status.contains("\"recordings\":[{"));
        child
    }

    fn wait_for(&self, what: &str, is_it: impl Fn(&str) -> bool) {
        let end = Instant::now() + Duration::from_secs(120);
        loop {
            let status = self.service.ask("status").unwrap().concat();
            if is_it(&status) {
                return;
            }
            assert!(Instant::now() < end, "there is not {what}: {status}");
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// Waits until the app records calls: it answers a request for a report after it has done what it was told before.
    fn wait_for_rings(&self) {
        self.wait_for("a ring", |status| {
            let held = status.split("\"rings_held\":").skip(1);
            held.filter(|rest| !rest.starts_with('0')).count() >= 2
        });
        // It may have recorded nothing yet.
        let _ = self.service.ask(&format!("report {APP} it answers"));
    }

    fn trace(&self, recording: Child) -> Trace {
        let output: Output = recording.wait_with_output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        let log = std::fs::read_to_string(self.service.log()).unwrap_or_default();
        assert!(output.status.success(), "{said}\nthe service's log:\n{log}");
        open(&self.output())
    }
}

fn check_calls(trace: &Trace, what: &str) {
    let main = trace.main_thread().unwrap();
    let names = main.calls.iter().map(|c| trace.methods.name(c.method));
    let names: Vec<_> = names.collect();
    let has_own = names
        .iter()
        .any(|name| name.starts_with("com.example.device."));
    assert!(
        has_own,
        "{what}: {} calls: {:?}",
        names.len(),
        names.iter().take(40).collect::<Vec<_>>()
    );
}

#[test]
#[ignore = "needs the lab: cargo xtask lab build"]
fn an_app_that_starts_meanwhile_is_recorded_to_the_end() {
    let lab = Lab::new();
    let recording = lab.record(20);
    let mut app = lab.device.start_app(Execution::Aot, CONFIGURATION).unwrap();
    lab.wait_for_rings();
    app.ask("work 50").unwrap();
    let trace = lab.trace(recording);
    check_calls(&trace, "to the end");
    assert_eq!(trace.process.pid, app.pid());
    // Its rings are given back.
    lab.wait_for("the end", |status| !status.contains("\"recordings\":[{"));
}

#[test]
#[ignore = "needs the lab: cargo xtask lab build"]
fn a_recording_that_waits_for_the_app_and_is_ended_early_has_its_calls() {
    let lab = Lab::new();
    let recording = lab.record_with(&["--wait", "-t", "590s"]);
    let mut app = lab.device.start_app(Execution::Aot, CONFIGURATION).unwrap();
    lab.wait_for_rings();
    app.ask("work 50").unwrap();
    lab.service.ask(&format!("record {APP} end")).unwrap();
    check_calls(&lab.trace(recording), "ended early");
}

#[test]
#[ignore = "needs the lab: cargo xtask lab build"]
fn an_app_that_is_killed_or_ends_by_itself_is_recorded() {
    for command in ["kill", "exit", "crash"] {
        let lab = Lab::new();
        let recording = lab.record(20);
        let mut app = lab.device.start_app(Execution::Aot, CONFIGURATION).unwrap();
        lab.wait_for_rings();
        app.ask("work 50").unwrap();
        match command {
            "kill" => app.kill(),
            command => {
                app.ask(command).unwrap();
                app.wait().unwrap();
            }
        }
        let trace = lab.trace(recording);
        check_calls(&trace, command);
    }
}
