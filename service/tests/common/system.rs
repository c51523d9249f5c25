// SPDX-License-Identifier: Apache-2.0
//! What tests need of the system, and may not have.

use std::path::Path;

/// Says that something is not tested; where all tools are required, that is a failure.
pub(crate) fn skip(what: &str) {
    let is_required = std::env::var_os("HINDSIGHT_REQUIRE_TOOLS").is_some_and(|value| value == "1");
    assert!(
        !is_required,
        "{what}; run as root, or without HINDSIGHT_REQUIRE_TOOLS=1"
    );
    println!("skipped: {what}");
}

/// Whether this process may become another user; if not, says that something is not tested.
pub(crate) fn as_root() -> bool {
    // SAFETY: no precondition.
    let is_root = unsafe { libc::geteuid() } == 0;
    if !is_root {
        skip("processes of other users: only root can make them");
    }
    is_root
}

/// A file system of its own in memory, with little room.
pub(crate) struct SmallDisk(tempfile::TempDir);

impl SmallDisk {
    /// `None`: this process may not mount.
    pub(crate) fn new(bytes: u64) -> Option<Self> {
        let folder = tempfile::tempdir().unwrap();
        let path = std::ffi::CString::new(folder.path().to_str().unwrap()).unwrap();
        let options = std::ffi::CString::new(format!("size={bytes},mode=0700")).unwrap();
        // SAFETY: all texts end with 0.
        let mounted = unsafe {
            let tmpfs = c"tmpfs".as_ptr();
            libc::mount(tmpfs, path.as_ptr(), tmpfs, 0, options.as_ptr().cast())
        };
        if mounted != 0 {
            skip("a full disk: this process may not mount one");
            return None;
        }
        Some(SmallDisk(folder))
    }

    /// From now on nothing can be written.
    pub(crate) fn make_read_only(&self) {
        let path = std::ffi::CString::new(self.0.path().to_str().unwrap()).unwrap();
        let flags = libc::MS_REMOUNT | libc::MS_RDONLY;
        let none = std::ptr::null();
        // SAFETY: the path ends with 0; nothing else is needed to mount it again.
        let mounted = unsafe { libc::mount(none, path.as_ptr(), none, flags, none.cast()) };
        assert_eq!(mounted, 0, "{}", std::io::Error::last_os_error());
    }

    pub(crate) fn path(&self) -> &Path {
        self.0.path()
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let path = std::ffi::CString::new(self.0.path().to_str().unwrap()).unwrap();
        // SAFETY: the text ends with 0.
        unsafe { libc::umount2(path.as_ptr(), libc::MNT_DETACH) };
    }
}
