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
/// The system provides memory when a page is first written, so an unused ring costs only address space.
#[derive(Debug)]
pub struct Ring {
    memory: NonNull<libc::c_void>,
    geometry: Geometry,
    mode: RingMode,
}

// SAFETY: a Ring owns its mapping, which is not tied to a thread. ThreadTrace decides which thread writes to it.
unsafe impl Send for Ring {}
// SAFETY: a shared reference only gives read access, by `bytes`, whose caller rules out writers.
unsafe impl Sync for Ring {}

/// Bytes of a page on this system (4, 16 or 64 KiB); 4096 if it cannot be determined.
#[cfg_attr(miri, allow(dead_code, reason = "no guard page"))]
fn page_bytes() -> usize {
    // SAFETY: no precondition.
    usize::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }).unwrap_or(4096)
}

impl Ring {
    /// Maps a ring.
    ///
    /// # Errors
    /// If `mmap` or `mprotect` fails, usually because no address space is left.
    pub fn new(geometry: Geometry) -> io::Result<Self> {
        #[cfg(miri)]
        return Ok(Ring {
            // SAFETY: the layout is not of size 0.
            memory: NonNull::new(
                unsafe { std::alloc::alloc_zeroed(Self::layout(geometry)) }.cast(),
            )
            .ok_or(io::ErrorKind::OutOfMemory)?,
            geometry,
            mode: RingMode::Calls,
        });
        #[cfg(not(miri))]
        Self::map(geometry)
    }

    /// Miri has no guard pages; a ring is plain memory there.
    #[cfg(miri)]
    fn layout(geometry: Geometry) -> std::alloc::Layout {
        std::alloc::Layout::from_size_align(geometry.bytes(), 4096).expect("a valid layout")
    }

    #[cfg(not(miri))]
    fn map(geometry: Geometry) -> io::Result<Self> {
        let guard = page_bytes();
        // SAFETY: a new anonymous mapping at an address that the kernel chooses replaces no other mapping.
        let memory = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                geometry.bytes() + guard,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE,
                -1,
                0,
            )
        };
        if memory == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let memory = NonNull::new(memory).ok_or_else(|| io::Error::other("mmap returned null"))?;
        let ring = Ring {
            memory,
            geometry,
            mode: RingMode::Calls,
        };
        // SAFETY: the last page of the mapping made above.
        let guarded = unsafe {
            libc::mprotect(
                memory.byte_add(geometry.bytes()).as_ptr(),
                guard,
                libc::PROT_NONE,
            )
        };
        if guarded != 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(ring)
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

    /// The number of slots.
    pub(crate) fn slots(&self) -> u64 {
        self.geometry.slots() as u64
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
            std::alloc::dealloc(self.memory.as_ptr().cast(), Self::layout(self.geometry));
        }
        #[cfg(not(miri))]
        // SAFETY: the ring owns the whole mapping, and is being dropped.
        unsafe {
            libc::munmap(self.memory.as_ptr(), self.geometry.bytes() + page_bytes());
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
        if spare.len() < Self::MAX_SPARE {
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

    #[cfg(not(miri))]
    #[test]
    fn the_page_after_a_ring_cannot_be_written() {
        let ring = Ring::new(small()).unwrap();
        let mut pipe = [0; 2];
        // SAFETY: system calls on this test's own descriptors. When the kernel writes to a bad address, it returns
        // an error instead of raising a signal.
        unsafe {
            assert_eq!(libc::pipe(pipe.as_mut_ptr()), 0);
            assert_eq!(libc::write(pipe[1], [1u8; 16].as_ptr().cast(), 16), 16);
            assert_eq!(libc::read(pipe[0], (ring.end() - 8) as *mut _, 8), 8);
            assert_eq!(libc::read(pipe[0], ring.end() as *mut _, 8), -1);
            assert_eq!(
                io::Error::last_os_error().raw_os_error(),
                Some(libc::EFAULT)
            );
            libc::close(pipe[0]);
            libc::close(pipe[1]);
        }
    }
}
