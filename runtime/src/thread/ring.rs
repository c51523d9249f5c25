// SPDX-License-Identifier: Apache-2.0
//! A ring's memory.

use std::io;
use std::ptr::NonNull;
use std::sync::{Arc, Mutex, OnceLock};

use hindsight_trace_format::container::RingMode;
use hindsight_trace_format::ring::Geometry;
use hindsight_trace_format::shared::{RingControl, UnderWay, UnderWayPage};
use hindsight_trace_format::slot::SLOT_BYTES;

use crate::shared::{SharedMemory, SharedRing, View};
use crate::thread::open_calls::{ends_in_wide_entry, OpenCalls};

/// `2^k` bytes of slots, followed by an inaccessible guard page: the fault of a store there makes the cursor wrap.
///
/// Before the first slot there is a page that can be read and is always zero: an exit looks at the slot before the
/// cursor, and the first one of a lap finds there a slot that is no method's entry. It costs only address space. The page
/// before that one has the [`OpenCalls`]; it takes memory from the ring's second lap on. The page before that has an
/// [`UnderWayPage`]; it takes memory if the thread had another ring before.
///
/// The system provides memory when a page is first written, so an unused ring costs only address space.
///
/// A ring in the memory that the process shares has several segments, each with pages like those around it.
#[derive(Debug)]
pub struct Ring {
    /// The first slot; of a ring that is not shared, [`PAGES_BEFORE`] pages after the start of the mapping.
    memory: NonNull<libc::c_void>,
    geometry: Geometry,
    mode: RingMode,
    shared: Option<Shared>,
}

/// Of a ring in the memory that the process shares.
#[derive(Debug)]
struct Shared {
    ring: SharedRing,
    /// The slots without the pages between segments, once somebody has read them.
    view: OnceLock<View>,
}

// SAFETY: a Ring owns its mapping, which is not tied to a thread. ThreadTrace decides which thread writes to it.
unsafe impl Send for Ring {}
// SAFETY: a shared reference only gives read access, by `bytes`, whose caller rules out writers.
unsafe impl Sync for Ring {}

/// `prctl`: sets attributes of a mapping (Linux 5.17, and Android's kernels before).
#[cfg(not(miri))]
const PR_SET_VMA: libc::c_int = 0x5356_4d41;
/// The attribute: a name that `/proc/self/maps` shows, and `dumpsys meminfo` counts by.
#[cfg(not(miri))]
const PR_SET_VMA_ANON_NAME: libc::c_ulong = 0;
/// The name of rings' mappings.
#[cfg(not(miri))]
const NAME: &std::ffi::CStr = c"hindsight ring";

/// Bytes of a page on this system (4, 16 or 64 KiB); 4096 if it cannot be determined.
///
/// Async-signal-safe: POSIX says so of `sysconf`.
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

/// Pages before the first slot: one for what was under way, one for the open calls, one of zeros.
const PAGES_BEFORE: usize = 3;
// A page has at least this size.
const _: () = assert!(std::mem::size_of::<OpenCalls>() <= 4096);
const _: () = assert!(std::mem::size_of::<UnderWayPage>() <= 4096);

/// Bytes of a ring's mapping before its first slot.
fn bytes_before() -> usize {
    PAGES_BEFORE * page_bytes()
}

