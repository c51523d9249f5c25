// SPDX-License-Identifier: Apache-2.0
//! Model checks of the table of stacks: threads add nodes, and generations change, in all interleavings.

use loom::sync::Arc;
use loom::thread;

use crate::models::protocols::check;
use crate::stacks::StackTable;

/// Bytes of a table of two generations of three nodes each.
const BYTES: usize = 2 * 64;

#[test]
fn model_two_threads_add_the_same_stack() {
    check(|| {
        let table = Arc::new(StackTable::new(BYTES));
        let add = |table: &StackTable| {
            let pin = table.pin().unwrap();
            let outer = pin.intern(0, 0x1000, 1)?;
            pin.intern(outer, 0x2000, 2)
        };
        let other = {
            let table = Arc::clone(&table);
            thread::spawn(move || add(&table))
        };
        let mine = add(&table);
        let others = other.join().unwrap();
        // Two nodes, and at most one that both threads wrote at the same time: all find room.
        assert!(mine.is_some() || others.is_some());
        if let (Some(mine), Some(others)) = (mine, others) {
            assert_eq!(mine, others);
        }
        let stacks = table.snapshot();
        let frames = stacks.generations[0].frames(mine.or(others).unwrap());
        let methods: Vec<u64> = frames.map(|f| f.method).collect();
        assert_eq!(methods, [0x2000, 0x1000]);
        // No two nodes are equal, but for numbers that were not used.
        let mut nodes = stacks.generations[0].nodes.clone();
        nodes.retain(|n| n.method != 0);
        nodes.sort_by_key(|n| n.method);
        let count = nodes.len();
        nodes.dedup();
        assert_eq!(count, nodes.len());
    });
}

#[test]
fn model_a_node_that_is_found_is_whole() {
    check(|| {
        let table = Arc::new(StackTable::new(BYTES));
        let writer = {
            let table = Arc::clone(&table);
            thread::spawn(move || {
                table.pin().unwrap().intern(0, 0x1000, 1);
            })
        };
        // If the index names the other thread's node before its contents are visible, this adds another one.
        let pin = table.pin().unwrap();
        let number = pin.intern(0, 0x1000, 1).unwrap();
        let node = pin.nodes()[number as usize - 1];
        assert_eq!((node.method, node.parent, node.dex_pc), (0x1000, 0, 1));
        writer.join().unwrap();
        assert_eq!(pin.intern(0, 0x1000, 1), Some(number));
    });
}

#[test]
fn model_a_generation_in_use_is_not_cleared() {
    check(|| {
        let table = Arc::new(StackTable::new(BYTES));
        // The memory of the first generation is to be cleared for the third one.
        let other = {
            let table = Arc::clone(&table);
            thread::spawn(move || {
                table.next_generation(1);
                table.next_generation(2)
            })
        };
        if let Some(pin) = table.pin() {
            let number = pin.intern(0, 0x1000, 1).unwrap();
            // Cleared in between, it would be added a second time, or be missing.
            assert_eq!(pin.intern(0, 0x1000, 1), Some(number));
            assert_eq!(pin.nodes()[number as usize - 1].method, 0x1000);
        }
        other.join().unwrap();
        let pin = table.pin().unwrap();
        assert!((2..=3).contains(&pin.generation()));
        assert!(pin.nodes().is_empty() || pin.generation() == 2 || pin.nodes().len() <= 1);
    });
}

#[test]
fn model_two_threads_find_the_same_generation_full() {
    check(|| {
        let table = Arc::new(StackTable::new(BYTES));
        let other = {
            let table = Arc::clone(&table);
            thread::spawn(move || table.next_generation(1))
        };
        let mine = table.next_generation(1);
        let others = other.join().unwrap();
        assert!(mine || others);
        assert_eq!(table.pin().unwrap().generation(), 2);
    });
}
