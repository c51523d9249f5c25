// SPDX-License-Identifier: Apache-2.0
//! The source files of a target, and the edges that generate some of them.

use super::state::Graph;
use crate::build::ninja::Edge;
use crate::error::{Error, Result};
use crate::spec::{Isa, Origin, Spec};
use crate::util::read;
use hindsight_blueprint::{Source, Value};
use std::path::Path;

impl Graph<'_> {
    /// Edges for the files that all of ART includes or links: `asm_defines.h` and the interpreters.
    pub(super) fn generated(&mut self) -> Result<()> {
        let text = format!("{}/gen/asm_defines.s", self.out);
        let header = self.asm_defines();
        self.ninja.edge(&Edge {
            rule: "asm_text",
            outputs: vec![text.clone()],
            inputs: vec!["src/art/tools/cpp-define-generator/asm_defines.cc".to_owned()],
            variables: vec![("flags", "$cxx_art".to_owned())],
            ..Edge::default()
        });
        self.ninja.edge(&Edge {
            rule: "asm_header",
            outputs: vec![header],
            inputs: vec![text],
            implicit: vec!["src/art/tools/cpp-define-generator/make_header.py".to_owned()],
            ..Edge::default()
        });
        for interpreter in (self.spec.interpreters)(self.isa) {
            let mut inputs = Vec::new();
            for name in interpreter.inputs {
                let path = format!("src/art/runtime/interpreter/mterp/{name}");
                if name.ends_with(".S") {
                    inputs.push(path);
                } else {
                    inputs.extend(files_in(self.dir, &path, "S")?);
                }
            }
            self.ninja.edge(&Edge {
                rule: "mterp",
                outputs: vec![self.interpreter(interpreter)],
                inputs,
                implicit: vec!["src/art/runtime/interpreter/mterp/gen_mterp.py".to_owned()],
                ..Edge::default()
            });
        }
        Ok(())
    }

    /// The source files of a part. Writes the edges that generate some of them.
    pub(super) fn sources(&mut self, from: Origin) -> Result<Vec<String>> {
        let module = match from {
            Origin::Only(isa, _) if isa != self.isa => return Ok(Vec::new()),
            Origin::Files(files) | Origin::Only(_, files) => {
                return Ok(files.iter().map(|&file| file.to_owned()).collect())
            }
            Origin::Folder(folder, extension) => return files_in(self.dir, folder, extension),
            Origin::Generated(file) => return Ok(vec![format!("{}/{file}", self.out)]),
            Origin::Hooks(_) if self.hooks.is_none() => return Ok(Vec::new()),
            Origin::Hooks(folder) => {
                let folder = format!("hindsight/art-hooks/cc/{folder}");
                let mut files = files_in(self.dir, &folder, "cc")?;
                files.retain(|file| !is_for_other_code_generator(self.spec, file, self.isa));
                let assembly = format!("{folder}/arch/{}", self.isa.name());
                if self.dir.join(&assembly).is_dir() {
                    files.extend(files_in(self.dir, &assembly, "S")?);
                }
                return Ok(files);
            }
            Origin::Module(module) => module,
        };
        let mut files = Vec::new();
        for source in self.tree.sources(module, &self.variation)? {
            match source {
                Source::File(path) => {
                    let path = path.display().to_string();
                    if !self.needs_slicer(&path)? {
                        files.push(path);
                    }
                }
                Source::Output(name) => {
                    let interpreters = (self.spec.interpreters)(self.isa);
                    match interpreters.iter().find(|made| made.module == name) {
                        Some(interpreter) => files.push(self.interpreter(interpreter)),
                        None => {
                            return Err(Error::Other(format!(
                                "module `{module}` needs the output of `{name}`, which the lab \
                                 can't generate"
                            )))
                        }
                    }
                }
            }
        }
        for generator in self
            .tree
            .strings(module, "generated_sources", &self.variation)?
        {
            files.extend(self.operator_outs(&generator)?);
        }
        if files.is_empty() {
            return Err(Error::Other(format!("module `{module}` has no sources")));
        }
        Ok(files)
    }

    /// Whether a test includes dexter's slicer, which Debian doesn't package.
    fn needs_slicer(&self, path: &str) -> Result<bool> {
        Ok(path.starts_with("src/art/test/") && read(&self.dir.join(path))?.contains("\"slicer/"))
    }

    /// The `operator<<` of enumerations: one generated file for each header.
    fn operator_outs(&mut self, module: &str) -> Result<Vec<String>> {
        if self.tree.module(module).is_none_or(|m| m.kind != "gensrcs") {
            return Err(Error::Other(format!(
                "`{module}` is not a gensrcs module of the loaded files"
            )));
        }
        let dir = self
            .tree
            .dir(module)
            .unwrap_or(Path::new(""))
            .display()
            .to_string();
        let extension = match self
            .tree
            .module(module)
            .and_then(|m| m.properties.get("output_extension"))
        {
            Some(Value::String(extension)) => extension.clone(),
            _ => "operator_out.cc".to_owned(),
        };
        let mut outputs = Vec::new();
        for source in self.tree.sources(module, &self.variation)? {
            let Source::File(header) = source else {
                continue;
            };
            let header = header.display().to_string();
            // Enumerations of instruction sets that no code is generated for.
            if header.contains("mips") {
                continue;
            }
            let output = format!("{}/gen/{header}.{extension}", self.out);
            self.ninja.edge(&Edge {
                rule: "operator_out",
                outputs: vec![output.clone()],
                inputs: vec![header],
                implicit: vec!["src/art/tools/generate_operator_out.py".to_owned()],
                variables: vec![("dir", dir.clone())],
                ..Edge::default()
            });
            outputs.push(output);
        }
        Ok(outputs)
    }
}

/// Whether a file of art-hooks lowers nodes for an instruction set whose code generator is not compiled.
fn is_for_other_code_generator(spec: &Spec, file: &str, isa: Isa) -> bool {
    let lowered = Path::new(file)
        .file_stem()
        .and_then(|stem| stem.to_str())
        .and_then(|stem| stem.strip_prefix("trace_lowering_"));
    lowered.is_some_and(|name| {
        (spec.code_generators)(Isa::X86_64).contains(&name)
            && !(spec.code_generators)(isa).contains(&name)
    })
}

/// The files of a folder with this extension, sorted.
fn files_in(dir: &Path, folder: &str, extension: &str) -> Result<Vec<String>> {
    let path = dir.join(folder);
    let mut files = Vec::new();
    let entries = std::fs::read_dir(&path).map_err(|source| Error::Io {
        what: "list",
        path: path.clone(),
        source,
    })?;
    for entry in entries.flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        if Path::new(&name).extension().is_some_and(|e| e == extension) {
            files.push(format!("{folder}/{name}"));
        }
    }
    files.sort();
    Ok(files)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec::Release;

    #[test]
    fn nodes_are_lowered_only_for_code_generators_that_are_there() {
        let file = |isa: &str| format!("hindsight/art-hooks/cc/compiler/trace_lowering_{isa}.cc");
        let spec = Release::Android10.spec();
        let left_out = |isa| {
            ["arm", "arm64", "x86_64", "unsupported"]
                .into_iter()
                .filter(|name| is_for_other_code_generator(spec, &file(name), isa))
                .collect::<Vec<_>>()
        };
        assert_eq!(left_out(Isa::X86_64), [""; 0]);
        assert_eq!(left_out(Isa::Arm64), ["arm", "x86_64"]);
        assert_eq!(left_out(Isa::Arm), ["arm64", "x86_64"]);
    }
}
