// SPDX-License-Identifier: Apache-2.0
//! Android's `tzdata` file, made from the system's zone files.
//!
//! Layout (big-endian): 12 bytes `tzdataYYYYx` with a zero; the offsets of index, data and zone.tab;
//! the index, 52 bytes a zone: name (40 bytes, zero-padded), offset in the data, length, the zone's
//! offset from UTC in seconds; the data: the zone files; zone.tab, which nothing here reads.

use crate::error::{Error, IoContext, Result};
use crate::util::read;
use std::collections::{BTreeSet, HashMap};
use std::path::Path;

const HEADER: usize = 24;
const NAME: usize = 40;

/// Makes the file from a folder like `/usr/share/zoneinfo`.
pub(crate) fn bundle(zoneinfo: &Path) -> Result<Vec<u8>> {
    let list = zoneinfo.join("tzdata.zi");
    let text = read(&list)?;
    let version = text
        .lines()
        .next()
        .and_then(|line| line.strip_prefix("# version "))
        .map(str::trim)
        .ok_or_else(|| {
            Error::Other(format!(
                "{} does not begin with its version",
                list.display()
            ))
        })?;
    let mut index = Vec::new();
    let mut data = Vec::new();
    let mut offsets = HashMap::new();
    for name in zone_names(&text) {
        let path = zoneinfo.join(&name);
        if name.len() >= NAME || !path.is_file() {
            continue;
        }
        let zone = std::fs::read(&path).context("read", &path)?;
        let raw_offset = raw_offset(&zone)
            .ok_or_else(|| Error::Other(format!("{} is not a zone file", path.display())))?;
        let length = zone.len();
        // Zones that are links share their data.
        let offset = *offsets.entry(zone).or_insert_with_key(|zone| {
            data.extend_from_slice(zone);
            data.len() - zone.len()
        });
        let mut entry = [0; NAME];
        entry[..name.len()].copy_from_slice(name.as_bytes());
        index.extend_from_slice(&entry);
        index.extend_from_slice(&(offset as u32).to_be_bytes());
        index.extend_from_slice(&(length as u32).to_be_bytes());
        index.extend_from_slice(&raw_offset.to_be_bytes());
    }
    let mut file = format!("tzdata{version}").into_bytes();
    file.resize(12, 0);
    file[11] = 0;
    let data_offset = HEADER + index.len();
    for offset in [HEADER, data_offset, data_offset + data.len()] {
        file.extend_from_slice(&(offset as u32).to_be_bytes());
    }
    file.extend_from_slice(&index);
    file.extend_from_slice(&data);
    file.push(0);
    Ok(file)
}

/// Zones (`Z name …`) and links (`L target name`) of `tzdata.zi`, sorted.
fn zone_names(text: &str) -> BTreeSet<String> {
    text.lines()
        .filter_map(|line| {
            let mut words = line.split_ascii_whitespace();
            match words.next()? {
                "Z" => words.next(),
                "L" => words.nth(1),
                _ => None,
            }
        })
        .map(str::to_owned)
        .collect()
}

/// The offset from UTC of a zone's newest standard time, from the version-1 block of its file.
fn raw_offset(zone: &[u8]) -> Option<i32> {
    let word = |at: usize| Some(i32::from_be_bytes(zone.get(at..at + 4)?.try_into().ok()?));
    if !zone.starts_with(b"TZif") {
        return None;
    }
    let transitions = usize::try_from(word(32)?).ok()?;
    let types = usize::try_from(word(36)?).ok()?;
    // A slim file has an empty first block; the second one has 64-bit times.
    let (start, width, transitions, types) = if types == 0 || (zone[4] >= b'2' && transitions == 0)
    {
        let leap = usize::try_from(word(28)?).ok()?;
        let characters = usize::try_from(word(40)?).ok()?;
        let flags = usize::try_from(word(20)?).ok()? + usize::try_from(word(24)?).ok()?;
        let second = 44 + transitions * 5 + types * 6 + characters + leap * 8 + flags;
        if zone.get(second..second + 4)? != b"TZif" {
            return None;
        }
        let count = |at: usize| usize::try_from(word(second + at)?).ok();
        (second + 44, 8, count(32)?, count(36)?)
    } else {
        (44, 4, transitions, types)
    };
    let type_at = |i: usize| {
        let at = start + transitions * (width + 1) + i * 6;
        Some((word(at)?, *zone.get(at + 4)? != 0))
    };
    let order = zone.get(start + transitions * width..start + transitions * (width + 1))?;
    for &i in order.iter().rev() {
        let (offset, daylight) = type_at(usize::from(i))?;
        if !daylight {
            return Some(offset);
        }
    }
    for i in 0..types {
        let (offset, daylight) = type_at(i)?;
        if !daylight {
            return Some(offset);
        }
    }
    Some(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read_u32(bytes: &[u8], at: usize) -> usize {
        u32::from_be_bytes(bytes[at..at + 4].try_into().unwrap()) as usize
    }

    #[test]
    fn the_systems_zones_are_found_again() {
        let zoneinfo = Path::new("/usr/share/zoneinfo");
        if !zoneinfo.join("tzdata.zi").exists() {
            eprintln!("skipped: no tzdata package");
            return;
        }
        let file = bundle(zoneinfo).unwrap();
        assert!(file.starts_with(b"tzdata20"));
        let (index, data) = (read_u32(&file, 12), read_u32(&file, 16));
        let mut found = HashMap::new();
        for entry in file[index..data].chunks_exact(52) {
            let end = entry.iter().position(|&b| b == 0).unwrap();
            let name = std::str::from_utf8(&entry[..end]).unwrap().to_owned();
            let (offset, length) = (read_u32(entry, 40), read_u32(entry, 44));
            let raw = read_u32(entry, 48) as u32 as i32;
            let zone = &file[data + offset..data + offset + length];
            assert_eq!(zone, std::fs::read(zoneinfo.join(&name)).unwrap());
            found.insert(name, raw);
        }
        assert_eq!(found["UTC"], 0);
        assert_eq!(found["Europe/Berlin"], 3600);
        assert_eq!(found["America/New_York"], -5 * 3600);
        assert_eq!(found["Asia/Kolkata"], 5 * 3600 + 1800);
        assert!(found.len() > 400);
    }

    #[test]
    fn garbage_is_not_a_zone() {
        assert_eq!(raw_offset(b"TZif2"), None);
        assert_eq!(raw_offset(&[0; 100]), None);
    }
}
