// SPDX-License-Identifier: Apache-2.0
//! A system service for tests: a real socket, and the memory that processes send.

use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::time::{Duration, Instant};

use hindsight_trace_format::protocol::{
    Configuration, FromProcess, FromService, Hello, TakeOutcome, MAX_MESSAGE_BYTES,
};
use hindsight_trace_format::shared::{read, Ended};

/// After this time a test has failed.
const LIMIT: Duration = Duration::from_secs(300);

/// Waits until it is so.
pub(crate) fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let began = Instant::now();
    while !is_so() {
        assert!(began.elapsed() < LIMIT, "{what}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

fn new_socket() -> OwnedFd {
    // SAFETY: no precondition; the descriptor is new.
    unsafe {
        let kind = libc::SOCK_SEQPACKET | libc::SOCK_CLOEXEC;
        let socket = libc::socket(libc::AF_UNIX, kind, 0);
        assert!(socket >= 0, "{}", io::Error::last_os_error());
        OwnedFd::from_raw_fd(socket)
    }
}

/// A receive on the socket ends after [`LIMIT`].
fn limit(socket: &OwnedFd) {
    let time = libc::timeval {
        tv_sec: LIMIT.as_secs() as libc::time_t,
        tv_usec: 0,
    };
    let bytes = size_of::<libc::timeval>() as libc::socklen_t;
    // SAFETY: `time` has `bytes` bytes.
    unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_RCVTIMEO,
            (&raw const time).cast(),
            bytes,
        );
    }
}

fn bind(socket: &OwnedFd, path: &Path) {
    // SAFETY: zeros are a valid address.
    let mut address: libc::sockaddr_un = unsafe { std::mem::zeroed() };
    address.sun_family = libc::AF_UNIX as libc::sa_family_t;
    for (to, byte) in address.sun_path.iter_mut().zip(path.as_os_str().as_bytes()) {
        *to = *byte as libc::c_char;
    }
    let bytes = size_of::<libc::sockaddr_un>() as libc::socklen_t;
    // SAFETY: `address` has `bytes` bytes.
    let done = unsafe { libc::bind(socket.as_raw_fd(), (&raw const address).cast(), bytes) };
    assert_eq!(done, 0, "{}", io::Error::last_os_error());
}

fn listen(socket: &OwnedFd) {
    // SAFETY: a system call on the test's own socket.
    assert_eq!(unsafe { libc::listen(socket.as_raw_fd(), 16) }, 0);
}

/// A service that listens.
pub(crate) struct FakeService(OwnedFd);

impl FakeService {
    /// Listens at this path, in place of an earlier service.
    pub(crate) fn at(path: &Path) -> Self {
        let socket = new_socket();
        let unready = path.with_extension("new");
        bind(&socket, &unready);
        listen(&socket);
        std::fs::rename(&unready, path).unwrap();
        limit(&socket);
        FakeService(socket)
    }

    /// Listens at this path as most programs do: for a moment the socket is there, and nobody listens.
    pub(crate) fn slowly_at(path: &Path) -> Self {
        let socket = new_socket();
        bind(&socket, path);
        std::thread::sleep(Duration::from_millis(20));
        listen(&socket);
        limit(&socket);
        FakeService(socket)
    }

    /// The next connection, with its hello.
    pub(crate) fn accept(&self) -> (Peer, Hello) {
        // SAFETY: a system call on the test's own socket; the descriptor is new.
        let socket = unsafe {
            let no_address = std::ptr::null_mut();
            let flags = libc::SOCK_CLOEXEC;
            let socket = libc::accept4(self.0.as_raw_fd(), no_address, no_address.cast(), flags);
            assert!(socket >= 0, "{}", io::Error::last_os_error());
            OwnedFd::from_raw_fd(socket)
        };
        limit(&socket);
        let mut peer = Peer {
            socket,
            memory: None,
            notes: Vec::new(),
        };
        let Some(FromProcess::Hello(hello)) = peer.next() else {
            panic!("a process does not say hello");
        };
        (peer, hello)
    }

    /// Whether a process has connected, and was not accepted yet.
    pub(crate) fn has_client(&self) -> bool {
        let mut entry = libc::pollfd {
            fd: self.0.as_raw_fd(),
            events: libc::POLLIN,
            revents: 0,
        };
        // SAFETY: one entry.
        unsafe { libc::poll(&raw mut entry, 1, 0) == 1 }
    }

    /// Accepts the next process, and configures it.
    pub(crate) fn welcome(&self, rings: u32, categories: u32) -> (Peer, Hello, u32) {
        let (mut peer, hello) = self.accept();
        peer.send(&FromService::Welcome { version: 1 });
        let held = peer.configure(rings, categories);
        (peer, hello, held)
    }
}

/// The service's end of a connection.
pub(crate) struct Peer {
    socket: OwnedFd,
    memory: Option<File>,
    /// Names and needs that the process has told of.
    pub(crate) notes: Vec<FromProcess>,
}

