// SPDX-License-Identifier: Apache-2.0
//! ART's own `.trace` files.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    if let Ok(trace) = hindsight_decoder::art_trace::parse("fuzz".as_ref(), data) {
        hindsight_fuzz::check(&trace.to_trace());
    }
});
