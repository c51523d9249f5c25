// SPDX-License-Identifier: Apache-2.0
//! The service is told when an app on the lab's ART comes to the foreground, and when it leaves it. Run with `--ignored` after
//! `cargo xtask lab build`.

mod common;

use std::path::Path;
use std::process::Command;

use common::{lab, until};
use hindsight_lab::device::{Device, DeviceApp, Service};
use hindsight_lab::{Execution, Framework};
use serde_json::Value;

fn checkout() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap()
}

/// A device with a service; it needs the program.
fn device(folder: &Path) -> (Device, Service) {
    let built = Command::new(env!("CARGO"))
        .args(["build", "--quiet", "-p", "hindsight-service"])
        .current_dir(checkout())
        .status()
        .unwrap();
    assert!(built.success());
    let framework = Framework::build(&lab(), &|_| {}).unwrap();
    let program = checkout().join("target/debug/hindsightd");
    let device = Device::new(&framework, checkout(), &program, folder).unwrap();
    let device = device.without_facts();
    let policy = folder.join("policy.toml");
    std::fs::write(
        &policy,
        "version = 1\n[limits]\nper-uid = 100\n[consent.end-user]\nunasked = \"full\"\n",
    )
    .unwrap();
    let service = device.start_service(Some(&policy)).unwrap();
    (device, service)
}

fn of(service: &Service, what: &str) -> Vec<Value> {
    let lines = service.ask(what).unwrap();
    lines
        .iter()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

/// An app in the foreground that has recorded something.
fn start(device: &Device) -> DeviceApp {
    let mut app = device
        .start_app(Execution::Jit, "trace=main,ring=16,rewind=off")
        .unwrap();
    app.ask("foreground").unwrap();
    app.ask("work 20").unwrap();
    app
}

#[test]
#[ignore = "needs the lab's ART"]
fn an_app_tells_when_it_leaves_the_foreground() {
    let folder = tempfile::tempdir().unwrap();
    let (device, service) = device(folder.path());
    let mut app = start(&device);
    for (command, expected) in [
        ("foreground", true),
        ("background", false),
        ("foreground", true),
    ] {
        app.ask(command).unwrap();
        until(command, || {
            let status = of(&service, "status");
            status[0]["engine"]["processes"][0]["is_foreground"] == expected
        });
    }
}

/// The framework's classes tell of activities while their events are recorded.
#[test]
#[ignore = "needs the lab's ART"]
fn an_app_tells_when_it_shows_an_activity() {
    let folder = tempfile::tempdir().unwrap();
    let (device, service) = device(folder.path());
    let mut app = start(&device);
    let shows = |expected: bool| {
        until("the service knows", || {
            let status = of(&service, "status");
            status[0]["engine"]["processes"][0]["shows_activity"] == expected
        });
    };
    // It answers after it has done what it was told before, so that it records events from now on.
    let answers = format!("report {} it answers", app.pid());
    until("it records", || {
        let answer = service.ask(&answers).unwrap_or_default().concat();
        answer.contains("\"problem\":null")
    });
    shows(false);
    app.ask("activity start").unwrap();
    shows(true);
    // What stops counts from the next time in the foreground on.
    app.ask("activity stop").unwrap();
    app.ask("background").unwrap();
    app.ask("foreground").unwrap();
    until("it is back", || {
        let status = of(&service, "status");
        status[0]["engine"]["processes"][0]["is_foreground"] == true
    });
    shows(false);
    // Started while it is in the background: known when it comes to the foreground.
    app.ask("background").unwrap();
    app.ask("activity start").unwrap();
    app.ask("foreground").unwrap();
    shows(true);
}
