// SPDX-License-Identifier: Apache-2.0
//! The service, and processes that talk to it.

#![allow(
    dead_code,
    unused_imports,
    reason = "each test file uses the parts that it needs"
)]

mod bomb;
mod child;
mod system;
mod wait;

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Read, Write};
use std::mem::offset_of;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use hindsight_service::os::{connect_packets, receive_packet, send_packet, Packet, Sent};
use hindsight_testkit::Script;
use hindsight_trace_format::container::{Reader, APP_VERSION_FACT};
use hindsight_trace_format::protocol::{FromProcess, FromService, Hello, VERSIONS};
use hindsight_trace_format::shared::{Header, Region, RingControl, RingState, SHARED_VERSION};

pub(crate) use bomb::{bomb, Bomb, STRANGE};
pub(crate) use child::{as_child, parents_line, say, Peer};
pub(crate) use system::{as_root, skip, SmallDisk};
pub(crate) use wait::wait_for;

/// Everything is recorded and kept, as far as there is room.
pub(crate) const POLICY: &str = "
version = 1
[memory]
budget-mib = 4096
call-rings = 64
processes = 512
processes-per-uid = 64
[reports]
killed = \"all\"
queue = 64
[limits]
device = 1000
per-uid = 1000
per-detector = 1000
[consent.end-user]
unasked = \"full\"
";

/// A folder with the service's files, and the service, if it runs.
pub(crate) struct Service {
    pub(crate) folder: tempfile::TempDir,
    child: Option<Child>,
    options: Vec<String>,
    before: Option<fn() -> std::io::Result<()>>,
}

impl Service {
    /// Starts it with this policy and further options.
    pub(crate) fn start(policy: &str, options: &[&str]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        // Processes of other users connect.
        use std::os::unix::fs::PermissionsExt;
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
        fs::write(folder.path().join("policy.toml"), policy).unwrap();
        let mut service = Service {
            folder,
            child: None,
            options: options.iter().map(|o| (*o).to_owned()).collect(),
            before: None,
        };
        service.start_again();
        service
    }

    /// Ends it, and starts it again; `before` runs in the new process before the program begins, and may only make system calls.
    #[allow(dead_code, reason = "only some tests need it")]
    pub(crate) fn restart_after(&mut self, before: fn() -> std::io::Result<()>) {
        self.end();
        self.before = Some(before);
        self.start_again();
    }

    /// Without its last options from the next start on.
    pub(crate) fn drop_options(&mut self, last: usize) {
        self.options.truncate(self.options.len() - last);
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub(crate) fn start_again(&mut self) {
        let log = File::options();
        let mut log = log.clone();
        let log = log
            .append(true)
            .create(true)
            .open(self.path("log"))
            .unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_hindsightd"));
        if let Some(before) = self.before {
            use std::os::unix::process::CommandExt;
            // SAFETY: it only makes system calls.
            unsafe { command.pre_exec(before) };
        }
        let child = command
            .arg("--socket")
            .arg(self.path("socket"))
            .arg("--commands")
            .arg(self.path("commands"))
            .arg("--store")
            .arg(self.path("store"))
            .arg("--policy")
            .arg(self.path("policy.toml"))
            .args(["--free-mib", "0"])
            // While the machine is short of memory a service makes no reports.
            .arg("--facts-root")
            .arg(self.path("no-facts"))
            .args(&self.options)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .unwrap();
        self.child = Some(child);
        wait_for("the service answers", || {
            self.assert_runs();
            self.try_ask("status").filter(|lines| lines[0] == "ok")
        });
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.as_ref().unwrap().id()
    }

    pub(crate) fn assert_runs(&mut self) {
        let ended = self.child.as_mut().unwrap().try_wait().unwrap();
        assert!(ended.is_none(), "it ended: {ended:?}\n{}", self.log());
    }

    pub(crate) fn kill(&mut self) {
        let mut child = self.child.take().unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
    }

    /// Asks it to end, and waits for that.
    pub(crate) fn end(&mut self) {
        let mut child = self.child.take().unwrap();
        signal(child.id(), libc::SIGTERM);
        let ended = wait_for("the service ends", || child.try_wait().unwrap());
        assert!(ended.success(), "{ended}\n{}", self.log());
    }

    pub(crate) fn log(&self) -> String {
        fs::read_to_string(self.path("log")).unwrap()
    }

    pub(crate) fn commands(&self) -> std::io::Result<UnixStream> {
        UnixStream::connect(self.path("commands"))
    }

    pub(crate) fn try_ask(&self, command: &str) -> Option<Vec<String>> {
        let mut stream = self.commands().ok()?;
        stream.write_all(format!("{command}\n").as_bytes()).ok()?;
        stream.shutdown(std::net::Shutdown::Write).ok()?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).ok()?;
        let lines: Vec<String> = answer.lines().map(str::to_owned).collect();
        (!lines.is_empty()).then_some(lines)
    }

