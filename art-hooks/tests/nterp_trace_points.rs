// SPDX-License-Identifier: Apache-2.0
//! A build that leaves out no method has no call of the function that says which are left out.

use std::path::Path;
use std::process::Command;

const MACROS: &str = "hindsight/runtime/nterp_trace_points.S";
const ASKED: &str = "hindsight_is_left_out";

/// How often the trace points of nterp call the function.
fn calls(folder: &Path, isa: &str, options: &[&str]) -> usize {
    let compiler = std::env::var("CXX").unwrap_or("c++".into());
    let source = folder.join("nterp.S");
    std::fs::write(&source, format!("#include \"{MACROS}\"\n")).unwrap();
    let output = Command::new(compiler)
        .args(["-E", "-P", "-x", "assembler-with-cpp"])
        .args(["-U__x86_64__", "-U__aarch64__", "-U__arm__"])
        .arg(format!("-D{isa}"))
        .args(options)
        .arg("-I")
        .arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("include"))
        .arg(source)
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains(".macro TRACE_NTERP_EXIT"), "{text}");
    // Comments of assembly stay.
    let code = text.lines().filter(|line| !line.contains("//"));
    code.filter(|line| line.contains(ASKED)).count()
}

#[test]
fn nterp_asks_only_where_methods_may_be_left_out() {
    let folder = tempfile::tempdir().unwrap();
    for isa in ["__x86_64__", "__aarch64__", "__arm__"] {
        assert_eq!(calls(folder.path(), isa, &[]), 0, "{isa}: by default");
        for options in [
            "-DHINDSIGHT_LEAVES_OUT_TRIVIAL_METHODS=1",
            "-DHINDSIGHT_LAB",
        ] {
            assert_eq!(calls(folder.path(), isa, &[options]), 2, "{isa}: {options}");
        }
    }
}
