// SPDX-License-Identifier: Apache-2.0
//! Any bytes as a file: no panic, and memory in proportion to the file's size.

mod common;

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use hindsight_trace_format::container::{
    Anchor, Clocks, Losses, ProcessFacts, ReadError, Reader, Ring, SectionKind, Stacks,
    SymbolTable, Symbols, HEADER_BYTES, MAGIC, TABLE_ENTRY_BYTES,
};
use proptest::prelude::*;

/// Counts what the current thread allocates.
struct Counting;

thread_local! {
    static ALLOCATED: Cell<usize> = const { Cell::new(0) };
}

// SAFETY: GlobalAlloc's contract is upheld by `System`, to which all calls are forwarded unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let _ = ALLOCATED.try_with(|total| total.set(total.get().saturating_add(layout.size())));
        // SAFETY: the caller upholds the contract of `alloc`: a layout of non-zero size.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        // SAFETY: the caller upholds the contract of `dealloc`: `memory` came from `alloc` with this layout.
        unsafe { System.dealloc(memory, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Reads all of a file, as far as it can be read.
fn read_everything(bytes: &[u8]) -> Result<(), ReadError> {
    let reader = Reader::new(bytes)?;
    let mut first_error = reader.verify_all();
    let mut note = |result: Result<(), ReadError>| {
        if first_error.is_ok() {
            first_error = result;
        }
    };
    note(reader.process().map(drop));
    note(reader.clocks().map(drop));
    for index in reader.ring_indices() {
        note(reader.ring(index).map(|ring| {
            if let Some(ring) = ring {
                let events: usize = ring.slots().events().map(|e| 1 + e.payloads().len()).sum();
                assert!(events <= ring.slots().len());
                let _ = ring.header.position.slots_written(ring.header.geometry);
            }
        }));
        note(reader.anchors(index).map(drop));
    }
    note(reader.symbol_table().map(|table| {
        if let Some(table) = table {
            assert_eq!(table.iter().count(), table.len());
            let _ = table.lookup(0x7000_0000, 5);
        }
    }));
    note(reader.stacks().map(|stacks| {
        for generation in &stacks.generations {
            for number in 0..=generation.nodes.len() as u32 + 1 {
                assert!(generation.frames(number).count() <= number as usize);
            }
        }
    }));
    note(reader.losses().map(drop));
    first_error
}

/// Reads all recoverable parts of a damaged file.
fn salvage_everything(bytes: &[u8]) {
    let Ok(recovered) = Reader::recover(bytes) else {
        return;
    };
    let reader = &recovered.reader;
    for gap in &recovered.gaps {
        assert!(gap.start < gap.end && gap.end <= bytes.len() as u64);
    }
    let _ = reader.salvage(SectionKind::Process, 0, ProcessFacts::decode);
    let _ = reader.salvage(SectionKind::Clocks, 0, Clocks::decode);
    let _ = reader.salvage(SectionKind::Stacks, 0, Stacks::decode);
    let _ = reader.salvage(SectionKind::Losses, 0, Losses::decode);
    let _ = reader.salvage(SectionKind::Symbols, 0, |bytes| {
        let table = SymbolTable::decode_damaged(bytes);
        if let Some(table) = &table {
            assert_eq!(table.iter().count(), table.len());
            let keys: Vec<_> = table.iter().map(|s| (s.address, s.valid_from)).collect();
            assert!(keys.is_sorted());
        }
        Ok(table.is_some())
    });
    for index in reader.ring_indices() {
        if let Ok(Some(parts)) = reader.ring_parts(index) {
            assert!(parts.raw.len() <= 400 * bytes.len());
            assert!(parts.lost.iter().all(|lost| lost.start < lost.end));
            assert!(parts.slots().events().count() <= parts.slots().len());
        }
        let _ = reader.salvage(SectionKind::Anchors, index, Anchor::decode_all);
    }
}

/// Runs `f`, which may allocate this much at most.
fn within<T>(limit: usize, f: impl FnOnce() -> T) -> T {
    let before = ALLOCATED.get();
    let result = f();
    let allocated = ALLOCATED.get() - before;
    assert!(
        allocated <= limit,
        "{allocated} bytes were allocated, the limit is {limit}"
    );
    result
}

/// Errors are texts, and growing vectors allocate several times. A byte of a compressed ring stands for at most 400 bytes of
/// slots, which are read through a buffer of about that size; rings are read twice.
fn limit(bytes: &[u8]) -> usize {
    (64 + 4 * 450) * bytes.len() + (64 << 10)
}

/// Makes all checksums right again, so that damage reaches what they protect.
fn repair_checksums(bytes: &mut [u8]) {
    fn u32_at(bytes: &[u8], at: usize) -> usize {
        u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap()) as usize
    }
    if bytes.len() < HEADER_BYTES {
        return;
    }
    let table = u32_at(bytes, 16);
    let table_end = table.saturating_add(u32_at(bytes, 12).saturating_mul(TABLE_ENTRY_BYTES));
    if table_end <= bytes.len() {
        for entry in (table..table_end).step_by(TABLE_ENTRY_BYTES) {
            let (start, length) = (u32_at(bytes, entry + 8), u32_at(bytes, entry + 16));
            let section = start..start.saturating_add(length);
            if let Some(crc) = bytes.get(section).map(crc32fast::hash) {
                bytes[entry + 24..entry + 28].copy_from_slice(&crc.to_le_bytes());
            }
        }
        let crc = crc32fast::hash(&bytes[table..table_end]);
        bytes[32..36].copy_from_slice(&crc.to_le_bytes());
    }
    let crc = crc32fast::hash(&bytes[..36]);
    bytes[36..40].copy_from_slice(&crc.to_le_bytes());
}

/// Wrong values for lengths and counts.
fn nasty() -> impl Strategy<Value = u32> {
    prop_oneof![
        any::<u32>(),
        0..64_u32,
        Just(u32::MAX),
        Just(0x8000_0000),
        Just(0x00ff_ffff),
    ]
}

proptest! {
    #![proptest_config(common::cases(250))]

    #[test]
    fn random_bytes(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
        prop_assert!(within(limit(&bytes), || read_everything(&bytes)).is_err());
        // Without the magic, hardly any would get further.
        let bytes = [&MAGIC[..], &bytes].concat();
        within(limit(&bytes), || salvage_everything(&bytes));
    }

    #[test]
    fn damaged_files(
        contents in common::contents(),
        damage in proptest::collection::vec((any::<prop::sample::Index>(), nasty(), any::<bool>()), 1..6),
        cut in proptest::option::of(any::<prop::sample::Index>()),
        repair in any::<bool>(),
    ) {
        let mut bytes = contents.write();
        for (place, value, whole) in damage {
            let at = place.index(bytes.len());
            if whole {
                // Aligned, where the numbers are.
                let at = at / 4 * 4;
                if let Some(word) = bytes.get_mut(at..at + 4) {
                    word.copy_from_slice(&value.to_le_bytes());
                }
            } else {
                bytes[at] = value as u8;
            }
        }
        if let Some(cut) = cut {
            bytes.truncate(cut.index(bytes.len()));
        }
        if repair {
            repair_checksums(&mut bytes);
        }
        let _ = within(limit(&bytes), || read_everything(&bytes));
        within(limit(&bytes), || salvage_everything(&bytes));
    }

    #[test]
    fn damaged_sections(
        section in prop_oneof![
            common::facts().prop_map(|s| s.encode()),
            common::clocks().prop_map(|s| s.encode()),
            common::ring().prop_map(|(header, raw)| [header.encode(), raw].concat()),
            common::anchors().prop_map(|s| Anchor::encode_all(&s)),
            common::symbols().prop_map(|s| s.encode()),
            common::losses().prop_map(|s| s.encode()),
            common::stacks().prop_map(|s| s.encode()),
        ],
        damage in proptest::collection::vec((any::<prop::sample::Index>(), nasty()), 0..4),
        cut in any::<prop::sample::Index>(),
    ) {
        let mut bytes = section;
        for (place, value) in damage {
            let at = place.index(bytes.len()) / 4 * 4;
            if let Some(word) = bytes.get_mut(at..at + 4) {
                word.copy_from_slice(&value.to_le_bytes());
            }
        }
        for bytes in [&bytes[..], &bytes[..cut.index(bytes.len() + 1)]] {
            within(limit(bytes), || {
                let _ = ProcessFacts::decode(bytes);
                let _ = Clocks::decode(bytes);
                let _ = Ring::decode(bytes).map(|ring| ring.slots().events().count());
                let _ = Anchor::decode_all(bytes);
                let _ = SymbolTable::decode(bytes).map(|table| table.iter().count());
                let _ = Losses::decode(bytes);
                let _ = Stacks::decode(bytes);
                let _ = SymbolTable::decode_damaged(bytes).map(|table| table.iter().count());
            });
        }
    }
}

#[test]
fn the_repaired_checksums_are_accepted() {
    // Otherwise the tests above would only ever see checksum errors.
    let contents = common::Contents {
        facts: ProcessFacts::default(),
        clocks: Clocks::default(),
        rings: Vec::new(),
        symbols: Symbols::default(),
        stacks: Stacks::default(),
        losses: Losses::default(),
        compressed: false,
    };
    let good = contents.write();
    let mut bytes = good.clone();
    bytes[HEADER_BYTES] ^= 1;
    assert!(matches!(
        read_everything(&bytes),
        Err(ReadError::Checksum { .. })
    ));
    repair_checksums(&mut bytes);
    assert_eq!(Reader::new(&bytes).unwrap().process().unwrap().pid, 1);
    bytes[HEADER_BYTES] ^= 1;
    repair_checksums(&mut bytes);
    assert_eq!(bytes, good);
}

/// Tables whose entries all name the same bytes, or none, and sections that look like others.
#[test]
fn tables_that_repeat_themselves_cost_no_more_than_their_bytes() {
    let mut file = small_file();
    let header_crc = |file: &mut Vec<u8>| {
        let crc = crc32fast::hash(&file[..36]);
        file[36..40].copy_from_slice(&crc.to_le_bytes());
    };
    let at = file.len();
    for count in [10_u32, 1_000, 20_000] {
        file.truncate(at);
        for i in 0..count {
            for word in [3, i, 40, 0, at as u32 - 40, 0, 0, 0] {
                file.extend_from_slice(&word.to_le_bytes());
            }
        }
        file[12..16].copy_from_slice(&count.to_le_bytes());
        file[16..24].copy_from_slice(&(at as u64).to_le_bytes());
        let whole = file.len() as u64;
        file[24..32].copy_from_slice(&whole.to_le_bytes());
        header_crc(&mut file);
        within(limit(&file), || salvage_everything(&file));
        // And with a wrong header, so that the table is searched for.
        let mut wrong = file.clone();
        wrong[36] ^= 1;
        within(limit(&wrong), || salvage_everything(&wrong));
    }
}

fn small_file() -> Vec<u8> {
    common::Contents {
        facts: ProcessFacts::default(),
        clocks: Clocks::default(),
        rings: Vec::new(),
        symbols: Symbols::default(),
        stacks: Stacks::default(),
        losses: Losses::default(),
        compressed: false,
    }
    .write()
}

#[test]
fn few_bytes_cannot_expand_to_many() {
    // One long string, named by many symbols.
    let count = 20_000_u32;
    let text = vec![b'x'; 60_000];
    let mut bytes = Vec::new();
    let mut put = |word: u32| bytes.extend_from_slice(&word.to_le_bytes());
    put(count);
    put(40);
    for _ in 0..count * 10 {
        put(0);
    }
    put(1);
    put(text.len() as u32);
    put(text.len() as u32);
    bytes.extend_from_slice(&text);
    let table = within(limit(&bytes), || SymbolTable::decode(&bytes)).unwrap();
    assert_eq!(table.get(19_999).unwrap().class.len(), 60_000);
    let error = within(limit(&bytes), || Symbols::decode(&bytes)).unwrap_err();
    assert!(error.what.contains("4800000000 bytes"), "{error}");
}
