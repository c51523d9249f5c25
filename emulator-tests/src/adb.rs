// SPDX-License-Identifier: Apache-2.0
//! Devices behind an adb server: AVDs, Cuttlefish, phones. Implements the client side of the server's protocol
//! (text requests with a length, then streams; files by `sync:`), so that a test can take the server's place.

use crate::apk::{ACTIVITY, PACKAGE};
use crate::target::{Start, Target};
use anyhow::{anyhow, bail, ensure, Context as _, Result};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

const PROPERTY: &str = "persist.hindsight.trace";
const TRACES: &str = "/data/misc/trace";
const APK: &str = "/data/local/tmp/hindsight-boot-test.apk";
const JAR: &str = "/data/local/tmp/hindsight-boot-test.jar";
/// Time limit of an answer, including a program's run (the suite's program takes a second).
const TIME_LIMIT: Duration = Duration::from_secs(120);
/// Upper bound on the size of a file, in bytes. No trace or boot image is larger.
const LARGEST: usize = 1 << 30;
const CHUNK: usize = 64 * 1024;

/// A device, through an adb server.
pub struct Adb {
    kind: &'static str,
    server: SocketAddr,
    serial: Option<String>,
    launch: Option<Vec<String>>,
    poll: Duration,
    started: Option<Child>,
    property_before: Option<String>,
    log_from: String,
    has_app: bool,
}

impl Adb {
    /// `serial` is needed only if there is more than one device. [`Target::boot`] runs `launch`, if given, and
    /// polls the device with a pause of `poll`.
    pub fn new(
        kind: &'static str,
        server: SocketAddr,
        serial: Option<String>,
        launch: Option<Vec<String>>,
        poll: Duration,
    ) -> Adb {
        Adb {
            kind,
            server,
            serial,
            launch,
            poll,
            started: None,
            property_before: None,
            log_from: String::new(),
            has_app: false,
        }
    }

    fn connect(&self) -> Result<TcpStream> {
        let stream = TcpStream::connect(self.server)
            .with_context(|| format!("no adb server at {}: run 'adb start-server'", self.server))?;
        stream.set_read_timeout(Some(TIME_LIMIT))?;
        stream.set_write_timeout(Some(TIME_LIMIT))?;
        Ok(stream)
    }

    /// The serial numbers of the devices that are ready.
    fn devices(&self) -> Result<Vec<String>> {
        let mut stream = self.connect()?;
        request(&mut stream, "host:devices")?;
        let text = block(&mut stream)?;
        Ok(text
            .lines()
            .filter_map(|line| line.split_once('\t'))
            .filter(|(_, state)| *state == "device")
            .map(|(serial, _)| serial.to_owned())
            .collect())
    }

    /// A stream to a service of the device.
    fn service(&self, service: &str) -> Result<TcpStream> {
        let serial = self
            .serial
            .as_deref()
            .ok_or_else(|| anyhow!("no device has been chosen yet"))?;
        let mut stream = self.connect()?;
        request(&mut stream, &format!("host:transport:{serial}"))?;
        request(&mut stream, service)?;
        Ok(stream)
    }

    /// Runs a shell command; returns its standard output and error together.
    fn shell(&self, command: &str) -> Result<String> {
        // The old shell service does not transmit the exit status.
        const STATUS: &str = "hindsight-exit:";
        let mut stream = self.service(&format!("shell:( {command} ) 2>&1; echo {STATUS}$?"))?;
        let mut bytes = Vec::new();
        stream
            .read_to_end(&mut bytes)
            .with_context(|| format!("'{command}' has not ended"))?;
        let text = String::from_utf8_lossy(&bytes).replace("\r\n", "\n");
        let Some((output, status)) = text.rsplit_once(STATUS) else {
            bail!("the connection broke during '{command}': {text}");
        };
        ensure!(
            status.trim() == "0",
            "'{command}' failed ({}): {}",
            status.trim(),
            output.trim()
        );
        Ok(output.to_owned())
    }

    /// Copies a file of this machine to the device.
    fn push(&self, file: &Path, to: &str) -> Result<()> {
        let bytes =
            std::fs::read(file).with_context(|| format!("cannot read {}", file.display()))?;
        let mut stream = self.service("sync:")?;
        packet(&mut stream, b"SEND", format!("{to},33188").as_bytes())?;
        for chunk in bytes.chunks(CHUNK) {
            packet(&mut stream, b"DATA", chunk)?;
        }
        stream.write_all(b"DONE")?;
        stream.write_all(&0_u32.to_le_bytes())?;
        let (id, length) = header(&mut stream)?;
        if &id != b"OKAY" {
            bail!("the device refuses {to}: {}", text(&mut stream, length)?);
        }
        Ok(())
    }

