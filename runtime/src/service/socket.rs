// SPDX-License-Identifier: Apache-2.0
//! System calls on sockets of packets.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// The result of a system call, or its error.
fn checked(result: libc::c_int) -> io::Result<libc::c_int> {
    match result {
        -1 => Err(io::Error::last_os_error()),
        result => Ok(result),
    }
}

/// Calls `f` again as long as a signal interrupts it.
fn uninterrupted(mut f: impl FnMut() -> libc::ssize_t) -> io::Result<usize> {
    loop {
        let result = f();
        if result >= 0 {
            return Ok(result.unsigned_abs());
        }
        let error = io::Error::last_os_error();
        if error.kind() != io::ErrorKind::Interrupted {
            return Err(error);
        }
    }
}

/// The address of the socket with this path.
///
/// # Errors
/// If the path is too long.
fn address(path: &Path) -> io::Result<libc::sockaddr_un> {
    // SAFETY: zeros are a valid `sockaddr_un`.
    let mut address: libc::sockaddr_un = unsafe { std::mem::zeroed() };
    address.sun_family = libc::AF_UNIX as libc::sa_family_t;
    let bytes = path.as_os_str().as_bytes();
    // A zero is after it.
    if bytes.len() >= address.sun_path.len() {
        return Err(io::Error::from(io::ErrorKind::InvalidInput));
    }
    for (to, byte) in address.sun_path.iter_mut().zip(bytes) {
        *to = *byte as libc::c_char;
    }
    Ok(address)
}

/// Connects to the socket at this path. Does not wait for a service that does not accept connections.
///
/// # Errors
/// If nobody listens there, the service has too many connections to accept, or a system call fails.
pub(super) fn connect(path: &Path) -> io::Result<OwnedFd> {
    let address = address(path)?;
    let kind = libc::SOCK_SEQPACKET | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
    // SAFETY: no precondition.
    let socket = checked(unsafe { libc::socket(libc::AF_UNIX, kind, 0) })?;
    // SAFETY: a new descriptor, which nobody else owns.
    let socket = unsafe { OwnedFd::from_raw_fd(socket) };
    let length = size_of::<libc::sockaddr_un>() as libc::socklen_t;
    // SAFETY: `address` has `length` bytes.
    checked(unsafe { libc::connect(socket.as_raw_fd(), (&raw const address).cast(), length) })?;
    // Packets are awaited without limit; sending never waits.
    // SAFETY: a system call on a descriptor of this function's own.
    checked(unsafe { libc::fcntl(socket.as_raw_fd(), libc::F_SETFL, 0) })?;
    Ok(socket)
}

/// Sends a packet. Never waits.
///
/// # Errors
/// If the other side does not read (`WouldBlock`), or is gone.
pub(super) fn send(socket: BorrowedFd<'_>, packet: &[u8]) -> io::Result<()> {
    let flags = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;
    let (start, bytes) = (packet.as_ptr().cast(), packet.len());
    // SAFETY: `packet` is readable.
    uninterrupted(|| unsafe { libc::send(socket.as_raw_fd(), start, bytes, flags) })?;
    Ok(())
}

