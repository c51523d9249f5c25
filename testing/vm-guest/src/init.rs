// SPDX-License-Identifier: Apache-2.0
//! The part of Android's init: folders, the sockets of a service, and its start as another user in a domain of its own.

use crate::label;
use crate::rc::{self, Service, Socket};
use anyhow::{bail, ensure, Context as _, Result};
use std::fs;
use std::os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd};
use std::os::unix::fs::{DirBuilderExt as _, PermissionsExt as _};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::Command;

/// Init's domain; the guest's init stays in the kernel's.
const INIT: &str = "u:r:init:s0";
/// The folder of the sockets.
const SOCKETS: &str = "/dev/socket";

fn read(path: &Path) -> Result<String> {
    fs::read_to_string(path).with_context(|| format!("read {}", path.display()))
}

/// Makes the folders of `on post-fs-data`.
///
/// # Errors
/// If the script has a line that is not known, or the kernel refuses.
pub(crate) fn boot(script: &Path, contexts: &Path) -> Result<()> {
    let contexts = read(contexts)?;
    for folder in rc::folders(&read(script)?)? {
        let label = label::label_of(&contexts, &folder.path)?;
        label::next("fscreate", &label)?;
        let made = fs::DirBuilder::new().mode(folder.mode).create(&folder.path);
        label::next("fscreate", "")?;
        if let Err(error) = made {
            let exists = error.kind() == std::io::ErrorKind::AlreadyExists;
            ensure!(exists, "make {}: {error}", folder.path);
        }
        std::os::unix::fs::chown(&folder.path, Some(folder.user), Some(folder.group))
            .with_context(|| format!("give {} to {}", folder.path, folder.user))?;
        fs::set_permissions(&folder.path, fs::Permissions::from_mode(folder.mode))?;
    }
    Ok(())
}

/// Becomes the service: with its sockets, limits, user and groups, in the domain that the policy has for its program.
/// Returns only if that fails.
///
/// # Errors
/// If the script has a line that is not known, or the kernel refuses.
pub(crate) fn start(script: &Path, contexts: &Path, name: &str, more: &[&str]) -> Result<()> {
    let contexts = read(contexts)?;
    let service = rc::service(&read(script)?, name)?;
    let program = &service.words[0];
    let domain = label::after_exec(INIT, &label::label_of(&contexts, program)?)?;
    ensure!(
        domain != INIT,
        "the policy has no domain for {program}: it would run as init"
    );
    let mut command = Command::new(program);
    command.args(&service.words[1..]).args(more).env_clear();
    for socket in &service.sockets {
        let made = make(socket, &domain, &contexts)?;
        command.env(
            format!("ANDROID_SOCKET_{}", socket.name),
            made.as_raw_fd().to_string(),
        );
        // The service has it.
        std::mem::forget(made);
    }
    become_user(&service)?;
    label::next("exec", &domain)?;
    let error = command.exec();
    bail!("start {program} in {domain}: {error}")
}

/// A socket with its file, as init makes it: bound, but nobody listens yet. It stays open when a program is started.
fn make(socket: &Socket, domain: &str, contexts: &str) -> Result<OwnedFd> {
    let path = format!("{SOCKETS}/{}", socket.name);
    let _ = fs::remove_file(&path);
    label::next("sockcreate", domain)?;
    // SAFETY: takes numbers; the result is a new descriptor, or -1.
    let made = unsafe { libc::socket(libc::AF_UNIX, socket.kind, 0) };
    label::next("sockcreate", "")?;
    ensure!(
        made >= 0,
        "make a socket: {}",
        std::io::Error::last_os_error()
    );
    // SAFETY: nobody else has this descriptor.
    let made = unsafe { OwnedFd::from_raw_fd(made) };
    // SAFETY: all zeros is a valid address.
    let mut address: libc::sockaddr_un = unsafe { std::mem::zeroed() };
    address.sun_family = libc::AF_UNIX as libc::sa_family_t;
    ensure!(path.len() < address.sun_path.len(), "{path} is too long");
    for (to, byte) in address.sun_path.iter_mut().zip(path.bytes()) {
        *to = byte as libc::c_char;
    }
    label::next("fscreate", &label::label_of(contexts, &path)?)?;
    let size = size_of::<libc::sockaddr_un>() as libc::socklen_t;
    // SAFETY: the address is valid for its size.
    let bound = unsafe { libc::bind(made.as_raw_fd(), (&raw const address).cast(), size) };
    let error = std::io::Error::last_os_error();
    label::next("fscreate", "")?;
    ensure!(bound == 0, "bind {path}: {error}");
    std::os::unix::fs::chown(&path, Some(socket.user), Some(socket.group))?;
    fs::set_permissions(&path, fs::Permissions::from_mode(socket.mode))?;
    Ok(made)
}

fn become_user(service: &Service) -> Result<()> {
    for (resource, soft, hard) in &service.limits {
        let limit = libc::rlimit {
            rlim_cur: *soft,
            rlim_max: *hard,
        };
        // SAFETY: the limit is read only.
        let set = unsafe { libc::setrlimit(*resource, &limit) };
        ensure!(set == 0, "limit: {}", std::io::Error::last_os_error());
    }
    let [group, others @ ..] = service.groups.as_slice() else {
        bail!("the service has no group");
    };
    // SAFETY: the list is valid for its length; the others take numbers.
    let is_done = unsafe {
        libc::setgroups(others.len(), others.as_ptr()) == 0
            && libc::setresgid(*group, *group, *group) == 0
            && libc::setresuid(service.user, service.user, service.user) == 0
    };
    ensure!(
        is_done,
        "become user {}: {}",
        service.user,
        std::io::Error::last_os_error()
    );
    Ok(())
}
