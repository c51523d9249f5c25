// SPDX-License-Identifier: Apache-2.0
//! The suite against a stand-in for the adb server, with a made-up device behind it. It shows that the suite
//! finds faults; it is no evidence about a real device.

mod common;

use common::failures;
use hindsight_emulator_tests::adb::Adb;
use hindsight_emulator_tests::apk::{self, PACKAGE};
use hindsight_emulator_tests::junit::{Case, Outcome};
use hindsight_emulator_tests::suite::{run, Options, CLASS};
use hindsight_testkit::Script;
use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

/// The device, and its faults.
#[derive(Clone, Default)]
struct Device {
    /// How many times it reports that it is still booting.
    boots_after: usize,
    /// Rejects every change of the property.
    user_build: bool,
    /// Its ART has no trace points.
    stock: bool,
    /// How many times its program calls `round`.
    rounds: usize,
    /// Breaks the connection in the middle of a file.
    breaks: bool,
    /// Lines of its log.
    log: String,
    /// Whether the suite has the app: checking an APK takes seconds.
    with_app: bool,
    /// It refuses to install the app.
    refuses_app: bool,
    /// It does not find the app's activity.
    no_activity: bool,
    /// The app saves no trace.
    app_is_quiet: bool,
    has_app: bool,
    is_root: bool,
    properties: BTreeMap<String, String>,
    files: BTreeMap<String, Vec<u8>>,
    runs: usize,
}

const SERIAL: &str = "emulator-5554";
const PROPERTY: &str = "persist.hindsight.trace";

fn trace(rounds: usize) -> Vec<u8> {
    let mut script = Script::new("app_process");
    script.process.reason = "boot test: a stall of 500 ms".into();
    let [main, round, stall] =
        ["main", "round", "stall"].map(|name| script.method(&format!("{CLASS}.{name}"), "()V"));
    let thread = script.thread(100, "main");
    let mut at = script.at(thread, 1000);
    at.enter(main);
    for _ in 0..rounds {
        at.after(10).call(round, 1000);
    }
    at.after(10).call(stall, 500_100_000).after(10).exit();
    script.encode()
}

/// What the device saves when the app's main looper stalls.
fn app_trace() -> Vec<u8> {
    let mut script = Script::new(PACKAGE);
    script.process.reason =
        "a message on main took 712 ms, over 400 ms: android.os.Handler, x".into();
    let stall = script.method(&format!("{PACKAGE}.Stall.stall"), "()V");
    let thread = script.thread(200, "main");
    script.at(thread, 1000).call(stall, 712_000_000);
    script.encode()
}

/// The app with a file in the place of its code, which the stand-in does not run. Without Debian's tools there is none.
fn apk() -> Option<&'static Path> {
    static APK: OnceLock<Option<PathBuf>> = OnceLock::new();
    let build = || {
        let dir = tempfile::tempdir().unwrap().keep();
        let (dex, apk) = (dir.join("classes.dex"), dir.join("app.apk"));
        std::fs::write(&dex, "dex\n039\0").unwrap();
        let manifest = Path::new(env!("CARGO_MANIFEST_DIR")).join("app/AndroidManifest.xml");
        match apk::build(&manifest, &dex, &apk) {
            Ok(()) => Some(apk),
            Err(error) if tools_are_required() => panic!("{error:#}"),
            Err(error) => {
                eprintln!("skipped: the steps on the app: {error:#}");
                None
            }
        }
    };
    APK.get_or_init(build).as_deref()
}

/// Whether a missing program is a failure.
fn tools_are_required() -> bool {
    std::env::var_os("HINDSIGHT_REQUIRE_TOOLS").is_some_and(|value| value == "1")
}

impl Device {
    fn healthy() -> Device {
        Device {
            boots_after: 3,
            rounds: 7,
            log: "all is well\n".into(),
            ..Device::default()
        }
    }

