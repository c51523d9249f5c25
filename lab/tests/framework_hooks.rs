// SPDX-License-Identifier: Apache-2.0
//! The hooks in classes of frameworks/base that the lab cannot run, because they need most of Android: they compile
//! against the original sources. Run with `--ignored` after `cargo xtask lab build`.

use std::path::Path;
use std::process::Command;

use hindsight_lab::{Isa, Lab, Parts, Release, Variant};

/// Classes with hooks, as files of frameworks/base.
const HOOKED: [&str; 4] = [
    "core/java/android/app/Activity.java",
    "core/java/android/os/Binder.java",
    "core/java/android/os/BinderProxy.java",
    "core/java/android/view/ViewRootImpl.java",
];

/// Hooks with an argument too many.
const WRONG_STEP: &str = "lifecycleEnd(TraceEvents.STOP, 0L, this)";
const WRONG_TRAVERSAL: &str = "traversalScheduled(this, 1)";

/// javac finds thousands of errors, as generated sources are missing. It goes on to check all statements: no error may be
/// at a hook, but for those that this test puts there.
#[test]
#[ignore = "needs the lab: cargo xtask lab build"]
fn hooks_compile_against_the_original_sources() {
    let lab = Lab::open_parts(
        Release::Android10,
        Isa::X86_64,
        Variant::Hindsight,
        Parts::Programs,
    )
    .unwrap();
    let originals = lab.source_dir("frameworks_base");
    let hooks = Path::new(env!("CARGO_MANIFEST_DIR")).join("../aosp/common/framework/java");
    let folder = tempfile::tempdir().unwrap();
    let mut files = Vec::new();
    let mut hook_lines = 0;
    for name in HOOKED {
        let mut text = std::fs::read_to_string(originals.join(name)).unwrap();
        hook_lines += text.lines().filter(|line| is_hook(line)).count();
        for (class, hook, wrong) in [
            (
                "Activity",
                "lifecycleEnd(TraceEvents.STOP, this)",
                WRONG_STEP,
            ),
            ("ViewRootImpl", "traversalScheduled(this)", WRONG_TRAVERSAL),
        ] {
            if name.ends_with(&format!("/{class}.java")) {
                let wrong = text.replace(hook, wrong);
                assert_ne!(wrong, text, "the patch is not there");
                text = wrong;
            }
        }
        let file = folder.path().join(Path::new(name).file_name().unwrap());
        std::fs::write(&file, text).unwrap();
        files.push(file);
    }
    assert_eq!(hook_lines, 21);

    let output = Command::new("javac")
        .args([
            "-nowarn",
            "-encoding",
            "UTF-8",
            "-source",
            "8",
            "-target",
            "8",
        ])
        .args(["-proc:none", "-implicit:none", "-Xmaxerrs", "1000000"])
        .args([
            "-XDshould-stop.ifError=FLOW",
            "-XDshould-stop.ifNoError=FLOW",
        ])
        .arg("-bootclasspath")
        .arg(lab.core_classes())
        .arg("-cp")
        .arg(folder.path())
        .arg("-sourcepath")
        .arg(format!(
            "{}:{}:{}",
            hooks.display(),
            originals.join("core/java").display(),
            originals.join("graphics/java").display()
        ))
        .arg("-d")
        .arg(folder.path())
        .args(&files)
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stderr);
    let lines: Vec<&str> = text.lines().collect();
    // "FILE:LINE: error: …", then the line itself.
    let mut errors: Vec<&str> = lines
        .windows(2)
        .filter(|pair| pair[0].contains(": error: ") && is_hook(pair[1]))
        .map(|pair| pair[1].trim())
        .collect();
    errors.sort_unstable();
    assert_eq!(
        errors,
        [
            format!("if (TraceEvents.frames) TraceEvents.{WRONG_TRAVERSAL};"),
            format!("if (TraceEvents.lifecycle) TraceEvents.{WRONG_STEP};"),
        ]
    );
}

fn is_hook(line: &str) -> bool {
    line.contains("TraceEvents.") && !line.contains("import ") || line.contains("traceId")
}