/// Room for control messages, aligned.
#[repr(C)]
union Control {
    header: libc::cmsghdr,
    bytes: [u8; 256],
}

impl Peer {
    /// The next message that is no note; `None` at the end of the connection.
    pub(crate) fn next(&mut self) -> Option<FromProcess> {
        loop {
            let message = self.next_of_all()?;
            match message {
                FromProcess::Name { .. } | FromProcess::Needs { .. } | FromProcess::Named => {
                    self.notes.push(message);
                }
                other => return Some(other),
            }
        }
    }

    /// The next message; `None` at the end of the connection.
    pub(crate) fn next_of_all(&mut self) -> Option<FromProcess> {
        let mut packet = vec![0_u8; MAX_MESSAGE_BYTES];
        let mut part = libc::iovec {
            iov_base: packet.as_mut_ptr().cast(),
            iov_len: packet.len(),
        };
        // SAFETY: zeros are a valid value of both; the message points to memory that is alive.
        let length = unsafe {
            let mut control: Control = std::mem::zeroed();
            let mut message: libc::msghdr = std::mem::zeroed();
            message.msg_iov = &raw mut part;
            message.msg_iovlen = 1;
            message.msg_control = (&raw mut control).cast();
            message.msg_controllen = size_of::<Control>() as _;
            let flags = libc::MSG_CMSG_CLOEXEC;
            let length = libc::recvmsg(self.socket.as_raw_fd(), &raw mut message, flags);
            let header = libc::CMSG_FIRSTHDR(&raw const message);
            if !header.is_null() && (*header).cmsg_type == libc::SCM_RIGHTS {
                let descriptor = libc::CMSG_DATA(header).cast::<libc::c_int>();
                self.memory = Some(File::from_raw_fd(descriptor.read_unaligned()));
            }
            length
        };
        let length = usize::try_from(length).unwrap_or_else(|_| {
            let e = io::Error::last_os_error();
            assert_ne!(e.kind(), io::ErrorKind::WouldBlock, "nothing comes");
            0
        });
        match length {
            0 => None,
            length => Some(FromProcess::decode(&packet[..length]).unwrap().unwrap()),
        }
    }

    /// Nothing more comes.
    pub(crate) fn ends(&mut self) -> bool {
        self.next().is_none()
    }

    /// Sends any bytes, with copies of this descriptor. False if the connection has ended.
    pub(crate) fn send_raw(&self, packet: &[u8], descriptor: Option<RawFd>) -> bool {
        let mut part = libc::iovec {
            iov_base: packet.as_ptr().cast_mut().cast(),
            iov_len: packet.len(),
        };
        // SAFETY: zeros are a valid value of both; the message points to memory that is alive, and has room for a descriptor.
        unsafe {
            let mut control: Control = std::mem::zeroed();
            let mut message: libc::msghdr = std::mem::zeroed();
            message.msg_iov = &raw mut part;
            message.msg_iovlen = 1;
            if let Some(descriptor) = descriptor {
                message.msg_control = (&raw mut control).cast();
                message.msg_controllen = libc::CMSG_SPACE(4) as _;
                let header = libc::CMSG_FIRSTHDR(&raw const message);
                (*header).cmsg_level = libc::SOL_SOCKET;
                (*header).cmsg_type = libc::SCM_RIGHTS;
                (*header).cmsg_len = libc::CMSG_LEN(4) as _;
                let data = libc::CMSG_DATA(header).cast::<libc::c_int>();
                data.write_unaligned(descriptor);
            }
            libc::sendmsg(
                self.socket.as_raw_fd(),
                &raw const message,
                libc::MSG_NOSIGNAL,
            ) >= 0
        }
    }

    pub(crate) fn send(&self, message: &FromService) -> bool {
        self.send_raw(&message.encode(), None)
    }

    /// Configures the process; returns how many rings it then has.
    pub(crate) fn configure(&mut self, rings: u32, categories: u32) -> u32 {
        self.send(&FromService::Configure(Configuration {
            call_rings: rings,
            categories,
            ..Configuration::default()
        }));
        match self.next() {
            Some(FromProcess::Held { rings }) => rings,
            other => panic!("{other:?}"),
        }
    }

    /// Takes the rings for a report.
    pub(crate) fn take(&mut self, number: u64) -> TakeOutcome {
        self.send(&FromService::Take { report: number });
        match self.next() {
            Some(FromProcess::Taken { report, outcome }) if report == number => outcome,
            other => panic!("{other:?}"),
        }
    }

    pub(crate) fn release(&self, report: u64) {
        self.send(&FromService::Release { report });
    }

    /// The memory that came with the hello.
    pub(crate) fn memory(&self) -> &File {
        self.memory.as_ref().expect("memory comes with the hello")
    }

    /// What the memory says now.
    pub(crate) fn read(&self) -> Ended {
        read(self.memory(), 1 << 30).unwrap()
    }
}
