// SPDX-License-Identifier: Apache-2.0
//! A thread starts its own tracing on a real ART, by `dev.hindsight.Hindsight` and by Nanoscope's thread names.

use std::path::Path;

use hindsight_decoder::Trace;
use hindsight_lab::{Execution, Framework, Isa, Lab, Release, Variant};

const EXPECTED: &str = "\
before: false false
start: true true true
saved: true true
stop: true false false
odd name: true
odd name: true
odd name: true
named: a name true
stopped: a name false
";

/// The number of recorded calls of the method that the thread calls while it is traced.
fn calls(file: &Path) -> usize {
    let trace = Trace::open(file).unwrap();
    let calls = trace.threads.iter().flat_map(|t| t.calls.iter());
    calls
        .filter(|call| {
            let method = trace.methods.get(call.method);
            method.is_some_and(|m| m.class == "ApiTest" && m.name == "traced")
        })
        .count()
}

#[test]
#[ignore = "needs the lab: cargo xtask lab build"]
fn a_thread_asks_to_be_traced() {
    let lab = Lab::open(Release::Android10, Isa::X86_64, Variant::Hindsight).unwrap();
    let framework = Framework::build(&lab, &|_| ()).unwrap();
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/java/api");
    let app = framework.compile_app("api-test", &sources).unwrap();
    for execution in [Execution::Interpreter, Execution::Jit, Execution::Aot] {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().display();
        let output = framework
            .app_command(&app, "ApiTest", execution)
            .arg(folder.path())
            .env("HINDSIGHT", format!("dir={path},socket={path}/socket"))
            .output()
            .unwrap();
        assert_eq!(
            String::from_utf8_lossy(&output.stdout),
            EXPECTED,
            "{execution:?}: {}",
            String::from_utf8_lossy(&output.stderr)
        );
        for name in ["api", "named"] {
            let file = folder.path().join(format!("{name}.hindsight"));
            assert_eq!(calls(&file), 1, "{execution:?}: {name}");
        }
    }
}
