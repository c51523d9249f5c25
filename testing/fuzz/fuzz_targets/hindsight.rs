// SPDX-License-Identifier: Apache-2.0
//! `.hindsight` files. Their checksums are corrected first; otherwise nearly all changes would fail there.

#![no_main]

use std::path::Path;

use hindsight_decoder::Trace;
use hindsight_trace_format::container::{Reader, HEADER_BYTES, TABLE_ENTRY_BYTES};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    // Twice: as it is (mostly a damaged file), and with its checksums corrected.
    if let Ok(trace) = Trace::decode(Path::new("fuzz"), data) {
        hindsight_fuzz::check(&trace);
    }
    let mut bytes = data.to_vec();
    if mend(&mut bytes).is_none() {
        return;
    }
    if let Ok(reader) = Reader::new(&bytes) {
        let _ = (reader.symbols(), reader.losses(), reader.verify_all());
    }
    if let Ok(trace) = Trace::decode(Path::new("fuzz"), &bytes) {
        hindsight_fuzz::check(&trace);
    }
});

/// CRC-32 of zlib, bit by bit: the inputs are small.
fn crc32(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(!0_u32, |crc, &byte| {
        (0..8).fold(crc ^ u32::from(byte), |crc, _| {
            crc >> 1 ^ (crc & 1) * 0xedb8_8320
        })
    })
}

fn mend(bytes: &mut [u8]) -> Option<()> {
    let u64_at =
        |bytes: &[u8], at: usize| Some(u64::from_le_bytes(*bytes.get(at..)?.first_chunk()?));
    let count = u32::from_le_bytes(*bytes.get(12..)?.first_chunk()?) as usize;
    let table = usize::try_from(u64_at(bytes, 16)?).ok()?;
    let table_end = table.checked_add(count.checked_mul(TABLE_ENTRY_BYTES)?)?;
    bytes.get(table..table_end)?;
    for entry in (table..table_end).step_by(TABLE_ENTRY_BYTES) {
        let start = usize::try_from(u64_at(bytes, entry + 8)?).ok()?;
        let end = start.checked_add(usize::try_from(u64_at(bytes, entry + 16)?).ok()?)?;
        let crc = crc32(bytes.get(start..end).unwrap_or_default());
        bytes[entry + 24..entry + 28].copy_from_slice(&crc.to_le_bytes());
    }
    let crc = crc32(&bytes[table..table_end]);
    bytes.get_mut(32..36)?.copy_from_slice(&crc.to_le_bytes());
    let crc = crc32(bytes.get(..HEADER_BYTES - 4)?);
    bytes.get_mut(36..40)?.copy_from_slice(&crc.to_le_bytes());
    Some(())
}
