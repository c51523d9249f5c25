// SPDX-License-Identifier: Apache-2.0
//! `dev.hindsight.Uploads` on a real ART, beside a real hindsightd. Run with `--ignored` after `cargo xtask lab build` and
//! `cargo build -p hindsight-service`.

mod common;

use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::Path;

use common::{lab, program, tests_folder};
use hindsight_lab::device::Device;
use hindsight_lab::{Execution, Framework};

/// What the service answers to the uploader.
fn next(socket: &Path) -> String {
    let mut stream = UnixStream::connect(socket).unwrap();
    stream.write_all(b"next\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

#[test]
#[ignore = "needs the lab: cargo xtask lab build"]
fn an_app_of_the_system_allows_uploads_for_a_time() {
    let folder = tempfile::tempdir().unwrap();
    let framework = Framework::build(&lab(), &|_| {}).unwrap();
    let sources = tests_folder().join("java/uploads");
    let app = framework.compile_app("uploads-test", &sources).unwrap();
    let checkout = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let hindsightd = program("hindsightd");
    let uploads = folder.path().join("uploads");
    let path = uploads.to_str().unwrap();
    let device = Device::new(&framework, checkout, &hindsightd, folder.path()).unwrap();
    let device = device.with_options(["--uploads", path, "--uploads-when", "allowed"]);
    let mut service = device.start_service(None).unwrap();
    let say = |execution: Execution, arguments: &[&str]| {
        let mut command = framework.app_command(&app, "UploadsTest", execution);
        let command = command.arg(device.commands()).args(arguments);
        let output = command.output().unwrap();
        let said = String::from_utf8(output.stdout).unwrap();
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{said}\n{errors}");
        said.lines().map(str::to_owned).collect::<Vec<_>>()
    };
    let not_allowed = "ok\nnothing uploads are not allowed now";
    for execution in [Execution::Interpreter, Execution::Jit, Execution::Aot] {
        assert!(next(&uploads).starts_with(not_allowed));
        assert_eq!(say(execution, &["10"]), ["10: done"]);
        // The program has ended, and its permission has not.
        let answer = next(&uploads);
        assert!(
            answer.starts_with("ok\nnothing there is no report"),
            "{answer}"
        );
        assert_eq!(say(execution, &["60", "stop"]), ["60: done", "stop: done"]);
    }
    let wrong = |minutes| {
        format!("{minutes}: wrong: uploads are allowed for 1 to 60 minutes, not {minutes}")
    };
    assert_eq!(say(Execution::Jit, &["0", "61"]), [wrong(0), wrong(61)]);
    assert!(next(&uploads).starts_with(not_allowed));

    // The service ends: so does the permission, and the next call says what is missing.
    say(Execution::Jit, &["10"]);
    service.kill();
    let said = say(Execution::Jit, &["10", "stop"]);
    for line in &said {
        assert!(
            line.contains(": failed: ") && line.contains("does hindsightd run"),
            "{line}"
        );
    }
    std::fs::remove_file(&uploads).unwrap();
    let _service = device.start_service(None).unwrap();
    assert!(next(&uploads).starts_with(not_allowed));
}