    /// The output of a shell command, and its exit status.
    fn shell(&mut self, command: &str) -> (String, i32) {
        if command == "getprop sys.boot_completed" {
            if self.boots_after > 0 {
                self.boots_after -= 1;
                return ("\n".into(), 0);
            }
            return ("1\n".into(), 0);
        }
        if let Some(rest) = command.strip_prefix("setprop ") {
            let (name, value) = rest.split_once(' ').unwrap();
            if !self.user_build {
                self.properties
                    .insert(name.into(), value.trim_matches('\'').into());
            }
            return (String::new(), 0);
        }
        if let Some(name) = command.strip_prefix("getprop ") {
            return (
                self.properties.get(name).cloned().unwrap_or_default() + "\n",
                0,
            );
        }
        if command.contains("app_process") {
            assert!(
                command.contains("CLASSPATH=/data/local/tmp/") && command.contains(CLASS),
                "{command}"
            );
            assert!(
                self.files
                    .contains_key("/data/local/tmp/hindsight-boot-test.jar"),
                "not installed"
            );
            self.runs += 1;
            if command.ends_with(" start") {
                return ("boottest: started\n".into(), 0);
            }
            if self
                .properties
                .get(PROPERTY)
                .is_some_and(|value| value.contains("trace=main"))
            {
                let file = format!("/data/misc/trace/app_process-{}-1.hindsight", self.runs);
                let said = format!("boottest: sum=1 file={file}\n");
                self.files.insert(file, trace(self.rounds));
                return (said, 0);
            }
            return ("boottest: sum=1 file=null\n".into(), 0);
        }
        if let Some(dir) = command.strip_prefix("ls ") {
            let names = self
                .files
                .keys()
                .filter_map(|path| path.strip_prefix(&format!("{dir}/")));
            return (names.map(|name| format!("{name}\n")).collect(), 0);
        }
        if let Some(path) = command.strip_prefix("rm -f ") {
            self.files.remove(path);
            return (String::new(), 0);
        }
        if let Some(said) = self.app(command) {
            return (said, 0);
        }
        match command.split(' ').next().unwrap() {
            "find" => ("/system/framework/x86_64/boot.oat\n".into(), 0),
            "id" => (if self.is_root { "0\n" } else { "2000\n" }.into(), 0),
            "date" => ("11-21 12:00:00.000\n".into(), 0),
            "logcat" => (self.log.clone(), 0),
            _ => (format!("sh: {command}: not found\n"), 127),
        }
    }
}

impl Device {
    /// What the package and activity managers say.
    fn app(&mut self, command: &str) -> Option<String> {
        if let Some(path) = command.strip_prefix("pm install -r ") {
            assert!(self.files.contains_key(path), "not copied: {path}");
            if self.refuses_app {
                return Some("Failure [INSTALL_FAILED_NO_MATCHING_ABIS]\n".into());
            }
            self.has_app = true;
            return Some("Success\n".into());
        }
        if command == format!("am start -W -n {PACKAGE}/.StallActivity") {
            if !self.has_app || self.no_activity {
                return Some("Error type 3\nActivity class does not exist.\n".into());
            }
            if self.properties[PROPERTY].contains("trace=main") && !self.app_is_quiet {
                let file = format!("/data/misc/trace/{PACKAGE}-1.hindsight");
                self.files.insert(file, app_trace());
            }
            return Some("Starting: Intent\nStatus: ok\n".into());
        }
        if command == format!("am force-stop {PACKAGE}") {
            return Some(String::new());
        }
        if command == format!("pm uninstall {PACKAGE}") {
            assert!(self.has_app);
            self.has_app = false;
            return Some("Success\n".into());
        }
        None
    }
}

fn read_request(stream: &mut TcpStream) -> Option<String> {
    let mut length = [0; 4];
    stream.read_exact(&mut length).ok()?;
    let length = usize::from_str_radix(std::str::from_utf8(&length).unwrap(), 16).unwrap();
    let mut text = vec![0; length];
    stream.read_exact(&mut text).ok()?;
    Some(String::from_utf8(text).unwrap())
}

fn block(text: &str) -> Vec<u8> {
    format!("{:04x}{text}", text.len()).into_bytes()
}

