// SPDX-License-Identifier: Apache-2.0
//! Nanoscope's text.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    if let Ok(trace) = hindsight_decoder::nanoscope::parse("fuzz".as_ref(), data) {
        hindsight_fuzz::check(&trace);
    }
});
