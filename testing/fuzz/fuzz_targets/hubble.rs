// SPDX-License-Identifier: Apache-2.0
//! The published layout: four files in one input, separated by lines of '%%'.

#![no_main]

use hindsight_decoder::hubble::{parse, Files};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let mut parts = Vec::new();
    let mut rest = data;
    while let Some(at) = rest
        .windows(4)
        .position(|w| w == b"\n%%\n")
        .filter(|_| parts.len() < 3)
    {
        parts.push(&rest[..at + 1]);
        rest = &rest[at + 4..];
    }
    let part = |i: usize| parts.get(i).copied().unwrap_or_default();
    let files = Files {
        position: part(0),
        clocks: part(1),
        symbols: part(2),
        ring: rest,
    };
    if let Ok(trace) = parse("fuzz".as_ref(), files) {
        hindsight_fuzz::check(&trace);
    }
});
