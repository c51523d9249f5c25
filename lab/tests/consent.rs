// SPDX-License-Identifier: Apache-2.0
//! `dev.hindsight.Consent` on a real ART, beside a real hindsightd. Run with `--ignored` after `cargo xtask lab build` and
//! `cargo build -p hindsight-service`.

mod common;

use std::path::Path;
use std::time::{Duration, Instant};

use common::{lab, program, tests_folder};
use hindsight_lab::device::{Device, Service};
use hindsight_lab::{App, Execution, Framework};

/// End users are asked first, and may agree to less than everything in Germany.
const POLICY: &str = r#"
version = 1

[consent.end-user]
unasked = "none"

[[consent.region]]
regions = ["DE"]
most = "signatures"
"#;

struct Program {
    framework: Framework,
    app: App,
    device: Device,
    service: Service,
    _folder: tempfile::TempDir,
}

impl Program {
    fn new(options: &[&str]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let framework = Framework::build(&lab(), &|_| {}).unwrap();
        let sources = tests_folder().join("java/consent");
        let app = framework.compile_app("consent-test", &sources).unwrap();
        let checkout = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
        let hindsightd = program("hindsightd");
        let device = Device::new(&framework, checkout, &hindsightd, folder.path()).unwrap();
        let device = device.with_options(options).without_facts();
        let policy = folder.path().join("policy.toml");
        std::fs::write(&policy, POLICY).unwrap();
        let service = device.start_service(Some(&policy)).unwrap();
        Program {
            framework,
            app,
            device,
            service,
            _folder: folder,
        }
    }

    /// What the Java program says about each of these commands; the path of the socket is replaced.
    fn say(&self, execution: Execution, commands: &[&str]) -> Vec<String> {
        let socket = self.device.commands();
        let mut command = self
            .framework
            .app_command(&self.app, "ConsentTest", execution);
        let output = command.arg(&socket).args(commands).output().unwrap();
        let said = String::from_utf8(output.stdout).unwrap();
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{said}\n{errors}");
        let said = said.replace(socket.to_str().unwrap(), "SOCKET");
        said.lines().map(str::to_owned).collect()
    }
}