/// Serves one connection, by adb's own description of its services.
fn serve(mut stream: TcpStream, device: &Mutex<Device>) -> Option<()> {
    let first = read_request(&mut stream)?;
    if first == "host:devices" {
        stream.write_all(b"OKAY").ok()?;
        return stream
            .write_all(&block(&format!("{SERIAL}\tdevice\nother\toffline\n")))
            .ok();
    }
    if first != format!("host:transport:{SERIAL}") {
        stream.write_all(b"FAIL").ok()?;
        return stream.write_all(&block("device not found")).ok();
    }
    stream.write_all(b"OKAY").ok()?;
    let service = read_request(&mut stream)?;
    stream.write_all(b"OKAY").ok()?;
    if service == "root:" {
        let mut device = device.lock().unwrap();
        let said = if device.is_root {
            "adbd is already running as root\n"
        } else {
            "restarting adbd as root\n"
        };
        device.is_root = true;
        return stream.write_all(said.as_bytes()).ok();
    }
    if let Some(command) = service.strip_prefix("shell:( ") {
        let (command, echo) = command.rsplit_once(" ) 2>&1; echo ").unwrap();
        let (text, status) = device
            .lock()
            .unwrap()
            .shell(command.trim_end_matches(" 2>/dev/null || true"));
        return stream
            .write_all(
                format!("{text}{}", echo.replace("$?", &status.to_string()) + "\n").as_bytes(),
            )
            .ok();
    }
    assert_eq!(service, "sync:");
    let packet = |stream: &mut TcpStream| -> Option<([u8; 4], Vec<u8>)> {
        let (mut id, mut length) = ([0; 4], [0; 4]);
        stream.read_exact(&mut id).ok()?;
        stream.read_exact(&mut length).ok()?;
        let mut data = vec![
            0;
            if &id == b"DONE" {
                0
            } else {
                u32::from_le_bytes(length) as usize
            }
        ];
        stream.read_exact(&mut data).ok()?;
        Some((id, data))
    };
    let (id, name) = packet(&mut stream)?;
    let name = String::from_utf8(name).unwrap();
    let answer = |stream: &mut TcpStream, id: &[u8; 4], data: &[u8]| {
        stream.write_all(id).ok()?;
        stream.write_all(&(data.len() as u32).to_le_bytes()).ok()?;
        stream.write_all(data).ok()
    };
    if &id == b"SEND" {
        let mut bytes = Vec::new();
        loop {
            let (id, data) = packet(&mut stream)?;
            if &id == b"DONE" {
                break;
            }
            bytes.extend(data);
        }
        let (path, _mode) = name.split_once(',').unwrap();
        device.lock().unwrap().files.insert(path.into(), bytes);
        return answer(&mut stream, b"OKAY", &[]);
    }
    let (bytes, breaks) = {
        let device = device.lock().unwrap();
        let oat: &[u8] = if device.stock {
            b"\x7fELF nothing"
        } else {
            b"\x7fELF..hindsight-trace-points\0shared-1/cursor@8\0"
        };
        let bytes = if name.ends_with("boot.oat") {
            Some(oat.to_vec())
        } else {
            device.files.get(&name).cloned()
        };
        (bytes, device.breaks)
    };
    let Some(bytes) = bytes else {
        return answer(&mut stream, b"FAIL", b"No such file");
    };
    for chunk in bytes.chunks(1000) {
        answer(&mut stream, b"DATA", chunk)?;
        if breaks {
            return None;
        }
    }
    answer(&mut stream, b"DONE", &[])
}

fn start(device: Device) -> (SocketAddr, Arc<Mutex<Device>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let device = Arc::new(Mutex::new(device));
    let shared = Arc::clone(&device);
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            serve(stream, &shared);
        }
    });
    (address, device)
}

fn test(
    server: SocketAddr,
    serial: Option<&str>,
    boot_deadline: Duration,
    apk: Option<&Path>,
) -> Vec<Case> {
    let jar = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(jar.path(), vec![7; 200_000]).unwrap();
    let mut target = Adb::new(
        "avd",
        server,
        serial.map(str::to_owned),
        None,
        Duration::from_millis(1),
    );
    run(
        &mut target,
        jar.path(),
        &Options {
            boot_deadline,
            pairs: 3,
            apk: apk.map(Path::to_owned),
            // Looks for the trace at least once.
            app_deadline: Duration::ZERO,
            poll: Duration::from_millis(1),
        },
    )
}

fn on(device: Device) -> (Vec<Case>, Device) {
    let apk = if device.with_app { apk() } else { None };
    let (server, device) = start(device);
    let cases = test(server, None, Duration::from_secs(60), apk);
    let device = device.lock().unwrap().clone();
    (cases, device)
}

