// SPDX-License-Identifier: Apache-2.0
//! Processes of their own with a system service: one that is killed, one that forks, and one that can share no memory.

mod common;

use std::os::fd::AsRawFd;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;

use common::service::{until, FakeService};
use common::workers::{numbers, record, waits, PATIENCE};
use common::{gettid, FakeHost, Managed, World};
use hindsight_runtime::{Recorder, Severity, SnapshotOutcome};
use hindsight_trace_format::container::Reader;
use hindsight_trace_format::protocol::{FromProcess, TakeOutcome};
use hindsight_trace_format::shared::{read, read_crash, CrashKind};

/// Calls a test of this file in a process of its own; it is killed in the end.
struct Other {
    child: Child,
    folder: tempfile::TempDir,
    service: FakeService,
}

/// Where a child finds its folder.
const FOLDER: &str = "HINDSIGHT_TEST_FOLDER";

impl Other {
    fn start(test: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let service = FakeService::at(&folder.path().join("service"));
        let child = Command::new(std::env::current_exe().unwrap())
            .args(["--ignored", "--exact", "--nocapture", test])
            .env(FOLDER, folder.path())
            .stdout(Stdio::null())
            .stderr(Stdio::inherit())
            .spawn()
            .unwrap();
        Other {
            child,
            folder,
            service,
        }
    }
}