    /// The lines of an answer; the first one is `ok`, or an error.
    pub(crate) fn ask(&self, command: &str) -> Vec<String> {
        self.try_ask(command)
            .unwrap_or_else(|| panic!("no answer to {command}\n{}", self.log()))
    }

    pub(crate) fn status(&self) -> serde_json::Value {
        serde_json::from_str(&self.ask("status")[1]).unwrap()
    }

    /// All reports, as the service lists them.
    pub(crate) fn reports(&self) -> Vec<serde_json::Value> {
        let lines = self.ask("reports");
        assert_eq!(lines[0], "ok");
        let parse = |line: &String| serde_json::from_str(line).unwrap();
        lines[1..].iter().map(parse).collect()
    }

    pub(crate) fn wait_for_reports(&self, count: usize) -> Vec<serde_json::Value> {
        wait_for("reports are written", || {
            let reports = self.reports();
            (reports.len() >= count).then_some(reports)
        })
    }

    /// The bytes of a report's file.
    pub(crate) fn trace(&self, report: &serde_json::Value) -> Vec<u8> {
        let id = report["report"].as_u64().unwrap();
        fs::read(self.path("store").join(format!("{id}.hindsight"))).unwrap()
    }

    /// Number of open descriptors of the service.
    pub(crate) fn descriptors(&self) -> usize {
        let folder = format!("/proc/{}/fd", self.pid());
        fs::read_dir(folder).unwrap().count()
    }

    /// Bytes of all files in the store.
    pub(crate) fn stored_bytes(&self) -> u64 {
        stored_bytes(&self.path("store"))
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
        if std::thread::panicking() {
            eprintln!("--- log of the service\n{}", self.log());
        }
    }
}

pub(crate) fn stored_bytes(folder: &Path) -> u64 {
    let files = fs::read_dir(folder).unwrap();
    // A file may go while it is looked at.
    let sizes = files.filter_map(|f| Some(f.ok()?.metadata().ok()?.len()));
    sizes.sum()
}

pub(crate) fn signal(pid: u32, signal: i32) {
    // SAFETY: takes numbers; the process is a child of the caller.
    assert_eq!(unsafe { libc::kill(pid as i32, signal) }, 0);
}

/// The version of the app of each process.
pub(crate) const APP_VERSION: u64 = (2 << 32) + 31;

/// Memory that this process would share after some calls.
pub(crate) fn image(name: &str, calls: u64) -> Vec<u8> {
    let mut script = Script::new(name);
    script.process.pid = std::process::id();
    // SAFETY: no precondition.
    script.process.uid = unsafe { libc::geteuid() };
    let version = (APP_VERSION_FACT.to_owned(), APP_VERSION.to_string());
    script.process.extra.push(version);
    script.ring_log2_bytes(16);
    let method = script.method("com.example.Main.work", "()V");
    let thread = script.thread(std::process::id(), "main");
    for call in 0..calls {
        script.at(thread, 100 * call + 10).call(method, 50);
    }
    script.shared_memory()
}

/// Changes the state of a ring in a process's memory to taken.
pub(crate) fn take_ring(image: &mut [u8], ring: usize) {
    let offset = offset_of!(Header, controls) + offset_of!(Region, offset);
    let controls = u64::from_le_bytes(image[offset..offset + 8].try_into().unwrap());
    let state = controls as usize + ring * size_of::<RingControl>();
    let taken = RingState::Taken as u32;
    image[state..state + 4].copy_from_slice(&taken.to_le_bytes());
}