#[test]
#[ignore = "needs the lab: cargo xtask lab build"]
fn an_app_of_the_system_chooses_and_withdraws() {
    let lab = Program::new(&["--region", "FR"]);
    // SAFETY: no precondition.
    let uid = unsafe { libc::geteuid() };
    for execution in [Execution::Interpreter, Execution::Jit, Execution::Aot] {
        let commands = [
            "read",
            "set SUMMARY",
            "set FULL 10",
            "read",
            "when",
            "withdraw 10",
            "read",
            "forget 10",
            "read",
            "withdraw",
            "read",
        ];
        let nobody = match execution {
            Execution::Interpreter => "null".to_owned(),
            // The withdrawal of the program before.
            _ => format!("NONE by {uid}"),
        };
        assert_eq!(
            lab.say(execution, &commands),
            [
                format!("read: device {nobody}, users {{}}, 0 NONE, 10 NONE, 11 NONE"),
                "set SUMMARY: SUMMARY".into(),
                "set FULL 10: FULL".into(),
                format!("read: device SUMMARY by {uid}, users {{10=FULL by {uid}}}, 0 SUMMARY, 10 FULL, 11 SUMMARY"),
                "when: plausible".into(),
                "withdraw 10: done".into(),
                format!("read: device SUMMARY by {uid}, users {{10=NONE by {uid}}}, 0 SUMMARY, 10 NONE, 11 SUMMARY"),
                "forget 10: SUMMARY".into(),
                format!("read: device SUMMARY by {uid}, users {{}}, 0 SUMMARY, 10 SUMMARY, 11 SUMMARY"),
                "withdraw: done".into(),
                format!("read: device NONE by {uid}, users {{}}, 0 NONE, 10 NONE, 11 NONE"),
            ],
            "{execution:?}"
        );
    }
    // The service has the same choices, and knows them after a restart.
    let mut lab = lab;
    lab.say(Execution::Jit, &["set SIGNATURES", "set NONE 11"]);
    let told = lab.service.ask("consent show").unwrap();
    lab.service.kill();
    lab.service = lab.device.start_service(None).unwrap();
    let known = lab.service.ask("consent show").unwrap();
    assert_eq!(known, told);
    assert!(known[0].contains(r#""device":{"level":"signatures","#));
}

#[test]
#[ignore = "needs the lab: cargo xtask lab build"]
fn a_choice_decides_what_is_recorded_and_what_the_preview_shows() {
    let lab = Program::new(&["--region", "FR"]);
    let report = || {
        let mut app = lab
            .device
            .start_app(Execution::Aot, "trace=main,events=all")
            .unwrap();
        app.ask("foreground").unwrap();
        app.ask("work 50").unwrap();
        let end = Instant::now() + Duration::from_secs(120);
        loop {
            let answer = lab.service.ask(&format!("report {} asked for", app.pid()));
            let answer = answer.map_err(|e| e.to_string());
            let has_joined = !answer
                .as_ref()
                .is_err_and(|e| e.contains("error no process"));
            if has_joined || Instant::now() > end {
                return answer;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    };
    let refused = report().unwrap_err();
    assert!(refused.contains("there is no consent"), "{refused}");

    assert_eq!(
        lab.say(Execution::Jit, &["set FULL", "reports"]),
        ["set FULL: FULL", "reports: []"]
    );
    let kept = report().unwrap();
    assert!(kept[0].contains("\"problem\":null"), "{kept:?}");
    let ids = lab.say(Execution::Jit, &["reports"]).concat();
    let ids = ids.trim_start_matches("reports: [").trim_end_matches(']');
    let id = ids.split(", ").next().unwrap();

    let shown = lab.say(Execution::Jit, &[&format!("preview {id}")]);
    let mut leaves = lab.service.ask(&format!("preview {id}")).unwrap();
    assert!(
        leaves.contains(&"reason asked for".to_owned()),
        "{leaves:?}"
    );
    leaves[0] = format!("preview {id}: {}", leaves[0]);
    assert_eq!(shown, leaves);

    // Less is allowed than is in the reports.
    let said = lab.say(Execution::Jit, &["set SUMMARY", "reports"]);
    assert_eq!(said, ["set SUMMARY: SUMMARY", "reports: []"]);
}

#[test]
#[ignore = "needs the lab: cargo xtask lab build"]
fn what_the_service_refuses_is_an_exception_with_its_line() {
    let lab = Program::new(&["--region", "DE"]);
    let mut said = lab.say(
        Execution::Jit,
        &[
            "set FULL",
            "preview 999",
            "set NONE 42949",
            "set NONE -1",
            "withdraw -1",
        ],
    );
    let service_says = |command: &str| {
        let answer = lab.service.ask(command).unwrap_err().to_string();
        let line = answer.split("by 'error ").nth(1).unwrap();
        line.trim_end_matches('\'').to_owned()
    };
    let wrong = "an Android user has a number from 0 on, not -1";
    let expected = [
        // The policy's limit in this region.
        "set FULL: SIGNATURES".to_owned(),
        format!("preview 999: refused: {}", service_says("preview 999")),
        format!(
            "set NONE 42949: refused: {}",
            service_says("consent set none user 42949")
        ),
        format!("set NONE -1: wrong: {wrong}"),
        format!("withdraw -1: wrong: {wrong}"),
    ];
    assert_eq!(said, expected);

    let mut lab = lab;
    lab.service.kill();
    said = lab.say(Execution::Jit, &["read", "withdraw"]);
    for (line, command) in said.iter().zip(["read", "withdraw"]) {
        let begin = format!("{command}: failed: SOCKET: ");
        assert!(line.starts_with(&begin), "{line}");
        assert!(line.contains("does hindsightd run"), "{line}");
    }
}
