// SPDX-License-Identifier: Apache-2.0
//! Memory that is there when it is wanted: large vectors on large pages, else a fifth of the time goes into page
//! faults, and parts of a ring in the cache.

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

/// Asks for these bytes to be in the cache soon. The processor does that by itself within a page, and upwards.
#[cfg(target_arch = "x86_64")]
#[inline]
pub(crate) fn prefetch(bytes: &[u8]) {
    use std::arch::x86_64::{_mm_prefetch, _MM_HINT_T0};
    const LINE_BYTES: usize = 64;
    for line in bytes.chunks(LINE_BYTES) {
        // SAFETY: each processor of this kind has the instruction; it changes nothing, and never faults.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(line.as_ptr().cast()) };
    }
}

/// Left to the processor.
#[cfg(not(target_arch = "x86_64"))]
pub(crate) fn prefetch(_: &[u8]) {}
