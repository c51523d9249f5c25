// SPDX-License-Identifier: Apache-2.0
//! Unix sockets, with descriptors in their messages. Nothing here waits.

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::path::{Path, PathBuf};

use super::call::{done, owned};

/// Connections that wait to be accepted.
const BACKLOG: libc::c_int = 128;

/// What goes through a socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SocketKind {
    /// Packets (`SOCK_SEQPACKET`).
    Packets,
    /// A stream of bytes (`SOCK_STREAM`).
    Bytes,
}

impl SocketKind {
    fn number(self) -> libc::c_int {
        match self {
            SocketKind::Packets => libc::SOCK_SEQPACKET,
            SocketKind::Bytes => libc::SOCK_STREAM,
        }
    }
}

/// Why nobody can connect.
#[derive(Debug, thiserror::Error)]
pub enum ListenError {
    /// Somebody else does.
    #[error("another process listens at {0}; end it, or use another path")]
    Taken(PathBuf),
    /// Something else is there.
    #[error("{0} exists and is no socket; remove it, or use another path")]
    NoSocket(PathBuf),
    /// The path is too long for the system.
    #[error("the path {0} is too long for a socket: at most 107 bytes are allowed")]
    Long(PathBuf),
    /// It cannot be made.
    #[error("a socket cannot be made at {0}: {1}; its folder must exist, and be writable")]
    Make(PathBuf, io::Error),
    /// The descriptor is not what it should be.
    #[error("descriptor {0} is not a listening Unix socket of the right kind: {1}")]
    Descriptor(RawFd, &'static str),
}

fn address(path: &Path) -> Result<(libc::sockaddr_un, libc::socklen_t), ListenError> {
    // SAFETY: all zeros is a valid `sockaddr_un`.
    let mut address: libc::sockaddr_un = unsafe { std::mem::zeroed() };
    address.sun_family = libc::AF_UNIX as libc::sa_family_t;
    let bytes = path.as_os_str().as_bytes();
    if bytes.len() >= address.sun_path.len() || bytes.contains(&0) {
        return Err(ListenError::Long(path.to_owned()));
    }
    for (to, byte) in address.sun_path.iter_mut().zip(bytes) {
        *to = *byte as libc::c_char;
    }
    Ok((address, size_of::<libc::sockaddr_un>() as libc::socklen_t))
}

fn new_socket(kind: SocketKind) -> io::Result<OwnedFd> {
    let kind = kind.number() | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
    // SAFETY: the result is a new descriptor, or -1.
    unsafe { owned(libc::socket(libc::AF_UNIX, kind, 0)) }
}

fn connect(path: &Path, kind: SocketKind) -> io::Result<OwnedFd> {
    let (address, length) = address(path).map_err(io::Error::other)?;
    let socket = new_socket(kind)?;
    // SAFETY: `address` is valid, and `length` bytes long.
    done(unsafe { libc::connect(socket.as_raw_fd(), (&raw const address).cast(), length) })?;
    Ok(socket)
}

/// Connects to a socket of packets, for a client.
///
/// # Errors
/// If nobody listens there, or too many wait.
pub fn connect_packets(path: &Path) -> io::Result<OwnedFd> {
    connect(path, SocketKind::Packets)
}

/// Makes a socket at this path, and listens. A socket that an ended process left behind is replaced.
///
/// # Errors
/// See [`ListenError`].
pub fn listen(path: &Path, kind: SocketKind, mode: u32) -> Result<OwnedFd, ListenError> {
    let (address, length) = address(path)?;
    let failed = |e| ListenError::Make(path.to_owned(), e);
    match std::fs::symlink_metadata(path) {
        Ok(existing) if !existing.file_type().is_socket() => {
            return Err(ListenError::NoSocket(path.to_owned()))
        }
        Ok(_) => {
            // Another kind of socket refuses as well, but somebody listens.
            let in_use = |kind| {
                let result = connect(path, kind);
                !result.is_err_and(|e| {
                    [Some(libc::ECONNREFUSED), Some(libc::EPROTOTYPE)].contains(&e.raw_os_error())
                })
            };
            if in_use(SocketKind::Packets) || in_use(SocketKind::Bytes) {
                return Err(ListenError::Taken(path.to_owned()));
            }
            std::fs::remove_file(path).map_err(failed)?;
        }
        Err(_) => {}
    }
    let socket = new_socket(kind).map_err(failed)?;
    let descriptor = socket.as_raw_fd();
    // SAFETY: `address` is valid, and `length` bytes long.
    done(unsafe { libc::bind(descriptor, (&raw const address).cast(), length) }).map_err(failed)?;
    let permissions = std::fs::Permissions::from_mode(mode);
    std::fs::set_permissions(path, permissions).map_err(failed)?;
    // SAFETY: takes numbers only. Before this, nobody can connect.
    done(unsafe { libc::listen(descriptor, BACKLOG) }).map_err(failed)?;
    Ok(socket)
}

/// Takes a listening socket over that init has made, and handed to this process under this number.
///
/// # Errors
/// If it is none, or of another kind.
///
/// # Safety
/// Nothing else in this process uses the descriptor.
pub unsafe fn adopt_listener(number: RawFd, kind: SocketKind) -> Result<OwnedFd, ListenError> {
    let wrong = |what| ListenError::Descriptor(number, what);
    let option = |name| {
        let mut value: libc::c_int = 0;
        let mut length = size_of::<libc::c_int>() as libc::socklen_t;
        // SAFETY: `value` has room for `length` bytes. A number that is no descriptor is an error.
        let result = unsafe {
            let value = (&raw mut value).cast();
            libc::getsockopt(number, libc::SOL_SOCKET, name, value, &mut length)
        };
        (result == 0).then_some(value)
    };
    if number < 3 || option(libc::SO_DOMAIN) != Some(libc::AF_UNIX) {
        return Err(wrong("it is no Unix socket"));
    }
    if option(libc::SO_TYPE) != Some(kind.number()) {
        return Err(wrong("its type is another one"));
    }
    // SAFETY: takes numbers only; `number` is a socket. Listening again only changes the length of the queue.
    done(unsafe { libc::listen(number, BACKLOG) }).map_err(|_| wrong("it cannot listen"))?;
    // SAFETY: `number` is an open descriptor, and takes both flags.
    unsafe {
        let flags = libc::fcntl(number, libc::F_GETFL);
        libc::fcntl(number, libc::F_SETFL, flags | libc::O_NONBLOCK);
        libc::fcntl(number, libc::F_SETFD, libc::FD_CLOEXEC);
    }
    // SAFETY: it is open, and the caller says that nobody else uses it.
    Ok(unsafe { OwnedFd::from_raw_fd(number) })
}

/// A new connection; `None`: nobody waits.
///
/// # Errors
/// If the process has no descriptor left, or the system no memory.
pub fn accept(listener: BorrowedFd<'_>) -> io::Result<Option<OwnedFd>> {
    let flags = libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
    let null = std::ptr::null_mut();
    // SAFETY: no address is wanted; the result is a new descriptor, or -1.
    let accepted = unsafe {
        owned(libc::accept4(
            listener.as_raw_fd(),
            null,
            null.cast(),
            flags,
        ))
    };
    match accepted {
        Ok(connection) => Ok(Some(connection)),
        Err(e) => match e.raw_os_error() {
            Some(libc::EAGAIN | libc::EINTR | libc::ECONNABORTED) => Ok(None),
            _ => Err(e),
        },
    }
}

/// What was received.
#[derive(Debug)]
pub enum Packet {
    /// Nothing is there now.
    Nothing,
    /// The other side has closed, or shut down, its end.
    End,
    /// A packet.
    Bytes {
        /// Its length, bytes; it was cut if it is longer than the buffer.
        length: usize,
        /// The first descriptor in it; the kernel closes the others. Closing it may take as long as the other side likes.
        descriptor: Option<OwnedFd>,
        /// More came with it: bytes than the buffer has, or another descriptor.
        is_cut: bool,
    },
}

/// Room for the control message with one descriptor.
#[repr(C)]
union Control {
    /// The alignment that the system wants.
    _header: libc::cmsghdr,
    bytes: [u8; 64],
}

/// Bytes of a descriptor.
const DESCRIPTOR_BYTES: u32 = size_of::<RawFd>() as u32;
// SAFETY: computes a number from a number.
const _: () = assert!(unsafe { libc::CMSG_SPACE(DESCRIPTOR_BYTES) } <= 64);

/// Takes the descriptor out of received control data that has room for one.
///
/// # Safety
/// `message` was filled in by `recvmsg`, and its control data is still there.
unsafe fn descriptor(message: &libc::msghdr) -> Option<OwnedFd> {
    // SAFETY: the caller says that the control data is as the kernel has written it; the macros stay within it.
    unsafe {
        let mut header = libc::CMSG_FIRSTHDR(message);
        while let Some(control) = header.as_ref() {
            if (control.cmsg_level, control.cmsg_type) == (libc::SOL_SOCKET, libc::SCM_RIGHTS) {
                #[allow(clippy::unnecessary_cast, reason = "Android's libc has another type")]
                let bytes = control.cmsg_len as usize - libc::CMSG_LEN(0) as usize;
                let data = libc::CMSG_DATA(header).cast::<RawFd>();
                if bytes >= size_of::<RawFd>() {
                    return Some(OwnedFd::from_raw_fd(data.read_unaligned()));
                }
            }
            header = libc::CMSG_NXTHDR(message, header);
        }
    }
    None
}

/// Receives one packet.
///
/// # Errors
/// If the connection is broken; the next call tells [`Packet::End`], or has what was sent before.
pub fn receive_packet(connection: BorrowedFd<'_>, buffer: &mut [u8]) -> io::Result<Packet> {
    receive(connection, buffer, true)
}

/// Receives one packet without its descriptors: this process never has them, and the kernel lets go of them by itself.
///
/// # Errors
/// As [`receive_packet`].
pub fn receive_plain_packet(connection: BorrowedFd<'_>, buffer: &mut [u8]) -> io::Result<Packet> {
    receive(connection, buffer, false)
}

fn receive(
    connection: BorrowedFd<'_>,
    buffer: &mut [u8],
    with_descriptor: bool,
) -> io::Result<Packet> {
    let mut part = libc::iovec {
        iov_base: buffer.as_mut_ptr().cast(),
        iov_len: buffer.len(),
    };
    let mut control = Control { bytes: [0; 64] };
    // SAFETY: all zeros is a valid `msghdr`.
    let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
    message.msg_iov = &mut part;
    message.msg_iovlen = 1;
    if with_descriptor {
        message.msg_control = (&raw mut control).cast();
        // Not CMSG_SPACE, in which a second one might find room.
        // SAFETY: computes a number from a number.
        let length = unsafe { libc::CMSG_LEN(DESCRIPTOR_BYTES) };
        message.msg_controllen = length as _;
    }
    let flags = libc::MSG_DONTWAIT | libc::MSG_CMSG_CLOEXEC;
    // SAFETY: `message` names the buffer and the control data, which are valid for the lengths in it.
    let result = unsafe { libc::recvmsg(connection.as_raw_fd(), &mut message, flags) };
    let Ok(length) = usize::try_from(result) else {
        let e = io::Error::last_os_error();
        return match e.kind() {
            io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted => Ok(Packet::Nothing),
            _ => Err(e),
        };
    };
    let descriptor = match with_descriptor {
        // SAFETY: `recvmsg` has filled `message` in, and `control` is still there.
        true => unsafe { descriptor(&message) },
        false => None,
    };
    if length == 0 && descriptor.is_none() {
        return Ok(Packet::End);
    }
    let cut = match with_descriptor {
        true => libc::MSG_TRUNC | libc::MSG_CTRUNC,
        false => libc::MSG_TRUNC,
    };
    Ok(Packet::Bytes {
        length,
        descriptor,
        is_cut: message.msg_flags & cut != 0,
    })
}

/// What became of bytes to be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sent {
    /// So many bytes were.
    Bytes(usize),
    /// There is no room: the other side does not read.
    Full,
    /// The other side is gone.
    Gone,
}

