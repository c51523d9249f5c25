// SPDX-License-Identifier: Apache-2.0
//! R8's and ProGuard's `mapping.txt`, applied to methods with short names.

#![no_main]

use std::sync::OnceLock;

use hindsight_decoder::{Mapping, Trace};
use hindsight_testkit::Script;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    static TRACE: OnceLock<Trace> = OnceLock::new();
    let trace = TRACE.get_or_init(|| {
        let mut script = Script::new("p");
        let methods = ["a.a", "a.b", "a.b.a", "a.b$c.<init>", "b.a"];
        let signatures = ["()V", "(I)La/b;", "([[La/b;J)[I", "(", ""];
        let thread = script.thread(1, "main");
        for method in methods {
            for signature in signatures {
                let method = script.method(method, signature);
                script.at(thread, 1).call(method, 1);
            }
        }
        Trace::decode("fuzz".as_ref(), &script.encode()).expect("a sound file")
    });
    if let Ok(mapping) = Mapping::parse("fuzz".as_ref(), data) {
        let mut trace = trace.clone();
        trace.deobfuscate(&mapping);
        hindsight_fuzz::check(&trace);
    }
});
