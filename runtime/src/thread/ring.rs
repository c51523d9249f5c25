// SPDX-License-Identifier: Apache-2.0
//! A ring's memory.

use std::io;
use std::ptr::NonNull;
use std::sync::Mutex;

use hindsight_trace_format::container::RingMode;
use hindsight_trace_format::ring::Geometry;
use hindsight_trace_format::slot::SLOT_BYTES;

/// `2^k` bytes of slots, followed by an inaccessible guard page: the fault of a store there makes the cursor wrap.
///
/// Before the first slot there is a page that can be read and is always zero: an exit looks at the slot before the
/// cursor, and the first one of a lap finds there a slot that is no method's entry. It costs only address space.
///
/// The system provides memory when a page is first written, so an unused ring costs only address space.
#[derive(Debug)]
pub struct Ring {
    /// The first slot, one page after the start of the mapping.
    memory: NonNull<libc::c_void>,
    geometry: Geometry,
    mode: RingMode,
}

// SAFETY: a Ring owns its mapping, which is not tied to a thread. ThreadTrace decides which thread writes to it.
unsafe impl Send for Ring {}
// SAFETY: a shared reference only gives read access, by `bytes`, whose caller rules out writers.
unsafe impl Sync for Ring {}

/// Bytes of a page on this system (4, 16 or 64 KiB); 4096 if it cannot be determined.
fn page_bytes() -> usize {
    if cfg!(miri) {
        return 4096;
    }
    // SAFETY: no precondition.
    usize::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }).unwrap_or(4096)
}

/// Makes the memory all zeros in a forked child.
///
/// Without this the kernel would share a ring's pages with the child and copy each at its next store: the parent would
/// pay for thousands of page faults, and the ring would take twice its memory while the child lives. `MADV_DONTFORK`
/// would avoid that, too, but then there is nothing at the ring's address in the child: if a signal handler forks
/// within a trace point that has already tested its cursor, the store that follows would end the child. Into a wiped
/// ring it stores without effect.
///
/// Kernels before 4.14 do not have it; the child then has a copy of the ring.
#[cfg(not(miri))]
fn wipe_in_child(memory: *mut libc::c_void, bytes: usize) {
    const MADV_WIPEONFORK: libc::c_int = 18;
    // SAFETY: advice on whole pages of a private mapping of the caller's; it changes nothing in this process.
    unsafe { libc::madvise(memory, bytes, MADV_WIPEONFORK) };
}

impl Ring {
    /// Maps a ring.
    ///
    /// # Errors
    /// If `mmap` or `mprotect` fails, usually because no address space is left.
    pub fn new(geometry: Geometry) -> io::Result<Self> {
        #[cfg(miri)]
        // SAFETY: the layout is not of size 0.
        let start = unsafe { std::alloc::alloc_zeroed(Self::layout(geometry)) }.cast();
        #[cfg(not(miri))]
        let start = Self::map(geometry)?;
        let start = NonNull::new(start).ok_or(io::ErrorKind::OutOfMemory)?;
        // The ring owns the memory from here on and gives it back if a step fails.
        let ring = Ring {
            // SAFETY: the mapping is longer than its first page.
            memory: unsafe { start.byte_add(page_bytes()) },
            geometry,
            mode: RingMode::Calls,
        };
        #[cfg(not(miri))]
        ring.protect()?;
        Ok(ring)
    }

    /// Miri has no guard pages; a ring is plain memory there.
    #[cfg(miri)]
    fn layout(geometry: Geometry) -> std::alloc::Layout {
        std::alloc::Layout::from_size_align(page_bytes() + geometry.bytes(), 4096)
            .expect("a valid layout")
    }

