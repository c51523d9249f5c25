// SPDX-License-Identifier: Apache-2.0
//! Huge pages for large vectors, which saves about 20 % of the decode time, and prefetching of ring blocks.

/// Smaller vectors are not worth a system call.
#[cfg(target_os = "linux")]
const MIN_BYTES: usize = 4 << 20;

/// Asks for huge pages for the memory of `vector`. Useful before its first write only.
#[cfg(target_os = "linux")]
pub(crate) fn prefer_large<T>(vector: &Vec<T>) {
    let bytes = vector.capacity() * size_of::<T>();
    if bytes < MIN_BYTES {
        return;
    }
    // SAFETY: sysconf has no precondition.
    let page = usize::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }).unwrap_or(4096);
    let start = vector.as_ptr() as usize;
    let from = start.next_multiple_of(page);
    let length = (start + bytes - from) / page * page;
    // SAFETY: the range lies inside of the vector's allocation, by the computation above. MADV_HUGEPAGE changes neither the
    // contents nor the protection of its pages. A failure is harmless.
    unsafe { libc::madvise(from as *mut libc::c_void, length, libc::MADV_HUGEPAGE) };
}

/// Does nothing outside of Linux.
#[cfg(not(target_os = "linux"))]
pub(crate) fn prefer_large<T>(_: &Vec<T>) {}

/// Prefetches these bytes. The processor's own prefetcher works within a page and for ascending addresses only.
#[cfg(target_arch = "x86_64")]
#[inline]
pub(crate) fn prefetch(bytes: &[u8]) {
    use std::arch::x86_64::{_mm_prefetch, _MM_HINT_T0};
    const LINE_BYTES: usize = 64;
    for line in bytes.chunks(LINE_BYTES) {
        // SAFETY: SSE, which has the instruction, is part of x86-64. A prefetch changes no state and never faults.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(line.as_ptr().cast()) };
    }
}

/// Does nothing: left to the processor's prefetcher.
#[cfg(not(target_arch = "x86_64"))]
pub(crate) fn prefetch(_: &[u8]) {}