/// Bytes of a ring's mapping: the pages before the slots, the slots, the guard page.
#[cfg(not(miri))]
fn mapped_bytes(geometry: Geometry) -> usize {
    bytes_before() + geometry.bytes() + page_bytes()
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
            // SAFETY: the mapping is longer than the pages before the slots.
            memory: unsafe { start.byte_add(bytes_before()) },
            geometry,
            mode: RingMode::Calls,
            shared: None,
        };
        #[cfg(not(miri))]
        ring.protect()?;
        Ok(ring)
    }

    /// A ring in the memory that the process shares.
    ///
    /// # Errors
    /// If that has no room for it.
    fn in_memory(
        memory: &Arc<SharedMemory>,
        geometry: Geometry,
        mode: RingMode,
    ) -> io::Result<Self> {
        let ring = memory.ring(mode)?;
        let first = std::ptr::with_exposed_provenance_mut(ring.first_slot());
        Ok(Ring {
            memory: NonNull::new(first).ok_or(io::ErrorKind::OutOfMemory)?,
            geometry,
            mode,
            shared: Some(Shared {
                ring,
                view: OnceLock::new(),
            }),
        })
    }

    /// The description of a ring in the memory that the process shares.
    pub(crate) fn control(&self) -> Option<&RingControl> {
        self.shared.as_ref().map(|shared| shared.ring.control())
    }

    /// Whether the ring is in the memory that the process shares.
    pub(crate) fn is_shared(&self) -> bool {
        self.shared.is_some()
    }

    /// Bytes from the start of the memory that the process shares to the first slot; 0 of another ring.
    pub(crate) fn offset(&self) -> u64 {
        if let Some(shared) = &self.shared {
            return shared.ring.offset();
        }
        0
    }

    /// Number of segments, and the distance between the addresses of two of them, bytes.
    pub(crate) fn segments(&self) -> (u32, usize) {
        if let Some(shared) = &self.shared {
            return (shared.ring.segments(), shared.ring.stride());
        }
        (1, self.geometry.bytes())
    }

    /// Address of the notes about open calls.
    pub(crate) fn notes(&self) -> usize {
        if let Some(shared) = &self.shared {
            return shared.ring.open_calls();
        }
        self.mapping() as usize + page_bytes()
    }

    fn under_way_page(&self) -> &UnderWayPage {
        let page = match &self.shared {
            Some(shared) => shared.ring.under_way(),
            None => self.mapping() as usize,
        };
        // SAFETY: the page is mapped as long as the ring exists, aligned, and its fields are atomic.
        unsafe { &*(page as *const UnderWayPage) }
    }

    /// Notes what was under way when recording into this ring began; its thread may record meanwhile.
    pub(crate) fn note_under_way(&self, under_way: &UnderWay) {
        under_way.write(self.under_way_page());
    }

    /// What was under way when recording into this ring, at this counter, began. `None`: nothing was noted.
    pub(crate) fn under_way(&self, started: u64) -> Option<UnderWay> {
        UnderWay::read(self.under_way_page(), started)
    }

    /// Miri has no guard pages; a ring is plain memory there.
    #[cfg(miri)]
    fn layout(geometry: Geometry) -> std::alloc::Layout {
        std::alloc::Layout::from_size_align(bytes_before() + geometry.bytes(), 4096)
            .expect("a valid layout")
    }

    /// Address space for the slots, and for the pages before and after them.
    #[cfg(not(miri))]
    fn map(geometry: Geometry) -> io::Result<*mut libc::c_void> {
        // SAFETY: a new anonymous mapping at an address that the kernel chooses replaces no other mapping.
        let memory = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                mapped_bytes(geometry),
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE,
                -1,
                0,
            )
        };
        if memory == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let bytes = mapped_bytes(geometry);
        wipe_in_child(memory, bytes);
        // SAFETY: the mapping made above. The name is static, as older kernels of Android require: they keep its address.
        // Failure is harmless, and usual on older kernels: then the mapping has no name, or is in a core dump.
        unsafe {
            libc::madvise(memory, bytes, libc::MADV_DONTDUMP);
            libc::prctl(
                PR_SET_VMA,
                PR_SET_VMA_ANON_NAME,
                memory as libc::c_ulong,
                bytes as libc::c_ulong,
                NAME.as_ptr(),
            );
        }
        Ok(memory)
    }

    /// Makes the page before the slots read-only, and the one after them inaccessible.
    #[cfg(not(miri))]
    fn protect(&self) -> io::Result<()> {
        let pages = [
            (self.base() - page_bytes(), libc::PROT_READ),
            (self.end(), libc::PROT_NONE),
        ];
        for (page, protection) in pages {
            let page = page as *mut libc::c_void;
            // SAFETY: the pages before and after the slots are part of this ring's own mapping, and hold none.
            if unsafe { libc::mprotect(page, page_bytes(), protection) } != 0 {
                return Err(io::Error::last_os_error());
            }
        }
        Ok(())
    }

    /// Start of the memory that the ring owns: the pages before its first slot.
    fn mapping(&self) -> *mut libc::c_void {
        // SAFETY: `memory` is so far into the mapping, since `new`.
        unsafe { self.memory.byte_sub(bytes_before()) }.as_ptr()
    }

    /// The calls that were open at the start of the ring's newest lap.
    ///
    /// # Safety
    /// No thread may record into the ring while the reference is in use.
    pub(crate) unsafe fn open_calls(&self) -> &OpenCalls {
        // SAFETY: the page is part of the ring's mapping, readable, zeros or what `note_open_calls` has written, and the
        // caller rules out writers.
        unsafe { &*(self.notes() as *const OpenCalls) }
    }

    /// Address of the first slot.
    pub fn base(&self) -> usize {
        self.memory.as_ptr() as usize
    }

    /// Address after the last slot of the first segment: a page where a store faults.
    pub fn end(&self) -> usize {
        self.base() + self.geometry.bytes() / self.segments().0 as usize
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
        if let Some(shared) = self.shared.as_ref().filter(|s| s.ring.segments() > 1) {
            return match shared.view() {
                // SAFETY: the caller rules out writers.
                Some(view) => unsafe { view.bytes() },
                None => &[],
            };
        }
        // SAFETY: the mapping is readable over its whole length, and the caller rules out writers.
        unsafe { std::slice::from_raw_parts(self.memory.as_ptr().cast(), self.geometry.bytes()) }
    }

    /// Returns the memory to the system and keeps the address space. All slots become zero.
    fn release_memory(&mut self) {
        if let Some(shared) = &mut self.shared {
            shared.ring.release_memory();
            return;
        }
        #[cfg(miri)]
        // SAFETY: this is the only reference to the ring's memory.
        unsafe {
            self.mapping()
                .cast::<u8>()
                .write_bytes(0, bytes_before() + self.geometry.bytes());
        }
        #[cfg(not(miri))]
        // SAFETY: the ring owns the mapping, and `&mut self` rules out readers.
        unsafe {
            libc::madvise(
                self.mapping(),
                bytes_before() + self.geometry.bytes(),
                libc::MADV_DONTNEED,
            );
        }
    }
}

