// SPDX-License-Identifier: Apache-2.0
//! Files of signatures (TOML), matched with a small trace.

#![no_main]

use std::sync::OnceLock;

use hindsight_decoder::Trace;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    static TRACE: OnceLock<Trace> = OnceLock::new();
    let trace = TRACE.get_or_init(|| {
        let mut script = hindsight_testkit::Script::new("p");
        let (f, g) = (
            script.method("a.b.C.f", "()V"),
            script.method("a.b.D.g", "()V"),
        );
        let thread = script.thread(1, "main");
        let mut recorder = script.at(thread, 1);
        for _ in 0..10 {
            recorder
                .enter(f)
                .enter(g)
                .after(1_000)
                .call(f, 5)
                .exit()
                .exit();
        }
        Trace::decode("fuzz".as_ref(), &script.encode()).expect("a sound file")
    });
    let Ok(text) = std::str::from_utf8(data) else {
        return;
    };
    if let Ok(signatures) = hindsight_analysis::parse_signatures("fuzz", text) {
        for signature in &signatures {
            let _ = signature.find(trace);
        }
    }
});
