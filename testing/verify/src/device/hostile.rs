// SPDX-License-Identifier: Apache-2.0
//! Clients that break the rules of the protocol.

use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::path::Path;

use anyhow::{Context as _, Result};
use hindsight_trace_format::protocol::{
    FromProcess, Hello, TakeOutcome, MAX_MESSAGE_BYTES, VERSIONS,
};
use hindsight_trace_format::shared::SHARED_VERSION;

use crate::stress::dice::Dice;

/// A connection to the service, as an app makes it.
struct Client(OwnedFd);

impl Client {
    fn connect(path: &Path) -> Result<Client> {
        // SAFETY: a system call that makes a descriptor.
        let fd =
            unsafe { libc::socket(libc::AF_UNIX, libc::SOCK_SEQPACKET | libc::SOCK_CLOEXEC, 0) };
        anyhow::ensure!(fd >= 0, "no socket: {}", io::Error::last_os_error());
        // SAFETY: a new descriptor, which nobody else has.
        let socket = unsafe { OwnedFd::from_raw_fd(fd) };
        // SAFETY: all zeros is a valid address.
        let mut address: libc::sockaddr_un = unsafe { std::mem::zeroed() };
        address.sun_family = libc::AF_UNIX as libc::sa_family_t;
        let text = path.as_os_str().as_encoded_bytes();
        anyhow::ensure!(
            text.len() < address.sun_path.len(),
            "the path of the socket is too long"
        );
        for (to, from) in address.sun_path.iter_mut().zip(text) {
            *to = *from as libc::c_char;
        }
        // SAFETY: the address is initialized, and so long.
        let done = unsafe {
            libc::connect(
                socket.as_raw_fd(),
                (&raw const address).cast(),
                size_of::<libc::sockaddr_un>() as libc::socklen_t,
            )
        };
        match done {
            0 => Ok(Client(socket)),
            _ => Err(io::Error::last_os_error()).context("cannot connect to hindsightd"),
        }
    }

    /// Sends a packet with these descriptors, if the service takes it.
    fn send(&self, packet: &[u8], descriptors: &[i32]) {
        let mut part = libc::iovec {
            iov_base: packet.as_ptr().cast_mut().cast(),
            iov_len: packet.len(),
        };
        let mut control = [0_u64; 64];
        // SAFETY: all zeros is a valid message.
        let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
        message.msg_iov = &mut part;
        message.msg_iovlen = 1;
        if !descriptors.is_empty() {
            let bytes = size_of_val(descriptors) as u32;
            message.msg_control = control.as_mut_ptr().cast();
            // SAFETY: arithmetic.
            message.msg_controllen = unsafe { libc::CMSG_SPACE(bytes) } as _;
            // SAFETY: there is room for one header and its data, up to 100 descriptors.
            unsafe {
                let header = libc::CMSG_FIRSTHDR(&message);
                (*header).cmsg_level = libc::SOL_SOCKET;
                (*header).cmsg_type = libc::SCM_RIGHTS;
                (*header).cmsg_len = libc::CMSG_LEN(bytes) as _;
                let data = libc::CMSG_DATA(header);
                std::ptr::copy_nonoverlapping(descriptors.as_ptr().cast(), data, bytes as usize);
            }
        }
        let flags = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;
        // SAFETY: all parts of the message live until the call has returned. A refusal is what a hostile client may get.
        unsafe { libc::sendmsg(self.0.as_raw_fd(), &message, flags) };
    }
}

fn hello(dice: &mut Dice) -> Vec<u8> {
    let mut any = |values: &[u64]| dice.pick(values);
    FromProcess::Hello(Hello {
        versions: (VERSIONS.0, any(&[1, 1, 0, u64::from(u32::MAX)]) as u32),
        memory_version: SHARED_VERSION,
        name: "com.example.device".into(),
        ring_bytes: any(&[0, 1, 1 << 23, u64::MAX]),
        other_bytes: any(&[0, 1 << 20, u64::MAX]),
        held: any(&[0, 1, u64::from(u32::MAX)]) as u32,
        is_foreground: any(&[0, 1]) == 1,
        taken: any(&[0, 1, u64::MAX]),
    })
    .encode()
}

