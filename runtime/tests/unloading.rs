// SPDX-License-Identifier: Apache-2.0
//! Methods whose class loader is unloaded while events of them are in a ring.

mod common;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use common::{FakeHost, Managed, World};
use hindsight_runtime::{Recorder, SnapshotOutcome};
use hindsight_trace_format::container::{Reader, Symbol};

const PATIENCE: Duration = Duration::from_secs(60);
const METHOD: u64 = 0x10_0000;
/// Another method of the loader, which is never called.
const UNUSED: u64 = 0x10_0040;

fn start(folder: &Path, more: &str) -> (Recorder, Arc<World>) {
    let world = Arc::new(World::default());
    let config = common::parse(&format!("trace=all,ring=12,dir={}{more}", folder.display()));
    let host = Box::new(FakeHost(Arc::clone(&world)));
    (Recorder::start(config.unwrap(), host).unwrap(), world)
}

/// Makes a loader with [`METHOD`] and [`UNUSED`], of this class.
fn load(world: &World, loader: usize, class: &str) {
    let symbol = |address: u64, name: &str| Symbol {
        address,
        class: class.into(),
        name: name.into(),
        ..Symbol::default()
    };
    let methods = vec![symbol(METHOD, "run"), symbol(UNUSED, "unused")];
    world.loaders.lock().unwrap().insert(loader, methods);
}

fn bytes(outcome: SnapshotOutcome) -> Vec<u8> {
    match outcome {
        SnapshotOutcome::Written(path) => std::fs::read(path).unwrap(),
        other => panic!("{other:?}"),
    }
}

/// The classes of the methods entered, oldest first, as a reader finds them.
fn classes(bytes: &[u8]) -> Vec<String> {
    let reader = Reader::new(bytes).unwrap();
    let symbols = reader.symbol_table().unwrap().unwrap();
    let ring = reader.ring(0).unwrap().unwrap();
    let mut classes: Vec<String> = ring
        .slots()
        .events()
        .filter_map(|e| {
            // These tests take less time than half a wrap of the counter.
            let ago = (ring.header.stopped_counter as u32).wrapping_sub(e.counter());
            let counter = ring.header.stopped_counter - u64::from(ago);
            let symbol = symbols.lookup(e.entered_method()?, counter);
            Some(symbol.map_or("?", |s| s.class).to_owned())
        })
        .collect();
    classes.reverse();
    classes
}

fn loss(bytes: &[u8], part: &str) -> Option<u64> {
    let losses = Reader::new(bytes).unwrap().losses().unwrap().counts;
    losses
        .iter()
        .find(|(what, _)| what.contains(part))
        .map(|(_, n)| *n)
}

#[test]
fn every_method_has_the_name_of_its_time() {
    let folder = tempfile::tempdir().unwrap();
    let (recorder, world) = start(folder.path(), "");
    let file = Managed::run(&recorder, &world, |thread| {
        for (loader, class) in [(1, "First"), (2, "Second")] {
            load(&world, loader, class);
            thread.enter(METHOD);
            thread.exit();
            thread.native(|| recorder.loader_unloading(loader));
        }
        // Now a live method has the address; the host names its class Test.
        thread.enter(METHOD);
        thread.native(|| bytes(recorder.snapshot("x".into(), 0, PATIENCE)))
    });
    assert_eq!(classes(&file), ["First", "Second", "Test"]);
    let names = Reader::new(&file).unwrap().symbols().unwrap().symbols;
    assert!(names.iter().all(|s| s.name != "unused"), "{names:?}");
    assert_eq!(loss(&file, "without a name"), None);
    assert_eq!(loss(&file, "loaders"), None);
}

#[test]
fn an_address_of_several_methods_has_neither_their_names_nor_former_ones() {
    let folder = tempfile::tempdir().unwrap();
    let (recorder, world) = start(folder.path(), "");
    let file = Managed::run(&recorder, &world, |thread| {
        load(&world, 1, "First");
        thread.enter(METHOD);
        thread.exit();
        thread.enter(UNUSED);
        thread.exit();
        thread.native(|| recorder.loader_unloading(1));
        thread.enter(METHOD);
        // A second method gets the address while the file is written.
        let other = Arc::clone(&world);
        *world.meanwhile.lock().unwrap() = Some(Box::new(move || {
            other.ambiguous.lock().unwrap().push(METHOD);
        }));
        thread.native(|| bytes(recorder.snapshot("x".into(), 0, PATIENCE)))
    });
    assert_eq!(classes(&file), ["?", "First", "?"]);
    assert_eq!(loss(&file, "without a name"), Some(1));
}

#[test]
fn a_loader_that_is_unloaded_during_the_shutdown_has_names_in_the_last_file() {
    let folder = tempfile::tempdir().unwrap();
    let (recorder, world) = start(folder.path(), ",snapshot-at-exit=yes");
    let recorder = Arc::new(recorder);
    Managed::run(&recorder, &world, |thread| {
        load(&world, 1, "First");
        thread.enter(METHOD);
        let unloading = Arc::clone(&recorder);
        *world.meanwhile.lock().unwrap() = Some(Box::new(move || {
            unloading.loader_unloading(1);
        }));
        thread.native(|| recorder.shutdown());
    });
    let files = common::snapshots(folder.path());
    let [file] = files.as_slice() else {
        panic!("{files:?}");
    };
    assert_eq!(classes(&std::fs::read(file).unwrap()), ["First"]);
}

#[test]
fn names_are_forgotten_when_no_ring_needs_them() {
    let folder = tempfile::tempdir().unwrap();
    let (recorder, world) = start(folder.path(), "");
    let files = Managed::run(&recorder, &world, |thread| {
        load(&world, 1, "First");
        // Classes with running methods are not unloaded.
        thread.enter(METHOD);
        thread.exit();
        thread.native(|| recorder.loader_unloading(1));
        let snapshot = || bytes(recorder.snapshot("x".into(), 0, PATIENCE));
        let first = thread.native(snapshot);
        thread.enter(METHOD);
        (first, thread.native(snapshot))
    });
    assert_eq!(classes(&files.0), ["First"]);
    // The second ring has no event from before the unloading, so only the live method is meant.
    assert_eq!(classes(&files.1), ["Test"]);
    let symbols = Reader::new(&files.1).unwrap().symbols().unwrap().symbols;
    assert_eq!(symbols.len(), 1, "{symbols:?}");
}

#[test]
fn a_loader_whose_methods_nobody_can_name_is_counted_if_there_are_rings() {
    let folder = tempfile::tempdir().unwrap();
    let (recorder, world) = start(folder.path(), "");
    recorder.loader_unloading(7);
    let file = Managed::run(&recorder, &world, |thread| {
        thread.native(|| recorder.loader_unloading(7));
        thread.native(|| bytes(recorder.snapshot("x".into(), 0, PATIENCE)))
    });
    assert_eq!(loss(&file, "loaders unloaded"), Some(1));
}
