// SPDX-License-Identifier: Apache-2.0
//! A kernel before 5.3, which has no descriptors of processes: the end of the connection tells the end of the process.

mod common;

use std::io;

use common::{
    as_child, hello, image, memory, parents_line, read_trace, say, Connection, Peer, Service,
    POLICY,
};

const CALLS: u64 = 100;

/// From now on this process, and the programs that it executes, have no descriptors of processes.
fn forbid_pidfds() -> io::Result<()> {
    const SO_PEERPIDFD: u32 = 77;
    const LOAD: u16 = (libc::BPF_LD | libc::BPF_W | libc::BPF_ABS) as u16;
    const IF_EQUAL: u16 = (libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K) as u16;
    const RETURN: u16 = (libc::BPF_RET | libc::BPF_K) as u16;
    /// Lower half of the third argument in `seccomp_data`.
    const THIRD_ARGUMENT: u32 = 16 + 2 * 8;
    let step = |code, jt, jf, k| libc::sock_filter { code, jt, jf, k };
    let fail = |error: i32| step(RETURN, 0, 0, libc::SECCOMP_RET_ERRNO | error as u32);
    let mut steps = [
        step(LOAD, 0, 0, 0),
        step(IF_EQUAL, 0, 1, libc::SYS_pidfd_open as u32),
        fail(libc::ENOSYS),
        step(IF_EQUAL, 0, 3, libc::SYS_getsockopt as u32),
        step(LOAD, 0, 0, THIRD_ARGUMENT),
        step(IF_EQUAL, 0, 1, SO_PEERPIDFD),
        fail(libc::ENOPROTOOPT),
        step(RETURN, 0, 0, libc::SECCOMP_RET_ALLOW),
    ];
    let program = libc::sock_fprog {
        len: steps.len() as u16,
        filter: steps.as_mut_ptr(),
    };
    // SAFETY: `program` is a filter that the kernel copies.
    let is_done = unsafe {
        libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0
            && libc::prctl(
                libc::PR_SET_SECCOMP,
                libc::SECCOMP_MODE_FILTER,
                &raw const program,
            ) == 0
    };
    // SAFETY: no precondition; the descriptor, if there is one, goes with this process.
    let refused = unsafe { libc::syscall(libc::SYS_pidfd_open, libc::getpid(), 0) } == -1;
    match is_done && refused {
        true => Ok(()),
        false => Err(io::Error::last_os_error()),
    }
}

#[test]
#[ignore = "runs only as a child of the tests below"]
fn child_that_joins_and_waits() {
    let Some((folder, name)) = as_child() else {
        return;
    };
    let memory = memory(&image(&name, CALLS));
    let connection = Connection::join(&folder, &hello(&name), &memory);
    connection.wait_for_welcome();
    say("joined");
    parents_line();
    // The same process, without its connection for a moment.
    drop(connection);
    let connection = Connection::join(&folder, &hello(&name), &memory);
    connection.wait_for_welcome();
    say("joined again");
    parents_line();
}

fn start() -> Service {
    let mut service = Service::start(POLICY, &[]);
    service.restart_after(forbid_pidfds);
    service
}

#[test]
fn without_descriptors_of_processes_a_killed_one_leaves_a_report() {
    let service = start();
    let mut peer = Peer::start(
        "child_that_joins_and_waits",
        service.folder.path(),
        "com.example.old",
    );
    peer.wait_for("joined");
    let pid = peer.pid();
    peer.kill();
    let reports = service.wait_for_reports(1);
    assert_eq!(reports[0]["pid"], pid);
    assert_eq!(reports[0]["detector"], "killed");
    assert_eq!(reports[0]["has_ended"], true);
    let read = read_trace(&service.trace(&reports[0]));
    assert_eq!((read.0, read.3), (pid, CALLS as usize));
}

#[test]
fn without_descriptors_of_processes_one_that_hangs_up_may_come_again() {
    let service = start();
    let mut peer = Peer::start(
        "child_that_joins_and_waits",
        service.folder.path(),
        "com.example.old",
    );
    peer.wait_for("joined");
    peer.tell("");
    peer.wait_for("joined again");
    common::wait_for("the old connection is forgotten", || {
        let status = service.status();
        let processes = status["engine"]["processes"].as_array().unwrap();
        (processes.len() == 1 && processes[0]["connection"] == "connected").then_some(())
    });
}