impl Drop for Other {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The recorder of a child; `None` if this is none.
fn as_child(options: &str) -> Option<(Recorder, Arc<World>, PathBuf)> {
    let folder = std::env::var_os(FOLDER).map(PathBuf::from)?;
    let world = Arc::new(World::default());
    let host = Box::new(FakeHost(Arc::clone(&world)));
    let text = format!("{options},dir={0},service={0}/service", folder.display());
    let recorder = Recorder::start(common::parse(&text).unwrap(), host).unwrap();
    Some((recorder, world, folder))
}

/// Records until it is killed.
#[test]
#[ignore = "runs only as a child of a test below"]
fn child_that_records() {
    let Some((recorder, world, _)) = as_child("trace=all,ring=14") else {
        return;
    };
    Managed::run(&recorder, &world, |thread| {
        for number in 1.. {
            record(thread, number);
            thread.safepoint();
        }
    });
}

/// Ends by a fault of its own.
#[test]
#[ignore = "runs only as a child of a test below"]
fn child_that_aborts() {
    let Some((recorder, world, folder)) = as_child("trace=all,ring=14") else {
        return;
    };
    Managed::run(&recorder, &world, |thread| {
        record(thread, 1);
        std::fs::write(folder.join("tid"), gettid().to_string()).unwrap();
        thread.native(|| until("the test goes on", || folder.join("go").exists()));
        std::process::abort();
    });
}

/// A thread ends by an exception that nothing catches; the process goes on without it, and ends by a signal.
#[test]
#[ignore = "runs only as a child of a test below"]
fn child_that_aborts_after_an_exception() {
    let Some((recorder, world, folder)) = as_child("trace=all,ring=14") else {
        return;
    };
    Managed::run(&recorder, &world, |thread| {
        record(thread, 1);
        std::fs::write(folder.join("tid"), gettid().to_string()).unwrap();
        thread.native(|| {
            until("the test goes on", || folder.join("go").exists());
            recorder.crashed("E", gettid(), PATIENCE);
        });
        std::process::abort();
    });
}

/// A thread ends by an exception that nothing catches; the process waits, as with a dialog on the screen.
#[test]
#[ignore = "runs only as a child of a test below"]
fn child_with_an_exception() {
    let Some((recorder, world, folder)) = as_child("trace=all,ring=14") else {
        return;
    };
    Managed::run(&recorder, &world, |thread| {
        record(thread, 1);
        std::fs::write(folder.join("tid"), gettid().to_string()).unwrap();
        thread.native(|| {
            until("the test goes on", || folder.join("go").exists());
            recorder.crashed("E", gettid(), PATIENCE);
            loop {
                std::thread::park();
            }
        });
    });
}

#[test]
fn a_crash_is_noted_in_the_memory() {
    for (test, kind) in [
        ("child_that_aborts", CrashKind::Signal(libc::SIGABRT as u8)),
        ("child_with_an_exception", CrashKind::UncaughtException),
        (
            "child_that_aborts_after_an_exception",
            CrashKind::Signal(libc::SIGABRT as u8),
        ),
    ] {
        let mut other = Other::start(test);
        let (mut peer, ..) = other.service.welcome(1, waits());
        assert_eq!(read_crash(peer.memory()), None);
        let folder = other.folder.path().to_owned();
        until("it records", || folder.join("tid").exists());
        std::fs::write(folder.join("go"), "").unwrap();
        until("it is noted", || {
            let noted = read_crash(peer.memory());
            noted.is_some_and(|crash| crash.kind == kind && crash.at_boottime_ns != 0)
        });
        let crash = read_crash(peer.memory()).unwrap();
        let tid = std::fs::read_to_string(folder.join("tid")).unwrap();
        assert_eq!((crash.kind, crash.tid.to_string()), (kind, tid));
        if kind == CrashKind::UncaughtException {
            assert!(matches!(peer.next(), Some(FromProcess::Trigger(_))));
            other.child.kill().unwrap();
        }
        let ended = other.child.wait().unwrap();
        let signal = std::os::unix::process::ExitStatusExt::signal(&ended);
        let expected = match kind {
            CrashKind::Signal(signal) => i32::from(signal),
            CrashKind::UncaughtException => libc::SIGKILL,
        };
        assert_eq!(signal, Some(expected), "it ends as without a note");
    }
}

#[test]
fn the_rings_of_a_killed_process_can_be_read() {
    for nth in 0..10 {
        let mut other = Other::start("child_that_records");
        let (mut peer, ..) = other.service.welcome(1, waits());
        // At different places, some in rings that were taken and exchanged.
        until("it records", || {
            numbers(&peer.read().rings).len() > 1 + 30 * nth
        });
        if nth % 2 == 1 {
            assert_eq!(peer.take(1), TakeOutcome::Taken);
        }
        other.child.kill().unwrap();
        other.child.wait().unwrap();
        assert!(peer.ends());
        let ended = peer.read();
        for ring in &ended.rings {
            let numbers = numbers([ring]);
            assert!(numbers.windows(2).all(|w| w[1] == w[0] + 1), "{numbers:?}");
        }
        assert!(!numbers(&ended.rings).is_empty());
        assert_eq!(ended.rings.len(), 1 + nth % 2);
        assert_eq!((ended.name.as_str(), ended.pid), ("test", other.child.id()));
    }
}

/// Loads a part of the call: its number at 0, the lower halves of its arguments from [`FIRST_ARGUMENT`] on, each 8 bytes.
const LOAD: u16 = (libc::BPF_LD | libc::BPF_W | libc::BPF_ABS) as u16;
const FIRST_ARGUMENT: u32 = 16;
const JUMP_IF_EQUAL: u16 = (libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K) as u16;
const JUMP_IF_ANY_BIT: u16 = (libc::BPF_JMP | libc::BPF_JSET | libc::BPF_K) as u16;
const RETURN: u16 = (libc::BPF_RET | libc::BPF_K) as u16;

fn step(code: u16, jt: u8, jf: u8, k: u32) -> libc::sock_filter {
    libc::sock_filter { code, jt, jf, k }
}

fn fail(error: libc::c_int) -> libc::sock_filter {
    step(RETURN, 0, 0, libc::SECCOMP_RET_ERRNO | error as u32)
}

/// This call fails with this error from now on. False if the kernel has no filters.
fn forbid(call: libc::c_long, error: libc::c_int) -> bool {
    filter(&mut [
        step(LOAD, 0, 0, 0),
        step(JUMP_IF_EQUAL, 0, 1, call as u32),
        fail(error),
        step(RETURN, 0, 0, libc::SECCOMP_RET_ALLOW),
    ])
}

/// From now on memory files have no seals, as on a kernel that does not know them. False if the kernel has no filters.
fn forbid_seals() -> bool {
    const SEALS: u32 = libc::MFD_ALLOW_SEALING | libc::MFD_NOEXEC_SEAL;
    filter(&mut [
        step(LOAD, 0, 0, 0),
        step(JUMP_IF_EQUAL, 0, 3, libc::SYS_memfd_create as u32),
        step(LOAD, 0, 0, FIRST_ARGUMENT + 8),
        step(JUMP_IF_ANY_BIT, 0, 5, SEALS),
        fail(libc::EINVAL),
        step(JUMP_IF_EQUAL, 0, 3, libc::SYS_fcntl as u32),
        step(LOAD, 0, 0, FIRST_ARGUMENT + 8),
        step(JUMP_IF_EQUAL, 0, 1, libc::F_ADD_SEALS as u32),
        fail(libc::EINVAL),
        step(RETURN, 0, 0, libc::SECCOMP_RET_ALLOW),
    ])
}

/// A filter of system calls for all threads of this process. False if the kernel has none.
fn filter(steps: &mut [libc::sock_filter]) -> bool {
    let program = libc::sock_fprog {
        len: steps.len() as u16,
        filter: steps.as_mut_ptr(),
    };
    // SAFETY: `program` is a filter that the kernel copies.
    unsafe {
        libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0
            && libc::syscall(
                libc::SYS_seccomp,
                libc::SECCOMP_SET_MODE_FILTER,
                libc::SECCOMP_FILTER_FLAG_TSYNC,
                &raw const program,
            ) == 0
    }
}

/// Without memory to share, it is traced as without a service.
#[test]
#[ignore = "runs only as a child of a test below"]
fn child_without_memory_files() {
    if std::env::var_os(FOLDER).is_none() {
        return;
    }
    if !forbid(libc::SYS_memfd_create, libc::ENOSYS) {
        println!(
            "skipped: a process without memfd_create: the kernel has no filters of system calls"
        );
        return;
    }
    let (recorder, world, folder) = as_child("trace=all,ring=14,socket=/nonexistent/s").unwrap();
    let warnings = || {
        let log = world.log.lock().unwrap();
        let about = |(_, message): &&(Severity, String)| message.starts_with("no service: ");
        log.iter().filter(about).count()
    };
    assert_eq!(warnings(), 1);
    Managed::run(&recorder, &world, |thread| {
        assert!(thread.is_traced());
        record(thread, 1);
        let outcome = thread.native(|| recorder.snapshot("odd".into(), 0, PATIENCE));
        assert!(
            matches!(outcome, SnapshotOutcome::Written(_)),
            "{outcome:?}"
        );
        thread.native(|| recorder.thread_in_foreground(gettid()));
    });
    recorder.shutdown();
    assert_eq!(warnings(), 1);
    std::fs::write(folder.join("passed"), "").unwrap();
}

#[test]
fn without_memory_to_share_a_process_records_as_without_a_service() {
    let mut other = Other::start("child_without_memory_files");
    assert!(other.child.wait().unwrap().success());
    if other.folder.path().join("passed").exists() {
        assert!(!other.service.has_client());
        return;
    }
    assert!(
        std::env::var_os("HINDSIGHT_REQUIRE_TOOLS").is_none(),
        "skipped"
    );
    println!("skipped: a process without memfd_create: the kernel has no filters of system calls");
}

/// The service is there, and the process may not connect to it, as an isolated process of Android.
#[test]
#[ignore = "runs only as a child of a test below"]
fn child_that_may_not_connect() {
    let Some(folder) = std::env::var_os(FOLDER).map(PathBuf::from) else {
        return;
    };
    if !forbid(libc::SYS_connect, libc::EACCES) {
        std::fs::write(folder.join("skipped"), "").unwrap();
        return;
    }
    let (recorder, world, _) = as_child("trace=all,ring=14,events=waits").unwrap();
    Managed::run(&recorder, &world, |thread| {
        let until_known = |thread: &mut Managed<'_>| {
            until("it records nothing", || {
                thread.native(std::thread::yield_now);
                thread.events() & waits() == 0
            });
        };
        until_known(thread);
        assert!(!thread.is_traced());
        record(thread, 1);
        let outcome = thread.native(|| recorder.snapshot("odd".into(), 0, PATIENCE));
        match outcome {
            SnapshotOutcome::Failed(why) => assert!(why.starts_with("nothing to write"), "{why}"),
            SnapshotOutcome::Written(file) => {
                let file = std::fs::read(file).unwrap();
                let reader = Reader::new(&file).unwrap();
                assert_eq!(reader.ring_indices().count(), 0);
            }
            other => panic!("{other:?}"),
        }
        std::fs::write(folder.join("passed"), "").unwrap();
    });
    recorder.shutdown();
}