impl Shared {
    /// The slots without gaps. `None` if no address space is left for them.
    fn view(&self) -> Option<&View> {
        if self.view.get().is_none() {
            // Another thread may have been faster.
            let _ = self.view.set(self.ring.view().ok()?);
        }
        self.view.get()
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        if self.shared.is_some() {
            return;
        }
        #[cfg(miri)]
        // SAFETY: allocated with this layout.
        unsafe {
            std::alloc::dealloc(self.mapping().cast(), Self::layout(self.geometry));
        }
        #[cfg(not(miri))]
        // SAFETY: the ring owns the whole mapping, and is being dropped.
        unsafe {
            libc::munmap(self.mapping(), mapped_bytes(self.geometry));
        }
    }
}

/// Notes the calls that are open at the end of a lap, or segment, of a ring, with these addresses of its first slot and of its
/// end, in the page at `notes`. `laps` counts the laps, or segments, up to its end. Of an event that is not complete, `unfinished`
/// slots are at the end; `None` if the caller does not know. Async-signal-safe.
///
/// # Safety
/// The addresses are those of a ring that the calling thread records into, or that nobody records into.
pub(crate) unsafe fn note_open_calls(
    notes: usize,
    base: usize,
    end: usize,
    unfinished: Option<usize>,
    laps: u64,
) {
    // SAFETY: the slots of the caller's ring are readable, aligned, and not written meanwhile.
    let slots =
        unsafe { std::slice::from_raw_parts(base as *const u64, (end - base) / SLOT_BYTES) };
    let unfinished = unfinished.unwrap_or_else(|| usize::from(ends_in_wide_entry(slots)));
    // SAFETY: the page is part of the caller's ring, and as long as an `OpenCalls`, of which any bytes are one.
    let notes = unsafe { &mut *(notes as *mut OpenCalls) };
    notes.note(slots, unfinished, laps);
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
pub struct RingPool {
    geometry: Geometry,
    mode: RingMode,
    /// Where rings are, if not in memory of their own.
    shared: Option<Arc<SharedMemory>>,
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
            shared: None,
            spare: Mutex::new(Vec::new()),
        }
    }

    /// The pool, with rings in the memory that the process shares, if it does.
    pub(crate) fn in_memory(mut self, shared: Option<&Arc<SharedMemory>>) -> Self {
        self.shared = shared.map(Arc::clone);
        self
    }

    /// A spare ring, or a new one.
    ///
    /// # Errors
    /// As [`Ring::new`].
    pub fn take(&self) -> io::Result<Ring> {
        let spare = self.spare.lock().unwrap_or_else(|e| e.into_inner()).pop();
        match spare {
            Some(spare) => Ok(spare),
            None => self.new_ring(),
        }
    }

    /// Whether a further ring leaves room to threads that begin. Only a service limits it.
    pub(crate) fn has_spare_room(&self) -> bool {
        let shared = self.shared.as_ref();
        shared.is_none_or(|shared| shared.room().has_spare(self.geometry.bytes() as u64))
    }

    fn new_ring(&self) -> io::Result<Ring> {
        if let Some(shared) = &self.shared {
            match Ring::in_memory(shared, self.geometry, self.mode) {
                Ok(ring) => return Ok(ring),
                // Memory of the process's own would be outside of the service's budget.
                Err(e) if e.kind() == io::ErrorKind::StorageFull && shared.room().is_limited() => {
                    return Err(e);
                }
                Err(_) => {}
            }
            // It does not survive the process, but its thread is traced.
            shared.count_outside();
        }
        Ok(Ring::new(self.geometry)?.with_mode(self.mode))
    }

    /// Takes a ring back that is not in use, and returns its memory to the system.
    pub fn put(&self, mut ring: Ring) {
        ring.release_memory();
        let mut spare = self.spare.lock().unwrap_or_else(|e| e.into_inner());
        // A shared ring goes back to the shared memory, which makes sure that there is room when it is used again.
        let is_kept = ring.shared.is_none() && ring.geometry() == self.geometry;
        if spare.len() < Self::MAX_SPARE && is_kept {
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

    /// The lines of `/proc/self/smaps` about the mapping that contains this address.
    #[cfg(not(miri))]
    fn smaps(address: usize) -> Vec<String> {
        let all = std::fs::read_to_string("/proc/self/smaps").unwrap();
        let range = |line: &str| {
            let (start, end) = line.split_whitespace().next()?.split_once('-')?;
            let parse = |text| usize::from_str_radix(text, 16).ok();
            Some(parse(start)?..parse(end)?)
        };
        let rest = all
            .lines()
            .skip_while(|l| !range(l).is_some_and(|r| r.contains(&address)));
        let mut rest = rest.map(str::to_owned);
        let first = rest.next().expect("the address is mapped");
        let of_it = rest.take_while(|line| range(line).is_none());
        [first].into_iter().chain(of_it).collect()
    }

    #[cfg(not(miri))]
    #[test]
    fn a_ring_has_a_name_and_is_not_dumped() {
        let ring = Ring::new(small()).unwrap();
        let lines = smaps(ring.base());
        let flags = lines.iter().find(|l| l.starts_with("VmFlags:")).unwrap();
        assert!(flags.split(' ').any(|flag| flag == "dd"), "{flags}");
        // Named only by kernels with CONFIG_ANON_VMA_NAME. They know the call for any mapping.
        let page = ring.base();
        // SAFETY: names this test's own ring as it is named already.
        let is_known = unsafe {
            libc::prctl(
                PR_SET_VMA,
                PR_SET_VMA_ANON_NAME,
                page as libc::c_ulong,
                page_bytes() as libc::c_ulong,
                NAME.as_ptr(),
            ) == 0
        };
        if !is_known {
            eprintln!("skipped: names of mappings: this kernel has no CONFIG_ANON_VMA_NAME");
            return;
        }
        assert!(lines[0].contains("hindsight ring]"), "{}", lines[0]);
    }

    #[test]
    fn the_slot_before_a_ring_is_zero() {
        let ring = Ring::new(small()).unwrap();
        // SAFETY: the page before the ring is readable, and nothing can write to it.
        assert_eq!(unsafe { ((ring.base() - 8) as *const u64).read() }, 0);
    }
}
