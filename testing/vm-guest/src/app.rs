// SPDX-License-Identifier: Apache-2.0
//! A traced process without ART: it says what the runtime says, and hands over memory with some calls in it. It starts in a
//! moment, so that many of them with different users and domains can be tried. ART's own processes are tried beside them.

use anyhow::{anyhow, bail, ensure, Context as _, Result};
use hindsight_service::os::{connect_packets, receive_packet, send_packet, Packet, Sent};
use hindsight_testkit::Script;
use hindsight_trace_format::protocol::{FromProcess, FromService, Hello, TakeOutcome, VERSIONS};
use hindsight_trace_format::shared::SHARED_VERSION;
use std::fs::File;
use std::io::Write as _;
use std::os::fd::{AsFd, AsRawFd as _, FromRawFd as _, OwnedFd};
use std::path::Path;

const SOCKET: &str = "/dev/socket/hindsightd";
const RING_LOG2: u32 = 16;
/// Calls of `com.example.Main.work` in the memory; `lab/src/vm/service.rs` expects as many.
const CALLS: u64 = 50;

fn image(name: &str) -> Vec<u8> {
    let mut script = Script::new(name);
    script.process.pid = std::process::id();
    // SAFETY: no precondition.
    script.process.uid = unsafe { libc::geteuid() };
    script.ring_log2_bytes(RING_LOG2);
    let method = script.method("com.example.Main.work", "()V");
    let thread = script.thread(std::process::id(), "main");
    for call in 0..CALLS {
        script.at(thread, 100 * call + 10).call(method, 50);
    }
    script.shared_memory()
}

/// A sealed memory file with these bytes.
fn memory(bytes: &[u8]) -> Result<File> {
    let flags = libc::MFD_CLOEXEC | libc::MFD_ALLOW_SEALING;
    // SAFETY: the name ends with 0; the result is a new descriptor, or -1.
    let made = unsafe { libc::memfd_create(c"hindsight".as_ptr(), flags) };
    ensure!(made >= 0, "memfd: {}", std::io::Error::last_os_error());
    // SAFETY: nobody else has this descriptor.
    let mut file = File::from(unsafe { OwnedFd::from_raw_fd(made) });
    file.write_all(bytes)?;
    let seals = libc::F_SEAL_SHRINK | libc::F_SEAL_GROW;
    // SAFETY: takes numbers; the descriptor is open.
    let sealed = unsafe { libc::fcntl(file.as_raw_fd(), libc::F_ADD_SEALS, seals) };
    ensure!(sealed == 0, "seal: {}", std::io::Error::last_os_error());
    Ok(file)
}

fn open() -> Result<OwnedFd> {
    connect_packets(Path::new(SOCKET)).with_context(|| format!("connect to {SOCKET}"))
}

/// Connects, and nothing more.
///
/// # Errors
/// If that is refused.
pub(crate) fn connect() -> Result<()> {
    open()?;
    println!("connected");
    Ok(())
}

/// What a process does when it has joined.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Behaviour {
    /// The user sees it.
    Seen,
    /// The user does not see it.
    Behind,
    /// It takes more and more memory.
    Grows,
}

/// Takes memory, and writes to it, until the kernel ends the process.
fn grow() -> ! {
    const STEP: usize = 64 << 10;
    let mut taken: Vec<Vec<u8>> = Vec::new();
    loop {
        taken.push(std::hint::black_box(vec![1; STEP]));
    }
}

/// Joins under this name, says `joined PID` when it is welcome, and waits until the service goes.
///
/// # Errors
/// If the service refuses.
pub(crate) fn join(name: &str, behaviour: Behaviour) -> Result<()> {
    let memory = memory(&image(name))?;
    let connection = open()?;
    let hello = FromProcess::Hello(Hello {
        versions: VERSIONS,
        memory_version: SHARED_VERSION,
        name: name.to_owned(),
        ring_bytes: 1 << RING_LOG2,
        other_bytes: 1 << RING_LOG2,
        is_foreground: behaviour != Behaviour::Behind,
        ..Hello::default()
    });
    let packet = hello.encode();
    let sent = send_packet(connection.as_fd(), &packet, Some(memory.as_fd()));
    ensure!(
        sent == Sent::Bytes(packet.len()),
        "the service takes no hello: {sent:?}"
    );
    loop {
        match receive(&connection)? {
            None => bail!("the service has closed the connection"),
            Some(FromService::Welcome { .. }) => {
                println!("joined {}", std::process::id());
                if behaviour == Behaviour::Grows {
                    grow();
                }
            }
            Some(FromService::Refused { reason }) => bail!("refused: {reason}"),
            // A process that does not answer is disconnected.
            Some(FromService::Configure(wanted)) => {
                let rings = wanted.call_rings;
                let answer = FromProcess::Held { rings }.encode();
                send_packet(connection.as_fd(), &answer, None);
            }
            Some(FromService::Take { report }) => {
                let outcome = TakeOutcome::Nothing;
                let answer = FromProcess::Taken { report, outcome }.encode();
                send_packet(connection.as_fd(), &answer, None);
            }
            Some(_) => {}
        }
    }
}

/// Waits for the next message; `None`: the connection has ended.
fn receive(connection: &OwnedFd) -> Result<Option<FromService>> {
    let mut buffer = [0; 4096];
    loop {
        let mut waits = libc::pollfd {
            fd: connection.as_raw_fd(),
            events: libc::POLLIN,
            revents: 0,
        };
        // SAFETY: one valid entry.
        unsafe { libc::poll(&mut waits, 1, -1) };
        match receive_packet(connection.as_fd(), &mut buffer)? {
            Packet::Nothing => {}
            Packet::End => return Ok(None),
            Packet::Bytes { length, .. } => {
                let message = FromService::decode(&buffer[..length]);
                // Messages of a newer service are none for this one.
                if let Some(message) = message.map_err(|error| anyhow!("{error:?}"))? {
                    return Ok(Some(message));
                }
            }
        }
    }
}