#[test]
fn a_healthy_device_passes_and_is_left_as_it_was() {
    let mut healthy = Device {
        with_app: true,
        ..Device::healthy()
    };
    healthy
        .properties
        .insert(PROPERTY.into(), "trace=all".into());
    let (cases, device) = on(healthy);
    assert_eq!(failures(&cases), []);
    assert_eq!(cases.len(), 13);
    // A device has no program that makes forbidden calls as an app.
    let skipped = cases
        .iter()
        .filter(|case| matches!(case.outcome, Outcome::Skipped(_)));
    let names: Vec<&str> = skipped.map(|case| case.name).collect();
    if apk().is_some() {
        assert_eq!(names, ["a forbidden system call ends the app's process"]);
    }
    assert!(!device.has_app);
    assert_eq!(device.properties[PROPERTY], "trace=all");
    for file in ["jar", "apk"] {
        let path = format!("/data/local/tmp/hindsight-boot-test.{file}");
        assert!(!device.files.contains_key(&path));
    }
    // One traced, one not, three pairs.
    assert_eq!(device.runs, 8);
}

#[test]
fn of_an_app_that_cannot_be_installed_nothing_stays() {
    if apk().is_none() {
        eprintln!("skipped: no APK");
        return;
    }
    let (cases, device) = on(Device {
        with_app: true,
        refuses_app: true,
        ..Device::healthy()
    });
    let failed = failures(&cases);
    assert_eq!(failed.len(), 1, "{failed:?}");
    assert_eq!(failed[0].0, "the app can be installed");
    assert!(failed[0].1.contains("INSTALL_FAILED"), "{failed:?}");
    let path = "/data/local/tmp/hindsight-boot-test.apk";
    assert!(!device.files.contains_key(path));
}

#[test]
fn what_is_wrong_is_found_and_said() {
    let only = |device: Device, name: &str, text: &str| {
        let (cases, _) = on(device);
        let failed = failures(&cases);
        assert_eq!(failed.len(), 1, "{failed:?}");
        assert!(
            failed[0].0 == name && failed[0].1.contains(text),
            "{failed:?}"
        );
    };
    let healthy = Device::healthy;
    if apk().is_some() {
        let stall = "a stall of the app's main looper saves a trace";
        only(
            Device {
                with_app: true,
                app_is_quiet: true,
                ..healthy()
            },
            stall,
            "no trace after 0 s",
        );
        only(
            Device {
                with_app: true,
                no_activity: true,
                ..healthy()
            },
            stall,
            "Activity class does not exist",
        );
    }
    only(
        Device {
            stock: true,
            ..healthy()
        },
        "the boot image has trace points",
        "it was not compiled by Hindsight's ART",
    );
    only(
        Device {
            rounds: 6,
            ..healthy()
        },
        "the trace holds what the program did",
        "6 calls of round instead of 7",
    );
    only(
        Device {
            log: "F libc: Fatal signal 11\n".into(),
            ..healthy()
        },
        "no crash and no denial in the log",
        "Fatal signal 11",
    );
}

#[test]
fn steps_that_cannot_work_any_more_are_skipped() {
    let (cases, _) = on(Device {
        user_build: true,
        ..Device::healthy()
    });
    let failed = failures(&cases);
    assert!(
        failed[0].0 == "an anomaly saves a trace" && failed[0].1.contains("is this a user build"),
        "{failed:?}"
    );
    assert!(cases
        .iter()
        .any(|case| matches!(&case.outcome, Outcome::Skipped(why) if why.contains("an anomaly"))));

    let (cases, _) = on(Device {
        breaks: true,
        ..Device::healthy()
    });
    assert!(
        failures(&cases)
            .iter()
            .any(|(_, text)| text.contains("the connection broke")),
        "{cases:?}"
    );
}

#[test]
fn a_device_that_does_not_boot_or_is_not_there_ends_in_time() {
    let (server, _) = start(Device {
        boots_after: usize::MAX,
        ..Device::healthy()
    });
    let cases = test(server, None, Duration::from_millis(50), None);
    assert!(failures(&cases)[0].1.contains("it is booting"), "{cases:?}");
    let cases = test(server, Some("phone"), Duration::from_millis(50), None);
    assert!(
        failures(&cases)[0].1.contains("phone is not there"),
        "{cases:?}"
    );
    // A port without a listener.
    let gone = TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap();
    let cases = test(gone, None, Duration::from_millis(50), None);
    assert!(failures(&cases)[0].1.contains("no adb server"), "{cases:?}");
}
