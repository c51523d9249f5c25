// SPDX-License-Identifier: Apache-2.0
//! Facts for detectors, from `/proc` and `/sys`.

use std::collections::BTreeMap;
use std::fs;
use std::io::Read;
use std::path::Path;

use crate::detectors::SystemFacts;

/// The longest file that is read, bytes.
const MAX_BYTES: u64 = 4096;
/// The most zones of temperature that are read.
const MAX_ZONES: usize = 64;

/// Reads the facts below this folder, which is `/` but for tests. What cannot be read is not known.
pub(super) fn read(root: &Path, pids: &[u32]) -> SystemFacts {
    let stalled = |what: &str| {
        let text = text(&root.join("proc/pressure").join(what))?;
        total_us(&text)
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
    let file = fs::File::open(path).ok()?;
    let mut text = String::new();
    file.take(MAX_BYTES).read_to_string(&mut text).ok()?;
    Some(text)
}

/// The total of the line `some`, µs.
fn total_us(text: &str) -> Option<u64> {
    let some = text.lines().find(|line| line.starts_with("some "))?;
    some.rsplit_once("total=")?.1.trim().parse().ok()
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
}
