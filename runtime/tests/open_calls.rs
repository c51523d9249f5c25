// SPDX-License-Identifier: Apache-2.0
//! A file of a ring that has wrapped has the calls that were open then, and their names.

mod common;

use std::sync::Arc;
use std::time::Duration;

use common::{FakeHost, Managed, World};
use hindsight_runtime::{Config, Recorder, SnapshotOutcome};
use hindsight_trace_format::container::{OpenCalls, Reader};

const PATIENCE: Duration = Duration::from_secs(60);
/// Slots of a ring of 4 KiB.
const SLOTS: u64 = 512;
const OUTER: u64 = 0x10_0000;
const WIDE: u64 = 0x5_0000_0000;
const INNER: u64 = 0x10_0100;
const SHORT: u64 = 0x10_0200;

#[test]
fn calls_whose_entries_were_overwritten_are_in_the_file_with_their_names() {
    let folder = tempfile::tempdir().unwrap();
    let world = Arc::new(World::default());
    let text = format!(
        "trace=all,rewind=off,ring=12,dir={}",
        folder.path().display()
    );
    let host = Box::new(FakeHost(Arc::clone(&world)));
    let recorder = Recorder::start(Config::parse(&text).unwrap(), host).unwrap();
    let read = |thread: &mut Managed<'_>| {
        let outcome = thread.native(|| recorder.snapshot("x".into(), 0, PATIENCE));
        let SnapshotOutcome::Written(path) = outcome else {
            panic!("{outcome:?}");
        };
        let bytes = std::fs::read(path).unwrap();
        let reader = Reader::new(&bytes).unwrap();
        let symbols = reader.symbols().unwrap().symbols;
        let laps = reader.ring(0).unwrap().unwrap().header.position.laps;
        let names: Vec<_> = symbols.into_iter().map(|s| s.address).collect();
        (reader.open_calls(0).unwrap(), names, laps)
    };
    Managed::run(&recorder, &world, |thread| {
        for method in [OUTER, WIDE, INNER] {
            thread.enter(method);
        }
        // In the first lap, the entries are in the ring.
        let (open, _, laps) = read(thread);
        assert_eq!((open, laps), (None, 0));
        // In the next ring they are not, and no entry is known: these calls began before.
        for _ in 0..3 * SLOTS {
            thread.enter(SHORT);
            thread.exit();
        }
        let (open, _, laps) = read(thread);
        let expected = |count, methods: &[u64]| {
            let methods = methods.to_vec();
            let slots_written = laps * SLOTS;
            Some(OpenCalls {
                slots_written,
                count,
                methods,
            })
        };
        // The cursor rests at the end.
        assert_eq!(laps, 5);
        assert_eq!(open, expected(0, &[]));

        for method in [OUTER, WIDE, INNER] {
            thread.enter(method);
        }
        for _ in 0..3 * SLOTS - 4 {
            thread.enter(SHORT);
            thread.exit();
        }
        // Two entries that are in the ring, one of them open at the end of the lap.
        thread.exit();
        for _ in 0..8 {
            thread.enter(INNER);
        }
        let (open, names, laps) = read(thread);
        assert_eq!(laps, 6);
        let open = open.expect("the ring wrapped");
        assert_eq!(open.slots_written, 6 * SLOTS);
        assert_eq!(open.methods.len() as u64, open.count);
        assert_eq!(open.methods[..2], [OUTER, WIDE]);
        assert!(open.methods[2..]
            .iter()
            .all(|&m| [INNER, SHORT].contains(&m)));
        for method in [OUTER, WIDE] {
            assert!(names.contains(&method), "{names:x?}");
        }
    });
    recorder.shutdown();
}
