// SPDX-License-Identifier: Apache-2.0
//! A process with code without trace points is not traced, on a real ART.

use std::path::Path;

use hindsight_lab::{Execution, Framework, Isa, Lab, Release, Variant};

#[test]
#[ignore = "needs the lab: cargo xtask lab build"]
fn a_process_that_compiles_code_without_trace_points_is_not_traced() {
    let lab = Lab::open(Release::Android10, Isa::X86_64, Variant::Hindsight).unwrap();
    let framework = Framework::build(&lab, &|_| ()).unwrap();
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/java/api");
    let app = framework.compile_app("api-test", &sources).unwrap();
    for (form, is_traced) in [("shared", true), ("none", false)] {
        let folder = tempfile::tempdir().unwrap();
        let output = framework
            .app_command(&app, "ApiTest", Execution::Jit)
            .arg(folder.path())
            .env("HINDSIGHT_TRACE_POINTS", form)
            .env(
                "HINDSIGHT",
                format!("trace=main,dir={}", folder.path().display()),
            )
            .output()
            .unwrap();
        let text = String::from_utf8_lossy(&output.stdout);
        assert_eq!(text.contains("saved: true"), is_traced, "{form}: {text}");
        let log = String::from_utf8_lossy(&output.stderr);
        assert_eq!(
            log.contains("not tracing: HINDSIGHT_TRACE_POINTS=none"),
            !is_traced,
            "{form}: {log}"
        );
    }
}