    /// Address space for the slots, and for a page before and after them.
    #[cfg(not(miri))]
    fn map(geometry: Geometry) -> io::Result<*mut libc::c_void> {
        // SAFETY: a new anonymous mapping at an address that the kernel chooses replaces no other mapping.
        let memory = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                geometry.bytes() + 2 * page_bytes(),
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE,
                -1,
                0,
            )
        };
        if memory == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        wipe_in_child(memory, geometry.bytes() + 2 * page_bytes());
        Ok(memory)
    }

    /// Makes the page before the slots read-only, and the one after them inaccessible.
    #[cfg(not(miri))]
    fn protect(&self) -> io::Result<()> {
        let pages = [
            (self.mapping(), libc::PROT_READ),
            (self.end() as *mut libc::c_void, libc::PROT_NONE),
        ];
        for (page, protection) in pages {
            // SAFETY: the first and the last page of this ring's own mapping, which hold no slots.
            if unsafe { libc::mprotect(page, page_bytes(), protection) } != 0 {
                return Err(io::Error::last_os_error());
            }
        }
        Ok(())
    }

    /// Start of the memory that the ring owns: the page before its first slot.
    fn mapping(&self) -> *mut libc::c_void {
        // SAFETY: `memory` is one page into the mapping, since `new`.
        unsafe { self.memory.byte_sub(page_bytes()) }.as_ptr()
    }

    /// Address of the first slot.
    pub fn base(&self) -> usize {
        self.memory.as_ptr() as usize
    }

    /// Address after the last slot: the start of the guard page.
    pub fn end(&self) -> usize {
        self.base() + self.geometry.bytes()
    }

    /// The ring, for a thread that records this.
    pub(crate) fn with_mode(mut self, mode: RingMode) -> Self {
        self.mode = mode;
        self
    }

    /// What a thread records into the ring: calls, unless it was made by a pool of another mode.
    pub fn mode(&self) -> RingMode {
        self.mode
    }

    /// The ring's size.
    pub fn geometry(&self) -> Geometry {
        self.geometry
    }

    /// The ring's bytes.
    ///
    /// # Safety
    /// No thread may record into the ring while the slice is in use.
    pub unsafe fn bytes(&self) -> &[u8] {
        // SAFETY: the mapping is readable over its whole length, and the caller rules out writers.
        unsafe { std::slice::from_raw_parts(self.memory.as_ptr().cast(), self.geometry.bytes()) }
    }

    /// Returns the memory to the system and keeps the address space. All slots become zero.
    fn release_memory(&mut self) {
        #[cfg(miri)]
        // SAFETY: this is the only reference to the ring's memory.
        unsafe {
            self.memory
                .as_ptr()
                .cast::<u8>()
                .write_bytes(0, self.geometry.bytes());
        }
        #[cfg(not(miri))]
        // SAFETY: the ring owns the mapping, and `&mut self` rules out readers.
        unsafe {
            libc::madvise(
                self.memory.as_ptr(),
                self.geometry.bytes(),
                libc::MADV_DONTNEED,
            );
        }
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        #[cfg(miri)]
        // SAFETY: allocated with this layout.
        unsafe {
            std::alloc::dealloc(self.mapping().cast(), Self::layout(self.geometry));
        }
        #[cfg(not(miri))]
        // SAFETY: the ring owns the whole mapping, and is being dropped.
        unsafe {
            libc::munmap(self.mapping(), self.geometry.bytes() + 2 * page_bytes());
        }
    }
}

/// Writes a slot.
///
/// # Safety
/// `at` is the address of a slot of a ring that the calling thread records into.
#[inline]
pub(crate) unsafe fn write_slot(at: usize, word: u64) {
    // SAFETY: the caller passes a slot of its own ring. It is aligned: a ring starts at a page and has 8-byte slots.
    unsafe { (at as *mut u64).write(word.to_le()) }
}

/// Reads a slot.
///
/// # Safety
/// `at` is the address of a slot of a ring that the calling thread records into, or of the 8 bytes before the first.
#[inline]
pub(crate) unsafe fn read_slot(at: usize) -> u64 {
    // SAFETY: the caller passes a slot of its own ring, or the end of the readable page before it. It is aligned: a ring
    // starts at a page and has 8-byte slots.
    u64::from_le(unsafe { (at as *const u64).read() })
}

/// Distance between the addresses of two neighbouring slots, bytes.
pub(crate) const SLOT_STRIDE: usize = SLOT_BYTES;

/// Spare rings, so that swapping a ring does not wait for `mmap`.
#[derive(Debug)]
pub struct RingPool {
    geometry: Geometry,
    mode: RingMode,
    spare: Mutex<Vec<Ring>>,
}

