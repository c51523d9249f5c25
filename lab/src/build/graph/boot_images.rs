// SPDX-License-Identifier: Apache-2.0
//! Edges that compile the boot images of the core jars.

use super::state::{targets, Graph};
use crate::boot_image::image_options;
use crate::build::ninja::Edge;
use crate::spec::Isa;

impl Graph<'_> {
    /// `core.art`, compiled, and `core-interpreter.art`, for the interpreter.
    pub(super) fn boot_images(&mut self) {
        let root = format!("{}/root", self.out);
        let isa = self.isa.name();
        let jars: Vec<String> = self
            .spec
            .core_jars()
            .iter()
            .map(|jar| format!("{root}/framework/{jar}"))
            .collect();
        if jars.is_empty() {
            return;
        }
        // This machine's dex2oat compiles for all instruction sets.
        let native = format!("out/{}/root", Isa::X86_64.name());
        let programs: Vec<String> = targets(self.spec, Isa::X86_64, self.variant)
            .filter(|target| !self.spec.tests_only.contains(&target.output))
            .map(|target| format!("{native}/{}", target.output))
            .collect();
        let libraries = Isa::X86_64.android_libraries();
        let mut options = Vec::new();
        // dex2oat opens the jars by absolute paths, and records locations relative to the top.
        let absolute: Vec<String> = jars.iter().map(|jar| format!("$$PWD/{jar}")).collect();
        options.push(format!(
            "--runtime-arg -Xbootclasspath:{}",
            absolute.join(":")
        ));
        options.push(format!(
            "--runtime-arg -Xbootclasspath-locations:{}",
            jars.join(":")
        ));
        for jar in &jars {
            options.push(format!("--dex-file=$$PWD/{jar} --dex-location={jar}"));
        }
        let classes = self.spec.image_classes.iter();
        options.extend(classes.map(|list| format!("--image-classes={list}")));
        options.extend(image_options(self.isa, &format!("$$PWD/{root}"), "$filter"));
        let work = format!("{}/boot/$name", self.out);
        let modules: Vec<String> = self
            .spec
            .modules
            .iter()
            .map(|(variable, module)| format!("{variable}=$$PWD/{root}/{module} "))
            .collect();
        let command = format!(
            "rm -rf {work} && mkdir -p {work} {root}/framework/{isa} && \
             ANDROID_ROOT=$$PWD/{root} ANDROID_DATA=$$PWD/data \
             {}ANDROID_LOG_TAGS='*:e' \
             LD_LIBRARY_PATH=$$PWD/{native}/lib64:{libraries} \
             {native}/bin/dex2oat {} --image={work}/$name.art --oat-file={work}/$name.oat && \
             mv -f {work}/* {root}/framework/{isa}/",
            modules.concat(),
            options.join(" "),
        );
        self.ninja.rule(
            "boot_image",
            &command,
            &[("description", "boot image $out")],
        );
        for (name, filter) in [("core", "speed"), ("core-interpreter", "quicken")] {
            self.ninja.edge(&Edge {
                rule: "boot_image",
                outputs: vec![format!("{root}/framework/{isa}/{name}.art")],
                inputs: jars.clone(),
                implicit: programs.clone(),
                variables: vec![("name", name.to_owned()), ("filter", filter.to_owned())],
                ..Edge::default()
            });
        }
    }
}