/// A memory file with these bytes.
pub(crate) fn memory(bytes: &[u8]) -> File {
    // SAFETY: the name ends with 0; the result is a new descriptor, or -1.
    let memory = unsafe {
        let flags = libc::MFD_CLOEXEC | libc::MFD_ALLOW_SEALING;
        let memory = libc::memfd_create(c"hindsight-test".as_ptr(), flags);
        assert_ne!(memory, -1);
        File::from(OwnedFd::from_raw_fd(memory))
    };
    (&memory).write_all(bytes).unwrap();
    let seals = libc::F_SEAL_SHRINK | libc::F_SEAL_GROW;
    // SAFETY: takes numbers; the descriptor is open.
    let sealed = unsafe { libc::fcntl(memory.as_raw_fd(), libc::F_ADD_SEALS, seals) };
    assert_eq!(sealed, 0);
    memory
}

pub(crate) fn hello(name: &str) -> Hello {
    Hello {
        versions: VERSIONS,
        memory_version: SHARED_VERSION,
        name: name.to_owned(),
        ring_bytes: 1 << 16,
        other_bytes: 1 << 16,
        is_foreground: true,
        ..Hello::default()
    }
}

/// A connection of this process.
pub(crate) struct Connection(pub(crate) OwnedFd);

impl Connection {
    pub(crate) fn new(folder: &Path) -> Self {
        let socket = folder.join("socket");
        let connect = || match connect_packets(&socket) {
            Ok(connection) => Some(connection),
            Err(e) => {
                let again = [libc::EAGAIN, libc::ECONNREFUSED, libc::ENOENT];
                assert!(again.map(Some).contains(&e.raw_os_error()), "{e}");
                None
            }
        };
        Connection(wait_for("the service accepts connections", connect))
    }

    /// Connects and introduces this process.
    pub(crate) fn join(folder: &Path, hello: &Hello, memory: &File) -> Self {
        let connection = Connection::new(folder);
        assert!(
            connection.send_with(&FromProcess::Hello(hello.clone()), memory),
            "the hello cannot be sent: {}; the service's log says more",
            std::io::Error::last_os_error()
        );
        connection
    }

    pub(crate) fn send(&self, message: &FromProcess) -> bool {
        let packet = message.encode();
        send_packet(self.0.as_fd(), &packet, None) == Sent::Bytes(packet.len())
    }

    pub(crate) fn send_with(&self, message: &FromProcess, memory: &File) -> bool {
        let packet = message.encode();
        let sent = send_packet(self.0.as_fd(), &packet, Some(memory.as_fd()));
        sent == Sent::Bytes(packet.len())
    }

    /// The next message; `None`: the service has closed the connection.
    pub(crate) fn receive(&self) -> Option<FromService> {
        wait_for("the service says something", || {
            let mut buffer = [0; 4096];
            match receive_packet(self.0.as_fd(), &mut buffer) {
                Ok(Packet::Nothing) => None,
                Ok(Packet::End) | Err(_) => Some(None),
                Ok(Packet::Bytes { length, .. }) => {
                    Some(FromService::decode(&buffer[..length]).unwrap())
                }
            }
        })
    }

    /// Waits for a message.
    pub(crate) fn wait<T>(&self, mut is_it: impl FnMut(&FromService) -> Option<T>) -> T {
        loop {
            let message = self.receive().expect("the connection was closed");
            if let Some(found) = is_it(&message) {
                return found;
            }
        }
    }

    pub(crate) fn wait_for_welcome(&self) {
        self.wait(|m| matches!(m, FromService::Welcome { .. }).then_some(()));
    }

    pub(crate) fn wait_for_end(&self) {
        while self.receive().is_some() {}
    }
}

/// The file can be read as a whole; returns pid, uid, name, and number of entries of methods.
pub(crate) fn read_trace(bytes: &[u8]) -> (u32, u32, String, usize) {
    let reader = Reader::new(bytes).unwrap();
    reader.verify_all().unwrap();
    let process = reader.process().unwrap();
    let mut entries = 0;
    for index in reader.ring_indices() {
        let ring = reader.ring(index).unwrap().unwrap();
        let events = ring.slots();
        entries += events
            .events()
            .filter(|e| e.entered_method().is_some())
            .count();
    }
    (process.pid, process.uid, process.name, entries)
}

/// What a child does in most tests: it joins with its name and so many calls, and waits for the end of the test.
pub(crate) fn join_and_wait(calls: u64) {
    let Some((folder, name)) = as_child() else {
        return;
    };
    let memory = memory(&image(&name, calls));
    let connection = Connection::join(&folder, &hello(&name), &memory);
    connection.wait_for_welcome();
    say("joined");
    parents_line();
}
