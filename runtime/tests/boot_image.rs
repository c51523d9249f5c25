// SPDX-License-Identifier: Apache-2.0
//! What a process says about its boot image, and what the names that it writes are good for.

mod common;

use common::service::FakeService;
use common::workers::{Process, METHOD};
use common::{World, BOOT_IMAGE};
use hindsight_trace_format::container::Symbol;
use hindsight_trace_format::protocol::FromProcess;
use hindsight_trace_format::shared::{BootImage, BootNames, Naming};

#[test]
fn names_of_the_boot_image_are_of_use_to_another_process() {
    let world = World::default();
    let linked = (0..100).map(|n| Symbol {
        address: METHOD + 8 * n,
        class: format!("Class{}", n / 10),
        name: format!("m{n}"),
        ..Symbol::default()
    });
    world.linked.lock().unwrap().extend(linked);
    let (process, service) = Process::start_in(world, "trace=all,ring=16", FakeService::at);
    let (mut peer, _, _) = service.welcome(1, 0);
    let mut before = std::mem::take(&mut peer.notes).into_iter();
    while before
        .next()
        .or_else(|| peer.next_of_all())
        .expect("it lives")
        != FromProcess::Named
    {}
    let naming = Naming::read(peer.memory()).unwrap();
    assert_eq!((naming.image, naming.is_complete), (BOOT_IMAGE, true));
    let names = BootNames::learn(peer.memory(), 1 << 20).unwrap().unwrap();
    assert_eq!(names.methods(), 50, "the others are not in the image");
    let elsewhere = BootImage {
        begin: 0x5000_0000,
        ..BOOT_IMAGE
    };
    let at = 0x5000_0100 + 8 * 49;
    let (symbols, _) = names.symbols(&elsewhere, [at, at + 8].into_iter(), usize::MAX);
    let [symbol] = &symbols[..] else {
        panic!("{symbols:?}");
    };
    assert_eq!((symbol.address, symbol.name.as_str()), (at, "m49"));
    process.recorder.shutdown();
}
