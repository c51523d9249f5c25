// SPDX-License-Identifier: Apache-2.0
//! Facts for detectors, from `/proc` and `/sys`.

use std::collections::BTreeMap;
use std::fs;
use std::io::Read;
use std::path::Path;

use crate::detectors::SystemFacts;
use crate::engine::MemoryFacts;

/// The longest file that is read, bytes.
pub(super) const MAX_BYTES: u64 = 4096;
/// The longest `/proc/vmstat` that is read, bytes: some 200 lines.
const MAX_VMSTAT_BYTES: u64 = 1 << 16;
/// The most zones of temperature that are read.
const MAX_ZONES: usize = 64;

/// Reads the facts below this folder, which is `/` but for tests. What cannot be read is not known.
pub(super) fn read(root: &Path, pids: &[u32]) -> SystemFacts {
    let stalled = |what: &str| {
        let text = text(&root.join("proc/pressure").join(what))?;
        total_us(&text, "some")
    };
    let run_delay = |pid: &u32| {
        let text = text(&root.join(format!("proc/{pid}/schedstat")))?;
        Some((*pid, text.split_whitespace().nth(1)?.parse().ok()?))
    };
    let run_delay_ns: BTreeMap<u32, u64> = pids.iter().filter_map(run_delay).collect();
    SystemFacts {
        stalled_us: ["cpu", "io", "memory"].map(stalled),
        millicelsius: hottest(&root.join("sys/class/thermal")),
        run_delay_ns,
    }
}

fn text(path: &Path) -> Option<String> {
    text_up_to(path, MAX_BYTES)
}

fn text_up_to(path: &Path, most: u64) -> Option<String> {
    let file = fs::File::open(path).ok()?;
    let mut text = String::new();
    file.take(most).read_to_string(&mut text).ok()?;
    Some(text)
}

/// How short memory is, below this folder.
pub(super) fn memory(root: &Path) -> MemoryFacts {
    let pressure = text(&root.join("proc/pressure/memory")).unwrap_or_default();
    let percent = |kind| average_percent(&pressure, kind);
    let vmstat = text_up_to(&root.join("proc/vmstat"), MAX_VMSTAT_BYTES).unwrap_or_default();
    let kills = vmstat
        .lines()
        .find_map(|line| line.strip_prefix("oom_kill "));
    MemoryFacts {
        some_percent: percent("some"),
        full_percent: percent("full"),
        oom_kills: kills.and_then(|count| count.trim().parse().ok()),
    }
}

/// The average of the last 10 s in the line of this kind, percent.
fn average_percent(text: &str, kind: &str) -> Option<u32> {
    let mut fields = text
        .lines()
        .map(str::split_whitespace)
        .find_map(|mut fields| (fields.next() == Some(kind)).then_some(fields))?;
    let average: f64 = fields
        .find_map(|field| field.strip_prefix("avg10="))?
        .parse()
        .ok()?;
    (0.0..=100.0).contains(&average).then_some(average as u32)
}

/// The total of the line of this kind, µs.
pub(super) fn total_us(text: &str, kind: &str) -> Option<u64> {
    let line = text
        .lines()
        .find(|line| line.split_whitespace().next() == Some(kind))?;
    line.rsplit_once("total=")?.1.trim().parse().ok()
}

/// The highest temperature of any zone, thousandths of a degree.
fn hottest(folder: &Path) -> Option<i64> {
    let zones = fs::read_dir(folder).ok()?.flatten().take(MAX_ZONES);
    let zones = zones.filter(|zone| {
        zone.file_name()
            .to_string_lossy()
            .starts_with("thermal_zone")
    });
    let temperature = |zone: fs::DirEntry| text(&zone.path().join("temp"))?.trim().parse().ok();
    zones.filter_map(temperature).max()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn facts_are_read_where_the_system_has_them() {
        let root = tempfile::tempdir().unwrap();
        assert_eq!(read(root.path(), &[7]), SystemFacts::default());
        let write = |path: &str, text: &str| {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        let pressure =
            "some avg10=0.12 avg60=0.03 avg300=0.01 total=4711\nfull avg10=0.00 total=9\n";
        write("proc/pressure/memory", pressure);
        write("proc/pressure/io", "nonsense");
        write("proc/7/schedstat", "100 250 3\n");
        write("sys/class/thermal/thermal_zone0/temp", "41000\n");
        write("sys/class/thermal/thermal_zone1/temp", "58500\n");
        write("sys/class/thermal/thermal_zone2/temp", "broken\n");
        write("sys/class/thermal/cooling_device0/temp", "99000\n");
        let facts = read(root.path(), &[7, 8]);
        assert_eq!(facts.stalled_us, [None, None, Some(4711)]);
        assert_eq!(facts.millicelsius, Some(58500));
        assert_eq!(facts.run_delay_ns, [(7, 250)].into());
    }

    #[test]
    fn memory_is_as_short_as_the_system_says() {
        let root = tempfile::tempdir().unwrap();
        assert_eq!(memory(root.path()), MemoryFacts::default());
        fs::create_dir_all(root.path().join("proc/pressure")).unwrap();
        let write = |path: &str, text: &str| fs::write(root.path().join(path), text).unwrap();
        let pressure = "some avg10=35.60 avg60=1.00 avg300=0.01 total=4711\nfull avg10=2.00 avg60=0.0 avg300=0.0 total=9\n";
        write("proc/pressure/memory", pressure);
        write("proc/vmstat", "pgfault 7\noom_kill 12\noom_kill_other 3\n");
        let expected = MemoryFacts {
            some_percent: Some(35),
            full_percent: Some(2),
            oom_kills: Some(12),
        };
        assert_eq!(memory(root.path()), expected);
        write(
            "proc/pressure/memory",
            "some avg10=NaN\nfull avg10=200\nsome",
        );
        write("proc/vmstat", "oom_kill -1");
        assert_eq!(memory(root.path()), MemoryFacts::default());
    }
}
