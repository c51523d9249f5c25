// SPDX-License-Identifier: Apache-2.0
//! What compression of rings costs and saves: `compression FILE.hindsight…` writes the rings of each file into memory, as they are
//! and compressed, and reads them back. The fastest of 9 rounds counts.

use std::io::Cursor;
use std::time::{Duration, Instant};

use hindsight_trace_format::container::{Reader, RingHeader, SectionKind, Writer};

const ROUNDS: usize = 9;

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

/// A file with these rings only.
fn write(rings: &[(RingHeader, Vec<u8>)], compressed: bool) -> Result<Vec<u8>> {
    let bytes: usize = rings.iter().map(|(_, slots)| slots.len()).sum();
    let mut writer = Writer::new(Cursor::new(Vec::with_capacity(2 * bytes + (1 << 20))))?;
    for (index, (header, slots)) in (0..).zip(rings) {
        match compressed {
            true => writer.ring(index, header, slots)?,
            false => writer.section(SectionKind::Ring, index, &[&header.encode(), slots])?,
        }
    }
    Ok(writer.finish()?.into_inner())
}

/// The fastest of some rounds, and the last result.
fn fastest<T>(mut f: impl FnMut() -> Result<T>) -> Result<(Duration, T)> {
    let mut best = Duration::MAX;
    let mut last = None;
    for _ in 0..ROUNDS {
        let start = Instant::now();
        let result = f()?;
        best = best.min(start.elapsed());
        last = Some(result);
    }
    Ok((best, last.ok_or("no rounds")?))
}

fn main() -> Result<()> {
    for path in std::env::args().skip(1) {
        let bytes = std::fs::read(&path)?;
        let reader = Reader::new(&bytes)?;
        let mut rings = Vec::new();
        for index in reader.ring_indices() {
            let ring = reader.ring(index)?.ok_or("a ring is missing")?;
            rings.push((ring.header, ring.raw.into_owned()));
        }
        let slots: usize = rings.iter().map(|(_, slots)| slots.len()).sum();
        let (raw_time, raw) = fastest(|| write(&rings, false))?;
        let (time, compressed) = fastest(|| write(&rings, true))?;
        let (read_time, ()) = fastest(|| {
            let reader = Reader::new(&compressed)?;
            for (index, (_, slots)) in (0..).zip(&rings) {
                let ring = reader.ring(index)?.ok_or("a ring is missing")?;
                assert!(*ring.raw == **slots, "the slots are as they were");
            }
            Ok(())
        })?;
        let per_byte = |time: Duration| time.as_nanos() as f64 / slots as f64;
        println!("{path}: {} rings, {slots} bytes of slots", rings.len());
        println!(
            "  as in memory: {} bytes, {:.2} ns a byte",
            raw.len(),
            per_byte(raw_time)
        );
        println!(
            "  compressed:   {} bytes ({:.1} times fewer), {:.2} ns a byte, {:.2} ms; read and compared: {:.2} ns a byte",
            compressed.len(),
            raw.len() as f64 / compressed.len() as f64,
            per_byte(time),
            time.as_secs_f64() * 1e3,
            per_byte(read_time),
        );
    }
    Ok(())
}
