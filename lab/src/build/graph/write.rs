// SPDX-License-Identifier: Apache-2.0
//! Writes the graph: all its edges, in order.

use super::state::{targets, Graph};
use crate::build::ninja::{Edge, Writer};
use crate::build::sanitize;
use crate::error::Result;
use crate::layout::Folders;
use crate::spec::{Flags, Isa, Kind, Target, Variant};
use crate::toolchain::sysroot;
use hindsight_blueprint::{Tree, Variation};
use std::collections::BTreeSet;
use std::path::Path;

/// A target's output below `root/`, where 32-bit systems name folders differently.
fn output(isa: Isa, target: &Target) -> String {
    match target.output.split_once('/') {
        Some(("lib64", name)) => format!("{}/{name}", isa.library_dir()),
        Some(("nativetest64", name)) => format!("{}/{name}", isa.native_test_dir()),
        _ => target.output.to_owned(),
    }
}

/// The name of an instruction set's graph in the variant's folder.
pub(crate) fn file_name(isa: Isa) -> String {
    match isa {
        Isa::X86_64 => "build.ninja".to_owned(),
        _ => format!("build-{}.ninja", isa.name()),
    }
}

/// The graph's target for [`Parts::Programs`](crate::spec::Parts).
pub(crate) const PROGRAMS: &str = "programs";

/// A shared library that leaves nothing undefined.
const CLOSED: &str = "-Wl,--no-undefined";

/// The linker's option for libraries without undefined symbols. Test libraries may refer to symbols of the agent or
/// runtime that loads them.
fn closed(target: &Target, variant: Variant) -> &'static str {
    match target.kind {
        // The program defines the sanitizer's functions.
        _ if variant.is_sanitized() => "",
        Kind::Shared if !target.output.starts_with("nativetest64/") => CLOSED,
        _ => "",
    }
}

/// Writes the graph of a variant whose sources are in place.
pub(crate) fn write(
    folders: &Folders,
    isa: Isa,
    variant: Variant,
    hooks: Option<&str>,
) -> Result<String> {
    let spec = folders.spec;
    let dir = folders.variant(variant);
    let out = format!("out/{}", isa.name());
    let mut tree = Tree::new();
    for file in spec.blueprints {
        tree.load(&dir, Path::new(file))?;
    }
    let variation = Variation {
        arch: vec![isa.name().to_owned()],
        target: ["host", "linux", "linux_glibc", "not_windows"]
            .map(str::to_owned)
            .to_vec(),
        codegen: (spec.code_generators)(isa)
            .iter()
            .map(|&isa| isa.to_owned())
            .collect(),
        linkage: None,
    };
    let mut graph = Graph {
        spec,
        dir: &dir,
        out,
        isa,
        variant,
        hooks,
        tree,
        variation,
        precompiled: BTreeSet::new(),
        ninja: Writer::default(),
    };
    graph.ninja = Writer::new(&graph.out);
    graph.rules();
    graph.generated()?;
    for target in targets(spec, isa, variant) {
        graph.target(target)?;
    }
    graph.precompiled_headers();
    graph.boot_images();
    graph.programs();
    Ok(graph.ninja.finish())
}