    fn set_property(&self, value: &str) -> Result<()> {
        self.shell(&format!("setprop {PROPERTY} '{value}'"))?;
        let now = self.shell(&format!("getprop {PROPERTY}"))?;
        ensure!(
            now.trim() == value,
            "{PROPERTY} can't be set: is this a user build, or a build without Hindsight?"
        );
        Ok(())
    }
}

impl Target for Adb {
    fn name(&self) -> String {
        format!("{} {}", self.kind, self.serial.as_deref().unwrap_or("?"))
    }

    fn boot(&mut self, deadline: Duration) -> Result<()> {
        let start = Instant::now();
        if let Some([program, arguments @ ..]) = self.launch.as_deref() {
            let child = Command::new(program)
                .args(arguments)
                .stdin(Stdio::null())
                .stdout(Stdio::null())
                .spawn()
                .with_context(|| format!("cannot start {program}"))?;
            self.started = Some(child);
        }
        let mut last;
        loop {
            last = match self.devices() {
                Ok(all) => match (&self.serial, all.as_slice()) {
                    (Some(wanted), all) if !all.contains(wanted) => {
                        format!("{wanted} is not there (yet)")
                    }
                    (None, []) => "no device is there (yet)".to_owned(),
                    (None, [_, _, ..]) => bail!(
                        "several devices, name one with --serial: {}",
                        all.join(", ")
                    ),
                    (serial, all) => {
                        self.serial = serial.clone().or_else(|| all.first().cloned());
                        match self.shell("getprop sys.boot_completed") {
                            Ok(value) if value.trim() == "1" => break,
                            Ok(_) => "it is booting".to_owned(),
                            Err(error) => format!("{error:#}"),
                        }
                    }
                },
                Err(error) => format!("{error:#}"),
            };
            ensure!(
                start.elapsed() < deadline,
                "not booted after {} s: {last}",
                deadline.as_secs()
            );
            if let Some(Ok(Some(status))) = self.started.as_mut().map(Child::try_wait) {
                // launch_cvd --daemon ends when it has started everything.
                ensure!(
                    status.success(),
                    "the program that starts the device ended with {status}"
                );
            }
            std::thread::sleep(self.poll);
        }
        // Traces belong to the apps' users, and only root can list the folder.
        let mut stream = self.service("root:")?;
        let mut said = String::new();
        stream.read_to_string(&mut said)?;
        if !said.contains("already running as root") {
            ensure!(
                said.contains("restarting"),
                "adbd can't run as root: boot tests need a debuggable build: {said}"
            );
            while !self.shell("id -u").is_ok_and(|id| id.trim() == "0") {
                ensure!(start.elapsed() < deadline, "adbd has not come back as root");
                std::thread::sleep(self.poll);
            }
        }
        self.property_before = Some(
            self.shell(&format!("getprop {PROPERTY}"))?
                .trim()
                .to_owned(),
        );
        self.log_from = self.shell("date +'%m-%d %H:%M:%S.000'")?.trim().to_owned();
        Ok(())
    }

    fn boot_oat(&self) -> Result<Vec<u8>> {
        let found = self.shell("find /system/framework /apex/com.android.art/javalib -name boot.oat 2>/dev/null || true")?;
        let path = found
            .lines()
            .next()
            .ok_or_else(|| anyhow!("the device has no boot.oat"))?;
        self.pull(path)
    }

    fn install(&mut self, jar: &Path) -> Result<()> {
        self.push(jar, JAR)
    }

    fn run(&self, class: &str, arguments: &[&str], traced: bool) -> Result<String> {
        let config = if traced {
            format!("trace=main,rewind=off,dir={TRACES}")
        } else {
            String::new()
        };
        self.set_property(&config)?;
        let words = [&[class], arguments].concat().join(" ");
        self.shell(&format!("CLASSPATH={JAR} app_process /system/bin {words}"))
    }

    fn traces(&self) -> Result<Vec<String>> {
        let listed = self.shell(&format!("ls {TRACES}"))?;
        Ok(listed
            .lines()
            .filter(|name| name.ends_with(".hindsight"))
            .map(|name| format!("{TRACES}/{name}"))
            .collect())
    }

    fn install_app(&mut self, apk: &Path) -> Result<Start> {
        self.push(apk, APK)?;
        let said = self.shell(&format!("pm install -r {APK}"));
        self.has_app = (said.as_ref()).is_ok_and(|said| said.contains("Success"));
        // Android has its own copy now, or wants none.
        self.shell(&format!("rm -f {APK}"))?;
        let said = said?;
        ensure!(self.has_app, "pm install says: {said}");
        Ok(Start::Ready)
    }