impl RingPool {
    /// Maximum number of spare rings that stay mapped. Address space is scarce in a 32-bit process.
    const MAX_SPARE: usize = if usize::BITS < 64 { 1 } else { 2 };

    /// An empty pool of rings of this size, for calls.
    pub fn new(geometry: Geometry) -> Self {
        Self::with_mode(geometry, RingMode::Calls)
    }

    /// An empty pool of rings of this size and mode.
    pub(crate) fn with_mode(geometry: Geometry, mode: RingMode) -> Self {
        RingPool {
            geometry,
            mode,
            spare: Mutex::new(Vec::new()),
        }
    }

    /// A spare ring, or a new one.
    ///
    /// # Errors
    /// As [`Ring::new`].
    pub fn take(&self) -> io::Result<Ring> {
        let spare = self.spare.lock().unwrap_or_else(|e| e.into_inner()).pop();
        match spare {
            Some(spare) => Ok(spare),
            None => Ok(Ring::new(self.geometry)?.with_mode(self.mode)),
        }
    }

    /// Takes a ring back that is not in use, and returns its memory to the system.
    pub fn put(&self, mut ring: Ring) {
        ring.release_memory();
        let mut spare = self.spare.lock().unwrap_or_else(|e| e.into_inner());
        if spare.len() < Self::MAX_SPARE && ring.geometry() == self.geometry {
            spare.push(ring);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hindsight_trace_format::ring::MIN_LOG2_BYTES;

    fn small() -> Geometry {
        Geometry::new(MIN_LOG2_BYTES).unwrap()
    }

    #[test]
    fn all_of_a_ring_can_be_written_and_a_recycled_one_is_empty() {
        let pool = RingPool::new(small());
        let ring = pool.take().unwrap();
        // SAFETY: only this test uses the ring.
        unsafe { std::ptr::write_bytes(ring.base() as *mut u8, 0xab, ring.geometry().bytes()) };
        let base = ring.base();
        pool.put(ring);
        let ring = pool.take().unwrap();
        assert_eq!(ring.base(), base, "a spare ring is used again");
        // SAFETY: nobody records into the ring.
        assert!(unsafe { ring.bytes() }.iter().all(|b| *b == 0));
    }

    /// Whether the kernel can read 8 bytes there (`stored: false`), or store them (`stored: true`).
    ///
    /// When the kernel meets a bad address, it returns an error instead of raising a signal.
    #[cfg(not(miri))]
    fn is_accessible(at: usize, stored: bool) -> bool {
        let mut pipe = [0; 2];
        // SAFETY: system calls on this test's own descriptors. The address belongs to a ring that only this test uses.
        unsafe {
            assert_eq!(libc::pipe(pipe.as_mut_ptr()), 0);
            let done = match stored {
                false => libc::write(pipe[1], at as *const _, 8),
                true => {
                    assert_eq!(libc::write(pipe[1], [1_u8; 8].as_ptr().cast(), 8), 8);
                    libc::read(pipe[0], at as *mut _, 8)
                }
            };
            let error = io::Error::last_os_error().raw_os_error();
            libc::close(pipe[0]);
            libc::close(pipe[1]);
            assert!(done == 8 || (done == -1 && error == Some(libc::EFAULT)));
            done == 8
        }
    }

    #[cfg(not(miri))]
    #[test]
    fn the_page_after_a_ring_cannot_be_accessed() {
        let ring = Ring::new(small()).unwrap();
        assert!(is_accessible(ring.end() - 8, true));
        assert!(!is_accessible(ring.end(), true));
        assert!(!is_accessible(ring.end(), false));
    }

    #[cfg(not(miri))]
    #[test]
    fn the_page_before_a_ring_can_only_be_read() {
        let pool = RingPool::new(small());
        for _ in 0..2 {
            let ring = pool.take().unwrap();
            assert!(is_accessible(ring.base() - 8, false));
            assert!(!is_accessible(ring.base() - 8, true));
            pool.put(ring);
        }
    }

    #[test]
    fn the_slot_before_a_ring_is_zero() {
        let ring = Ring::new(small()).unwrap();
        // SAFETY: the page before the ring is readable, and nothing can write to it.
        assert_eq!(unsafe { ((ring.base() - 8) as *const u64).read() }, 0);
    }
}
