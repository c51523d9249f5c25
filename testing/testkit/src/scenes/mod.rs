// SPDX-License-Identifier: Apache-2.0
//! Scenes for golden tests: each is the same in every run.
//!
//! [`stall`] is the ideal one: whole rings, unique thread ids, every thread traced. The others each take one of these
//! away, as real traces do.

mod events;
mod imperfect;
mod notes;
mod server;
mod taps;
mod transaction;

pub use events::events_only;
pub use imperfect::{
    cpu_bound, cut_file, damaged_ring, lock_chain, many_short_messages, no_stall, repeated_tid,
    untraced_owner, wrapped,
};
pub use notes::{recorded_owner, stall, STALL_NS};
pub use server::server;
pub use taps::taps;
pub use transaction::transaction;

use crate::Script;

/// A function that makes the bytes of a scene's file.
pub type Scene = fn() -> Vec<u8>;

/// All scenes, by name.
pub const SCENES: [(&str, Scene); 14] = [
    ("stall", || stall().encode()),
    ("recorded-owner", || recorded_owner().encode()),
    ("wrapped", || wrapped().encode()),
    ("untraced-owner", || untraced_owner().encode()),
    ("repeated-tid", || repeated_tid().encode()),
    ("no-stall", || no_stall().encode()),
    ("cpu-bound", || cpu_bound().encode()),
    ("many-short-messages", || many_short_messages().encode()),
    ("lock-chain", || lock_chain().encode()),
    ("damaged-ring", damaged_ring),
    ("cut-file", cut_file),
    ("events-only", || events_only().encode()),
    ("transaction", || transaction().encode()),
    ("busy", || busy(18, 2, 500, 40).encode()),
];

/// One thread that fills a ring of `2^ring_log2_bytes` bytes `laps` times with calls like in a
/// real program: `methods` methods, up to `max_depth` deep, 12 ns and more apart. For measurements.
pub fn busy(ring_log2_bytes: u32, laps: u64, methods: u32, max_depth: u32) -> Script {
    let mut s = Script::new("com.example.busy");
    s.ring_log2_bytes(ring_log2_bytes);
    let addresses: Vec<u64> = (0..methods)
        .map(|i| {
            s.method(
                &format!("com.example.busy.Class{}.method{i}", i / 12),
                "()V",
            )
        })
        .collect();
    let thread = s.thread(300, "main");
    let mut r = s.at(thread, 0);
    // xorshift64: the same trace each time.
    let mut random = 0x9e37_79b9_7f4a_7c15_u64;
    let mut depth = 0;
    for _ in 0..laps * ((1 << ring_log2_bytes) / 8) {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        r.after(12 + (random >> 32) % 64);
        let enter = depth == 0 || (depth < max_depth && random & 1 == 0);
        if enter {
            // Few methods are called often, as in real programs.
            let skewed = (random >> 8) % u64::from(methods);
            let skewed = skewed * ((random >> 40) % u64::from(methods)) / u64::from(methods);
            r.enter(addresses[skewed as usize]);
            depth += 1;
        } else {
            r.exit();
            depth -= 1;
        }
    }
    s
}