/// A file in memory with this content; `None` where the kernel has none.
fn memory(content: &[u8]) -> Option<File> {
    use std::os::unix::fs::FileExt as _;
    // SAFETY: a system call with a string that ends with 0.
    let fd = unsafe {
        libc::syscall(
            libc::SYS_memfd_create,
            c"hostile".as_ptr(),
            libc::MFD_CLOEXEC,
        )
    };
    let fd = i32::try_from(fd).ok().filter(|fd| *fd >= 0)?;
    // SAFETY: a new descriptor, which nobody else has.
    let file = File::from(unsafe { OwnedFd::from_raw_fd(fd) });
    file.write_all_at(content, 0).ok()?;
    Some(file)
}

/// Behaves badly in one way, chosen at random, as another user than the apps.
pub(super) fn attack(socket: &Path, dice: &mut Dice) -> Result<()> {
    super::stranger::as_nobody(|| attack_as_we_are(socket, dice))
}

fn attack_as_we_are(socket: &Path, dice: &mut Dice) -> Result<()> {
    let client = Client::connect(socket)?;
    let zero = File::open("/dev/zero").context("cannot open /dev/zero")?;
    match dice.below(12) {
        0 => client.send(&[0xff; MAX_MESSAGE_BYTES + 1], &[]),
        1 => client.send(&hello(dice), &[]),
        2 => client.send(&hello(dice), &[zero.as_raw_fd()]),
        3 => client.send(&hello(dice), &[zero.as_raw_fd(); 100]),
        4 => {
            let mut content = vec![0; 1 << 16];
            content[..8].copy_from_slice(&hindsight_trace_format::shared::SHARED_MAGIC);
            content[8..4096].fill(dice.below(256) as u8);
            if let Some(memory) = memory(&content) {
                client.send(&hello(dice), &[memory.as_raw_fd()]);
                let trigger = FromProcess::Trigger(Default::default()).encode();
                client.send(&trigger, &[]);
                // It grows and shrinks while the service reads it.
                for _ in 0..200 {
                    let _ = memory.set_len(1 << 30);
                    let _ = memory.set_len(1);
                }
            }
        }
        5 => {
            let others: Vec<Client> = (0..50)
                .map_while(|_| Client::connect(socket).ok())
                .collect();
            others.iter().for_each(|other| other.send(&[1], &[]));
        }
        6 => {
            let mut packet = hello(dice);
            let at = dice.below(packet.len() as u64) as usize;
            packet[at] ^= 1 << dice.below(8);
            client.send(&packet, &[zero.as_raw_fd()]);
        }
        7 => {
            // Half-closed: it says hello, and will not say more.
            let memory = memory(&[0; 1 << 16]);
            let fd = memory.as_ref().map_or(-1, AsRawFd::as_raw_fd);
            client.send(&hello(dice), &[fd]);
            // SAFETY: takes numbers.
            unsafe { libc::shutdown(client.0.as_raw_fd(), libc::SHUT_WR) };
        }
        8 => {
            // A flood of descriptors, which nobody asked for.
            for _ in 0..100 {
                client.send(&[2, 0, 0, 0], &[zero.as_raw_fd(); 100]);
            }
        }
        9 => {
            // Replays: the same hello again, in this and in other connections, and answers to what others were asked.
            let memory = memory(&[0; 1 << 16]);
            let fd = memory.as_ref().map_or(-1, AsRawFd::as_raw_fd);
            let packet = hello(dice);
            let others: Vec<Client> = (0..5).map_while(|_| Client::connect(socket).ok()).collect();
            for other in others.iter().chain([&client, &client]) {
                other.send(&packet, &[fd]);
                for report in 0..20 {
                    let outcome = TakeOutcome::Taken;
                    other.send(&FromProcess::Taken { report, outcome }.encode(), &[]);
                }
                other.send(&FromProcess::Held { rings: u32::MAX }.encode(), &[]);
            }
        }
        10 => {
            // Nothing at all, for as long as the others take.
            std::mem::forget(client);
        }
        _ => {
            let farewell = FromProcess::Farewell.encode();
            (0..1000).for_each(|_| client.send(&farewell, &[]));
        }
    }
    Ok(())
}