#[test]
fn a_process_that_may_not_connect_records_nothing() {
    let mut other = Other::start("child_that_may_not_connect");
    assert!(other.child.wait().unwrap().success());
    assert!(!other.service.has_client());
    if other.folder.path().join("skipped").exists() {
        assert!(
            std::env::var_os("HINDSIGHT_REQUIRE_TOOLS").is_none(),
            "skipped"
        );
        println!(
            "skipped: connections that are forbidden: the kernel has no filters of system calls"
        );
        return;
    }
    assert!(other.folder.path().join("passed").exists());
}

/// Its memory file cannot be sealed.
#[test]
#[ignore = "runs only as a child of a test below"]
fn child_without_seals() {
    let Some(folder) = std::env::var_os(FOLDER).map(PathBuf::from) else {
        return;
    };
    if !forbid_seals() {
        std::fs::write(folder.join("skipped"), "").unwrap();
        return;
    }
    child_that_records();
}

#[test]
fn without_seals_a_service_reads_the_memory_all_the_same() {
    let mut other = Other::start("child_without_seals");
    until("it joins, or there are no filters", || {
        other.service.has_client() || other.folder.path().join("skipped").exists()
    });
    if !other.service.has_client() {
        assert!(
            std::env::var_os("HINDSIGHT_REQUIRE_TOOLS").is_none(),
            "skipped"
        );
        println!("skipped: memory files without seals: the kernel has no filters of system calls");
        return;
    }
    let (peer, ..) = other.service.welcome(1, waits());
    // SAFETY: a system call on the test's own descriptor.
    let seals = unsafe { libc::fcntl(peer.memory().as_raw_fd(), libc::F_GET_SEALS) };
    assert_eq!(
        seals,
        libc::F_SEAL_SEAL,
        "the kernel's seal of a plain file"
    );
    until("it records", || numbers(&peer.read().rings).len() > 100);
    other.child.kill().unwrap();
    other.child.wait().unwrap();
    assert!(numbers(&peer.read().rings).len() > 100);
    // Nothing keeps it from becoming shorter: an error of this one report.
    peer.memory().set_len(100).unwrap();
    assert!(read(peer.memory(), 1 << 30).is_err());
}

