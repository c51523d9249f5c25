// SPDX-License-Identifier: Apache-2.0
//! Edges that compile a source file, and the headers that are precompiled for them.

use super::state::Graph;
use crate::build::ninja::Edge;
use crate::spec::Flags;
use std::path::Path;

/// The headers of `lab/<release>/pch/`, each with the flags that it is precompiled for. Without them, parsing the
/// headers that nearly every file of ART includes is half of the work.
const PRECOMPILED: [(&str, Flags); 4] = [
    ("runtime", Flags::Art),
    ("compiler", Flags::Compiler),
    ("jvmti", Flags::Jvmti),
    ("test", Flags::Test),
];

/// The precompiled header for a source file of a target, if there is one.
///
/// Hindsight's own files have none, so that a missing `#include` fails here as it does in a build of Android. ART's
/// base libraries use few of these headers, and would be recompiled when any of them changed.
fn precompiled(target: &str, source: &str, flags: Flags) -> Option<&'static str> {
    let path = source.find("src/art/").map_or("", |at| &source[at..]);
    let own = match flags {
        Flags::Art => path.starts_with("src/art/runtime/"),
        // The disassembler has its own names for registers.
        Flags::Compiler => !path.starts_with("src/art/disassembler/"),
        // The JVMTI agent defines some of the runtime's constants again.
        Flags::Test => target.ends_with("/libarttest.so"),
        _ => true,
    };
    if !own {
        return None;
    }
    if source.starts_with("hindsight/") || !(path.ends_with(".cc") || path.ends_with(".cpp")) {
        return None;
    }
    PRECOMPILED
        .iter()
        .find(|(_, of)| *of == flags)
        .map(|(name, _)| *name)
}

impl Graph<'_> {
    pub(super) fn object(&mut self, target: &str, source: &str, flags: Flags) -> String {
        let name = Path::new(target)
            .file_name()
            .unwrap_or_default()
            .to_string_lossy();
        let short = source
            .trim_start_matches("src/")
            .trim_start_matches(&format!("{}/", self.out));
        let object = format!("{}/obj/{name}/{short}.o", self.out);
        let header = precompiled(target, source, flags).map(|name| {
            self.precompiled.insert(name);
            self.precompiled_header(name)
        });
        let order_only = match flags {
            Flags::Libcore | Flags::Fdlibm => Vec::new(),
            _ => vec![self.asm_defines()],
        };
        let (rule, mut flags) = match Path::new(source).extension().and_then(|e| e.to_str()) {
            Some("S") => ("cc", "$asm_art".to_owned()),
            Some("c") => ("cc", format!("$c_{}", flags.name())),
            _ => ("cxx", format!("$cxx_{}", flags.name())),
        };
        if let Some(header) = &header {
            flags.push_str(&format!(" -include-pch {header}"));
        }
        self.ninja.edge(&Edge {
            rule,
            outputs: vec![object.clone()],
            inputs: vec![source.to_owned()],
            implicit: header.into_iter().collect(),
            order_only,
            variables: vec![("flags", flags)],
        });
        object
    }

    /// Edges that precompile the headers that some file needs.
    pub(super) fn precompiled_headers(&mut self) {
        for (name, flags) in PRECOMPILED {
            if !self.precompiled.contains(name) {
                continue;
            }
            self.ninja.edge(&Edge {
                rule: "precompile",
                outputs: vec![self.precompiled_header(name)],
                inputs: vec![format!("{}/precompiled_{name}.h", self.spec.precompiled)],
                order_only: vec![self.asm_defines()],
                variables: vec![("flags", format!("$cxx_{}", flags.name()))],
                ..Edge::default()
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn precompiled_headers_are_for_the_files_that_include_them() {
        let header = |source, flags| precompiled("lib64/libany.so", source, flags);
        let test = "src/art/test/common/stack_inspect.cc";
        let of = |target| precompiled(target, test, Flags::Test);
        assert_eq!(of("nativetest64/libarttest.so"), Some("test"));
        assert_eq!(of("nativetest64/libtiagent.so"), None);
        assert_eq!(
            header("src/art/runtime/thread.cc", Flags::Art),
            Some("runtime")
        );
        let generated = "out/x86_64/gen/src/art/runtime/thread_state.h.operator_out.cc";
        assert_eq!(header(generated, Flags::Art), Some("runtime"));
        assert_eq!(
            header("src/art/dex2oat/dex2oat.cc", Flags::Compiler),
            Some("compiler")
        );
        for (source, flags) in [
            ("src/art/libartbase/base/bit_vector.cc", Flags::Art),
            (
                "src/art/runtime/arch/arm64/quick_entrypoints_arm64.S",
                Flags::Art,
            ),
            (
                "src/art/disassembler/disassembler_arm64.cc",
                Flags::Compiler,
            ),
            ("hindsight/art-hooks/cc/runtime/frames.cc", Flags::Art),
            (
                "src/libcore/luni/src/main/native/Register.cpp",
                Flags::Libcore,
            ),
        ] {
            assert_eq!(header(source, flags), None, "{source}");
        }
    }
}