/// Sends a packet, and with it a copy of a file descriptor. Never waits.
///
/// # Errors
/// As [`send`]; also if too many descriptors are on their way.
pub(super) fn send_with(
    socket: BorrowedFd<'_>,
    packet: &[u8],
    descriptor: BorrowedFd<'_>,
) -> io::Result<()> {
    const BYTES: libc::c_uint = size_of::<libc::c_int>() as libc::c_uint;
    /// A control message with one descriptor, aligned.
    #[repr(C)]
    union Control {
        header: libc::cmsghdr,
        // SAFETY: computes a length only.
        bytes: [u8; unsafe { libc::CMSG_SPACE(BYTES) } as usize],
    }
    // SAFETY: zeros are a valid value of both.
    let (mut control, mut message): (Control, libc::msghdr) = unsafe { std::mem::zeroed() };
    let mut part = libc::iovec {
        iov_base: packet.as_ptr().cast_mut().cast(),
        iov_len: packet.len(),
    };
    message.msg_iov = &raw mut part;
    message.msg_iovlen = 1;
    message.msg_control = (&raw mut control).cast();
    message.msg_controllen = size_of::<Control>() as _;
    // SAFETY: `message` has room for one control message with one descriptor, so there is a first header, and its data has
    // room for the descriptor.
    unsafe {
        let header = libc::CMSG_FIRSTHDR(&raw const message);
        (*header).cmsg_level = libc::SOL_SOCKET;
        (*header).cmsg_type = libc::SCM_RIGHTS;
        (*header).cmsg_len = libc::CMSG_LEN(BYTES) as _;
        let data = libc::CMSG_DATA(header).cast::<libc::c_int>();
        data.write_unaligned(descriptor.as_raw_fd());
    }
    let flags = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;
    // SAFETY: `message` points to the packet and the control message, which are alive.
    uninterrupted(|| unsafe { libc::sendmsg(socket.as_raw_fd(), &raw const message, flags) })?;
    Ok(())
}

/// Waits for a packet, and returns its length: more than `into` has bytes if its end is cut off; 0 at the connection's end. File
/// descriptors that come with it are closed by the kernel, as there is no room for them.
///
/// # Errors
/// If the connection is broken.
pub(super) fn receive(socket: BorrowedFd<'_>, into: &mut [u8]) -> io::Result<usize> {
    let (start, bytes) = (into.as_mut_ptr().cast(), into.len());
    // SAFETY: `into` can be written.
    uninterrupted(|| unsafe { libc::recv(socket.as_raw_fd(), start, bytes, libc::MSG_TRUNC) })
}

/// Ends the connection: whoever waits for a packet gets none. The descriptor stays open.
pub(super) fn shut_down(socket: BorrowedFd<'_>) {
    // SAFETY: a system call on the caller's descriptor. It fails if the connection is broken already.
    unsafe { libc::shutdown(socket.as_raw_fd(), libc::SHUT_RDWR) };
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsFd;

    fn pair() -> (OwnedFd, OwnedFd) {
        let mut ends = [0; 2];
        let kind = libc::SOCK_SEQPACKET | libc::SOCK_CLOEXEC;
        // SAFETY: there is room for two descriptors, which are new.
        unsafe {
            let done = libc::socketpair(libc::AF_UNIX, kind, 0, ends.as_mut_ptr());
            assert_eq!(done, 0);
            (OwnedFd::from_raw_fd(ends[0]), OwnedFd::from_raw_fd(ends[1]))
        }
    }

    #[test]
    fn packets_keep_their_borders_and_long_ones_say_how_long_they_are() {
        let (a, b) = pair();
        send(a.as_fd(), b"one").unwrap();
        send(a.as_fd(), &[7; 100]).unwrap();
        send(a.as_fd(), b"three").unwrap();
        let mut buffer = [0; 10];
        let mut next = || receive(b.as_fd(), &mut buffer).unwrap();
        assert_eq!([next(), next(), next()], [3, 100, 5]);
        drop(a);
        assert_eq!(receive(b.as_fd(), &mut buffer).unwrap(), 0);
    }

    #[test]
    fn nobody_waits_for_a_side_that_does_not_read() {
        let (a, _b) = pair();
        let error = std::iter::from_fn(|| Some(send(a.as_fd(), &[0; 4000]))).find_map(Result::err);
        assert_eq!(error.unwrap().kind(), io::ErrorKind::WouldBlock);
    }

    #[test]
    fn a_path_that_is_too_long_is_an_error() {
        let path = format!("/{}", "a".repeat(107));
        assert!(address(Path::new(&path)).is_err());
        assert!(address(Path::new(&path[..107])).is_ok());
    }
}