    fn start_app(&mut self) -> Result<()> {
        self.set_property(&format!("trace=main,events=all,dir={TRACES}"))?;
        // am succeeds even if it says that there is no such activity.
        let said = self.shell(&format!("am start -W -n {PACKAGE}/{ACTIVITY}"))?;
        ensure!(said.contains("Status: ok"), "am start says: {said}");
        Ok(())
    }

    fn app_runs(&mut self) -> Result<bool> {
        // Its process may still be starting.
        Ok(true)
    }

    fn stop_app(&mut self) -> Result<String> {
        if !self.has_app {
            return Ok(String::new());
        }
        self.shell(&format!("am force-stop {PACKAGE}"))?;
        self.shell(&format!("pm uninstall {PACKAGE}"))?;
        self.has_app = false;
        // What an app says is in the log.
        Ok(String::new())
    }

    fn forbidden_call(&mut self) -> Result<Option<String>> {
        // The kernel of a device has Android's own filter, and no program of ours runs in an app.
        Ok(None)
    }

    fn pull(&self, path: &str) -> Result<Vec<u8>> {
        let mut stream = self.service("sync:")?;
        packet(&mut stream, b"RECV", path.as_bytes())?;
        let mut bytes = Vec::new();
        loop {
            let (id, length) = header(&mut stream)?;
            match &id {
                b"DATA" => {
                    ensure!(
                        length <= CHUNK && bytes.len() + length <= LARGEST,
                        "{path}: too much data"
                    );
                    let start = bytes.len();
                    bytes.resize(start + length, 0);
                    stream.read_exact(&mut bytes[start..])?;
                }
                b"DONE" => return Ok(bytes),
                b"FAIL" => bail!("{path}: {}", text(&mut stream, length)?),
                _ => bail!(
                    "{path}: unexpected answer {:?}",
                    String::from_utf8_lossy(&id)
                ),
            }
        }
    }

    fn log(&mut self) -> Result<Option<String>> {
        Ok(Some(self.shell(&format!(
            "logcat -d -b main,system,crash,events -T '{}'",
            self.log_from
        ))?))
    }

    fn finish(&mut self) -> Result<()> {
        let result = match self.property_before.clone() {
            Some(before) => self
                .stop_app()
                .and_then(|_| self.set_property(&before))
                .and_then(|()| self.shell(&format!("rm -f {JAR}")).map(drop)),
            None => Ok(()),
        };
        if let Some(mut child) = self.started.take() {
            // Ends an emulator. Cuttlefish's launcher has ended already; the user stops the device with stop_cvd.
            let _ = child.kill();
            let _ = child.wait();
        }
        result
    }
}

/// Sends a request to the server and reads its answer, OKAY or FAIL.
fn request(stream: &mut TcpStream, text: &str) -> Result<()> {
    ensure!(text.len() <= 0xffff, "a request is too long");
    stream.write_all(format!("{:04x}{text}", text.len()).as_bytes())?;
    let mut status = [0; 4];
    stream
        .read_exact(&mut status)
        .with_context(|| format!("no answer to '{text}'"))?;
    match &status {
        b"OKAY" => Ok(()),
        b"FAIL" => bail!("adb refuses '{text}': {}", block(stream)?),
        _ => bail!(
            "not an adb server: it answers {:?}",
            String::from_utf8_lossy(&status)
        ),
    }
}

/// Reads text that its length precedes, in hexadecimal.
fn block(stream: &mut TcpStream) -> Result<String> {
    let mut length = [0; 4];
    stream.read_exact(&mut length)?;
    let length = std::str::from_utf8(&length)
        .ok()
        .and_then(|digits| usize::from_str_radix(digits, 16).ok())
        .ok_or_else(|| anyhow!("not an adb server: its answer has no length"))?;
    text(stream, length)
}

fn packet(stream: &mut TcpStream, id: &[u8; 4], data: &[u8]) -> Result<()> {
    stream.write_all(id)?;
    stream.write_all(&u32::try_from(data.len())?.to_le_bytes())?;
    Ok(stream.write_all(data)?)
}

fn header(stream: &mut TcpStream) -> Result<([u8; 4], usize)> {
    let (mut id, mut length) = ([0; 4], [0; 4]);
    stream.read_exact(&mut id).context("the connection broke")?;
    stream.read_exact(&mut length)?;
    Ok((id, u32::from_le_bytes(length) as usize))
}

/// Reads a message of the device, which is at most 65535 bytes long.
fn text(stream: &mut TcpStream, length: usize) -> Result<String> {
    ensure!(length <= 0xffff, "a message of {length} bytes");
    let mut bytes = vec![0; length];
    stream.read_exact(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}
