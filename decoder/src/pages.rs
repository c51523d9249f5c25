// SPDX-License-Identifier: Apache-2.0
//! Large vectors on large pages: else a fifth of the time goes into page faults.

/// Smaller vectors are not worth a system call.
#[cfg(target_os = "linux")]
const MIN_BYTES: usize = 4 << 20;

/// Asks for large pages for the memory of `vector`, which should not have been written to.
#[cfg(target_os = "linux")]
pub(crate) fn prefer_large<T>(vector: &Vec<T>) {
    let bytes = vector.capacity() * size_of::<T>();
    if bytes < MIN_BYTES {
        return;
    }
    // SAFETY: asks for a number.
    let page = usize::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }).unwrap_or(4096);
    let start = vector.as_ptr() as usize;
    let from = start.next_multiple_of(page);
    let length = (start + bytes - from) / page * page;
    // SAFETY: these whole pages belong to the vector. The advice changes no contents, and no access that is allowed. That it
    // may not be taken is no error.
    unsafe { libc::madvise(from as *mut libc::c_void, length, libc::MADV_HUGEPAGE) };
}

/// Only Linux is asked.
#[cfg(not(target_os = "linux"))]
pub(crate) fn prefer_large<T>(_: &Vec<T>) {}