/// Forks a child that stays, and ends.
#[test]
#[ignore = "runs only as a child of a test below"]
fn child_that_forks() {
    let Some((recorder, world, folder)) = as_child("trace=all,ring=14") else {
        return;
    };
    let are_open = |part: &str| {
        let open = std::fs::read_dir("/proc/self/fd").unwrap().flatten();
        let open = open.filter_map(|entry| std::fs::read_link(entry.path()).ok());
        open.filter(|to| to.to_string_lossy().contains(part))
            .count()
    };
    Managed::run(&recorder, &world, |thread| {
        while !thread.is_traced() {
            thread.native(std::thread::yield_now);
        }
        record(thread, 1);
        // The test harness has no sockets.
        assert_eq!((are_open("socket:"), are_open("memfd:hindsight")), (1, 1));
        // SAFETY: the child does little, and ends by a signal or _exit.
        let child = unsafe { libc::fork() };
        if child == 0 {
            let left = are_open("socket:") + are_open("memfd:") + are_open("event");
            for number in 2..10_000 {
                record(thread, number);
            }
            recorder.thread_in_foreground(gettid());
            recorder.shutdown();
            std::fs::write(folder.join("child"), format!("{left}")).unwrap();
            loop {
                // SAFETY: no precondition. The test kills it.
                unsafe { libc::pause() };
            }
        }
        std::fs::write(folder.join("pid"), child.to_string()).unwrap();
        until("the child has looked", || {
            std::fs::read_to_string(folder.join("child")).is_ok_and(|text| !text.is_empty())
        });
        record(thread, 2);
    });
    recorder.shutdown();
}

/// Kills a process that is no child.
struct Killed(i32);

impl Drop for Killed {
    fn drop(&mut self) {
        // SAFETY: a process that the test has made.
        unsafe { libc::kill(self.0, libc::SIGKILL) };
    }
}

#[test]
fn a_forked_child_neither_keeps_the_connection_nor_writes_into_the_memory() {
    let mut other = Other::start("child_that_forks");
    let (mut peer, ..) = other.service.welcome(1, waits());
    let read = |name: &str| std::fs::read_to_string(other.folder.path().join(name));
    until("it forks", || {
        read("pid").is_ok_and(|pid| pid.parse::<i32>().is_ok())
    });
    let forked = Killed(read("pid").unwrap().parse().unwrap());
    assert_eq!(peer.next(), Some(FromProcess::Farewell));
    assert!(peer.ends());
    assert_eq!(
        read("child").unwrap(),
        "0",
        "descriptors that the child has"
    );
    assert!(other.child.wait().unwrap().success());
    // SAFETY: no precondition.
    assert_eq!(unsafe { libc::kill(forked.0, 0) }, 0, "the child lives");
    // The parent is gone, and has told of its end: its rings were released.
    assert_eq!(peer.read().rings, []);
}
