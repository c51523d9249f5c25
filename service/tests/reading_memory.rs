// SPDX-License-Identifier: Apache-2.0
//! Reading a process's memory, and writing the report, stays within the memory that the budget counts for it, whatever is in there.

mod common;

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::io::{self, Seek, SeekFrom, Write};

use common::{bomb, Bomb, STRANGE};
use hindsight_trace_format::container::{Consent, Writer};
use hindsight_trace_format::shared::{Ending, ReadLimits, RingFilter, SharedReader};

/// Counts the bytes that the current thread has.
struct Counting;

thread_local! {
    static NOW: Cell<usize> = const { Cell::new(0) };
    static MOST: Cell<usize> = const { Cell::new(0) };
}

// SAFETY: GlobalAlloc's contract is upheld by `System`, to which all calls are forwarded unchanged. What grows is copied, so that
// the old and the new block count.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let _ = NOW.try_with(|now| {
            now.set(now.get().wrapping_add(layout.size()));
            let _ = MOST.try_with(|most| most.set(most.get().max(now.get())));
        });
        // SAFETY: the caller upholds the contract of `alloc`: a layout of non-zero size.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        let _ = NOW.try_with(|now| now.set(now.get().wrapping_sub(layout.size())));
        // SAFETY: the caller upholds the contract of `dealloc`: `memory` came from `alloc` with this layout.
        unsafe { System.dealloc(memory, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// A file that only has a length.
struct Nowhere(u64);

impl Write for Nowhere {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0 += bytes.len() as u64;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Seek for Nowhere {
    fn seek(&mut self, _: SeekFrom) -> io::Result<u64> {
        Ok(0)
    }
}

/// The most memory that writing a report takes, and the length of the report; bytes.
fn taken(memory: &[u8], limits: ReadLimits, consent: Consent) -> (u64, u64) {
    let before = NOW.get();
    MOST.set(before);
    let reader = SharedReader::new(memory, RingFilter::All, limits).unwrap();
    let mut writer = Writer::new(Nowhere(0)).unwrap();
    let ending = Ending::default();
    reader.write(&mut writer, &ending, consent).unwrap();
    let Nowhere(length) = writer.finish().unwrap();
    (MOST.get().wrapping_sub(before) as u64, length)
}

#[test]
fn no_memory_makes_a_reader_use_more_than_is_counted() {
    for kind in STRANGE {
        for bytes in [1 << 20, 6 << 20] {
            let memory = bomb(kind, bytes);
            for other in [bytes as u64, bytes as u64 / 3] {
                let limits = ReadLimits::granted(1, 1 << 16, other);
                for consent in Consent::ALL {
                    let (most, length) = taken(&memory, limits, consent);
                    let case = format!("{kind:?} of {bytes} bytes, {other} granted, {consent:?}");
                    println!("{case}: {most} of {}, {length} in the file", limits.memory);
                    assert!(most <= limits.memory, "{case}: {most} > {}", limits.memory);
                }
            }
        }
    }
    // It counts at all.
    let memory = bomb(Bomb::Methods, 6 << 20);
    let (most, _) = taken(&memory, ReadLimits::of_rings(1 << 20), Consent::Content);
    assert!(most > 30 << 20, "{most}");
}