impl Graph<'_> {
    /// The target [`PROGRAMS`]: the libraries and programs that are not only for tests, and the boot image.
    fn programs(&mut self) {
        let root = format!("{}/root", self.out);
        let mut inputs: Vec<String> = targets(self.spec, self.isa, self.variant)
            .filter(|target| !self.spec.tests_only.contains(&target.output))
            .map(|target| format!("{root}/{}", output(self.isa, target)))
            .collect();
        if !self.spec.core_jars().is_empty() {
            inputs.push(format!("{root}/framework/{}/core.art", self.isa.name()));
        }
        self.ninja.edge(&Edge {
            rule: "phony",
            outputs: vec![PROGRAMS.to_owned()],
            inputs,
            ..Edge::default()
        });
    }

    /// The objects of a library or program, and the step that links them.
    fn target(&mut self, target: &Target) -> Result<()> {
        let mut objects = Vec::new();
        for &(from, flags) in target.parts {
            for source in self.sources(from)? {
                objects.push(self.object(target.output, &source, flags));
            }
        }
        let is_program = matches!(target.kind, Kind::Program);
        if is_program && self.variant.is_sanitized() {
            objects.push(self.object(target.output, sanitize::OPTIONS, Flags::Art));
        }
        let libraries = format!("{}/root/{}", self.out, self.isa.library_dir());
        let mut libs = Vec::new();
        let mut implicit: Vec<String> = Vec::new();
        if let Some(hooks) = self.hooks.filter(|_| target.output == "lib64/libart.so") {
            // All of it: libart-compiler uses functions that libart itself doesn't.
            libs.push(format!(
                "-Wl,--whole-archive {hooks} -Wl,--no-whole-archive"
            ));
            implicit.push(hooks.to_owned());
        }
        for name in target.uses {
            libs.push(format!("-l{name}"));
            implicit.push(format!("{libraries}/lib{name}.so"));
        }
        let name = target.output.rsplit('/').next().unwrap_or(target.output);
        let android = self.isa.android_libraries();
        let ldflags = format!(
            "-L{libraries} -L{}{android} -Wl,-rpath,'$$ORIGIN/../{}' \
             -Wl,-rpath,{android} {} {} {}",
            sysroot(self.spec, self.isa),
            self.isa.library_dir(),
            libs.join(" "),
            target.libs,
            closed(target, self.variant),
        );
        let output = format!("{}/root/{}", self.out, output(self.isa, target));
        self.ninja.edge(&Edge {
            rule: if is_program { "program" } else { "shared" },
            outputs: vec![output.clone()],
            inputs: objects,
            implicit,
            variables: vec![("soname", name.to_owned()), ("ldflags", ldflags)],
            ..Edge::default()
        });
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec::Release;

    /// The graph of a variant whose sources the lab has unpacked.
    fn graph(isa: Isa, variant: Variant, hooks: Option<&str>) -> Option<String> {
        let folders = Folders::new(Release::Android10).ok()?;
        let sources = folders.variant(variant).join("src/art/runtime/Android.bp");
        if !sources.exists() {
            eprintln!("skipped: {} is not there", sources.display());
            return None;
        }
        let text = write(&folders, isa, variant, hooks).unwrap();
        let cache = folders.cache.display().to_string();
        assert!(!text.contains(&cache), "an absolute path of the cache");
        Some(text)
    }

    fn compile_commands(text: &str) -> Vec<&str> {
        text.lines()
            .filter(|line| {
                ["cxx_", "c_", "asm_", "  command = "]
                    .iter()
                    .any(|start| line.starts_with(start))
            })
            .collect()
    }

    #[test]
    fn both_variants_run_the_same_compile_commands() {
        for isa in Isa::ALL {
            let Some(stock) = graph(isa, Variant::Stock, None) else {
                return;
            };
            let Some(patched) = graph(isa, Variant::Hindsight, Some("hooks.a")) else {
                return;
            };
            assert!(compile_commands(&stock).len() > 20);
            assert_eq!(compile_commands(&stock), compile_commands(&patched));
            assert!(patched.contains("hindsight/art-hooks/cc/runtime/lifecycle.cc"));
            assert!(!stock.contains("art-hooks/cc/"));
        }
    }

    #[test]
    fn other_instruction_sets_are_cross_compiled() {
        for (isa, library, target) in [
            (Isa::Arm64, "lib64/libart.so", "--target=aarch64-linux-gnu"),
            (Isa::Arm, "lib/libart.so", "--target=arm-linux-gnueabihf"),
        ] {
            let Some(text) = graph(isa, Variant::Stock, None) else {
                return;
            };
            let name = isa.name();
            for expected in [
                format!("build out/{name}/root/{library}: shared"),
                format!("out/{name}/gen/mterp_{name}.S"),
                format!("out/{name}/pch/runtime.pch"),
                // The boot image is compiled by this machine's dex2oat.
                " out/x86_64/root/bin/dex2oat --runtime-arg".to_owned(),
                format!("--instruction-set={name} --instruction-set-features=default"),
            ] {
                assert!(text.contains(&expected), "{expected}");
            }
            for unexpected in [
                "-msse4.2".to_owned(),
                "code_generator_x86".to_owned(),
                " -I/usr/include".to_owned(),
                format!("build out/{name}/root/bin/dex2oat"),
            ] {
                assert!(!text.contains(&unexpected), "{unexpected}");
            }
            // Every step that compiles or links C or C++.
            let here = format!("{target} --sysroot=sysroots/{name}");
            for line in compile_commands(&text) {
                let variable = ["cxx_", "c_", "asm_"]
                    .iter()
                    .any(|start| line.starts_with(start));
                let links = line.contains("-fuse-ld");
                if variable || links {
                    assert!(line.contains(&here), "{line}");
                }
            }
        }
    }

    /// The inputs of the edge that has this output.
    fn inputs<'a>(text: &'a str, output: &str) -> Vec<&'a str> {
        let start = format!("build {output}: ");
        let line = text.lines().find_map(|line| line.strip_prefix(&start));
        let words = line.unwrap_or_else(|| panic!("no edge for {output}"));
        words.split(' ').skip(1).collect()
    }

    #[test]
    fn what_runs_programs_is_a_target_of_its_own() {
        for isa in Isa::ALL {
            let Some(text) = graph(isa, Variant::Hindsight, Some("hooks.a")) else {
                return;
            };
            let root = format!("out/{}/root", isa.name());
            let programs = inputs(&text, PROGRAMS);
            let library = |name: &str| format!("{root}/{}/{name}.so", isa.library_dir());
            for wanted in [
                library("libart"),
                library("libart-compiler"),
                library("libopenjdk"),
                format!("{root}/bin/dalvikvm"),
                format!("{root}/framework/{}/core.art", isa.name()),
            ] {
                assert!(programs.contains(&wanted.as_str()), "{wanted}");
            }
            let tools = ["oatdump", "jvmti", "nativetest", "core-interpreter"];
            for unwanted in tools {
                let of = programs.iter().find(|path| path.contains(unwanted));
                assert_eq!(of, None, "{}", isa.name());
            }
            // A boot image does not wait for them either.
            let image = inputs(&text, &format!("{root}/framework/{}/core.art", isa.name()));
            assert!(image.contains(&"out/x86_64/root/bin/dex2oat"));
            assert!(!image.iter().any(|path| path.contains("oatdump")));
        }
    }

    #[test]
    fn generated_and_selected_sources_are_in_the_graph() {
        let Some(text) = graph(Isa::X86_64, Variant::Stock, None) else {
            return;
        };
        for expected in [
            "out/x86_64/gen/mterp_x86_64.S",
            "out/x86_64/gen/src/art/runtime/thread_state.h.operator_out.cc",
            "src/art/compiler/optimizing/code_generator_arm64.cc",
            "src/art/compiler/optimizing/code_generator_arm_vixl.cc",
            "src/art/sigchainlib/sigchain.cc",
            "build out/x86_64/root/nativetest64/libnativebridgetest.so:",
        ] {
            assert!(text.contains(expected), "{expected}");
        }
        for unexpected in [
            "code_generator_mips",
            "source_transform_slicer",
            "palette_android",
        ] {
            assert!(!text.contains(unexpected), "{unexpected}");
        }
    }
}