/// Sends one packet, and a descriptor with it.
pub fn send_packet(
    connection: BorrowedFd<'_>,
    bytes: &[u8],
    descriptor: Option<BorrowedFd<'_>>,
) -> Sent {
    send(connection, bytes, descriptor)
}

/// Sends a part of a stream, and a descriptor with its first byte.
pub fn send_stream(
    connection: BorrowedFd<'_>,
    bytes: &[u8],
    descriptor: Option<BorrowedFd<'_>>,
) -> Sent {
    send(connection, bytes, descriptor)
}

fn send(connection: BorrowedFd<'_>, bytes: &[u8], descriptor: Option<BorrowedFd<'_>>) -> Sent {
    let mut part = libc::iovec {
        iov_base: bytes.as_ptr().cast_mut().cast(),
        iov_len: bytes.len(),
    };
    let mut control = MaybeUninit::<Control>::zeroed();
    // SAFETY: all zeros is a valid `msghdr`.
    let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
    message.msg_iov = &mut part;
    message.msg_iovlen = 1;
    if let Some(descriptor) = descriptor {
        let bytes = size_of::<RawFd>() as u32;
        // SAFETY: `control` is aligned for its header, and has room for one descriptor, as asserted above.
        unsafe {
            message.msg_control = control.as_mut_ptr().cast();
            message.msg_controllen = libc::CMSG_SPACE(bytes) as _;
            let header = libc::CMSG_FIRSTHDR(&message);
            (*header).cmsg_level = libc::SOL_SOCKET;
            (*header).cmsg_type = libc::SCM_RIGHTS;
            (*header).cmsg_len = libc::CMSG_LEN(bytes) as _;
            let data = libc::CMSG_DATA(header).cast::<RawFd>();
            data.write_unaligned(descriptor.as_raw_fd());
        }
    }
    let flags = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;
    // SAFETY: `message` names `bytes`, which are only read, and `control`, which are both valid during the call.
    let result = unsafe { libc::sendmsg(connection.as_raw_fd(), &message, flags) };
    match usize::try_from(result) {
        Ok(sent) => Sent::Bytes(sent),
        Err(_) => match io::Error::last_os_error().raw_os_error() {
            Some(libc::EAGAIN | libc::ENOBUFS | libc::ENOMEM | libc::EINTR) => Sent::Full,
            _ => Sent::Gone,
        },
    }
}
