// SPDX-License-Identifier: Apache-2.0
//! The Ninja graph of the native part.
//!
//! Which files a library consists of is read from the `Android.bp` files. What they don't say
//! outside Soong (flags, include folders, Debian's names of libraries) is in the tables of each
//! release ([`crate::release`]).
//!
//! All paths are relative to the variant's folder, so that both variants run the same commands
//! and share the compiler cache.

use crate::ninja::{Edge, Writer};
use crate::paths::{Folders, Isa, Variant};
use crate::release::{Interpreter, Spec};
use crate::{sanitize, Error, Result};
use hindsight_blueprint::{Source, Tree, Value, Variation};
use std::collections::BTreeSet;
use std::path::Path;

/// Machine and code flags of C, C++ and assembly. ART's sources are not ours to warn about.
fn common(spec: &Spec, isa: Isa) -> String {
    let target = target_flags(spec, isa);
    let machine = match isa {
        Isa::X86_64 if target.is_empty() => "-msse4.2 -mpopcnt".to_owned(),
        Isa::X86_64 => format!("{target} -msse4.2 -mpopcnt"),
        _ => target,
    };
    format!("-fPIC -fno-omit-frame-pointer -fno-strict-aliasing {machine} -w -pthread")
}

/// What tells the compiler that it compiles for another machine; every step needs it.
fn target_flags(spec: &Spec, isa: Isa) -> String {
    let sysroot = sysroot(spec, isa);
    let machine = match isa {
        Isa::X86_64 if sysroot.is_empty() => return String::new(),
        Isa::X86_64 => "",
        Isa::Arm64 => " -march=armv8-a",
        Isa::Arm => " -march=armv7-a -mfpu=neon -mfloat-abi=hard -mthumb",
    };
    format!("--target={} --sysroot={sysroot}{machine}", isa.triple())
}

/// The same for a compiler that runs in another folder than the variant's.
pub(crate) fn target_flags_at(spec: &Spec, isa: Isa, dir: &Path) -> String {
    let flags = target_flags(spec, isa);
    if flags.is_empty() {
        return flags;
    }
    let here = dir.join(sysroot(spec, isa)).display().to_string();
    flags.replace(&sysroot(spec, isa), &here)
}

/// Where another architecture's or suite's libraries and headers are, relative to the variant's folder;
/// empty for this machine's.
fn sysroot(spec: &Spec, isa: Isa) -> String {
    if isa.is_native() && !spec.native_sysroot {
        String::new()
    } else {
        format!("sysroots/{}", isa.name())
    }
}

/// How native methods are compiled where ART's calls to them are not what the compiler would expect.
fn native_method_flags(spec: &Spec, isa: Isa) -> String {
    match isa {
        Isa::Arm => format!(" -include {}/jnicall.h", spec.shim),
        _ => String::new(),
    }
}

/// A set of compiler flags.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Flags {
    /// ART itself.
    Art,
    /// The one file that includes libcore's headers by their way from ART's own folder.
    OpenJdkJvm,
    /// What uses VIXL and the compiler's headers.
    Compiler,
    /// JVMTI.
    Jvmti,
    /// Parts of system/core in libart: their functions are exported.
    System,
    /// The native parts of the run-tests, which use RTTI and are looked up by name.
    Test,
    /// libcore.
    Libcore,
    /// fdlibm, whose results must be those of strict IEEE arithmetic.
    Fdlibm,
}

impl Flags {
    const ALL: [Flags; 8] = [
        Flags::Art,
        Flags::OpenJdkJvm,
        Flags::Compiler,
        Flags::Jvmti,
        Flags::System,
        Flags::Test,
        Flags::Libcore,
        Flags::Fdlibm,
    ];

    fn name(self) -> &'static str {
        match self {
            Flags::Art => "art",
            Flags::OpenJdkJvm => "openjdkjvm",
            Flags::Compiler => "compiler",
            Flags::Jvmti => "jvmti",
            Flags::System => "system",
            Flags::Test => "test",
            Flags::Libcore => "libcore",
            Flags::Fdlibm => "fdlibm",
        }
    }

    fn cxx(self, spec: &Spec, isa: Isa, out: &str) -> String {
        let art = |visibility: &str, extra: &str, more: &[&str]| {
            format!(
                "-std={} {} {visibility} {} {} {} {} {} {extra}",
                spec.cxx_standard,
                spec.optimization,
                common(spec, isa),
                spec.art_defines,
                code_generator_defines(spec, isa),
                includes(spec, spec.includes.art, isa, out),
                includes(spec, more, isa, out),
            )
        };
        let protected = "-fno-rtti -fvisibility=protected";
        let natives = native_method_flags(spec, isa);
        match self {
            Flags::Art => art(protected, natives.trim_start(), &[]),
            Flags::OpenJdkJvm => art(
                protected,
                natives.trim_start(),
                spec.includes.beside_libcore,
            ),
            Flags::Compiler => art(protected, (spec.vixl_defines)(isa), spec.includes.compiler),
            Flags::Jvmti => art(protected, "", spec.includes.jvmti),
            Flags::System => art("-fno-rtti", "", &[]),
            Flags::Test => art(
                "",
                &format!("{}{natives}", spec.test_forced_includes),
                spec.includes.jvmti,
            ),
            Flags::Libcore => {
                let target = target_flags(spec, isa);
                let gap = if target.is_empty() { "" } else { " " };
                format!(
                    "-std={} -O2{gap}{target} -fPIC -w -pthread -DU_USING_ICU_NAMESPACE=0 \
                     -DNDEBUG {LIBCORE_DEFINES} {}{natives}",
                    spec.cxx_standard,
                    includes(spec, spec.includes.libcore, isa, out),
                )
            }
            // The functions that OpenJDK has in Java are translated to C++.
            Flags::Fdlibm => format!("-std={} {}", spec.cxx_standard, fdlibm_flags(spec, isa)),
        }
    }

    fn c(self, spec: &Spec, isa: Isa, out: &str) -> String {
        match self {
            Flags::Libcore => c_standard(&self.cxx(spec, isa, out), spec),
            Flags::Fdlibm => {
                format!(
                    "-std=gnu11 {} -Isrc/fdlibm/src/java.base/share/native/libfdlibm",
                    fdlibm_flags(spec, isa)
                )
            }
            _ => c_standard(&self.cxx(spec, isa, out), spec).replace("-fno-rtti ", ""),
        }
    }

    fn assembly(self, spec: &Spec, isa: Isa, out: &str) -> String {
        format!(
            "{} {} {} {}",
            common(spec, isa),
            spec.art_defines,
            code_generator_defines(spec, isa),
            includes(spec, spec.includes.art, isa, out)
        )
    }
}

/// C++ flags for C.
fn c_standard(flags: &str, spec: &Spec) -> String {
    flags.replace(&format!("-std={}", spec.cxx_standard), "-std=gnu11")
}

/// The headers of `lab/<release>/pch/`, each with the flags that it is precompiled for. Parsing what
/// nearly every file of ART includes is otherwise half of the work.
const PRECOMPILED: [(&str, Flags); 4] = [
    ("runtime", Flags::Art),
    ("compiler", Flags::Compiler),
    ("jvmti", Flags::Jvmti),
    ("test", Flags::Test),
];

/// The precompiled header for a source file of a target, if there is one.
///
/// Hindsight's own files do without: they have to say themselves what they include, as in a build
/// of Android. ART's base libraries include little of the headers, and would be compiled again
/// whenever one of those changed.
fn precompiled(target: &str, source: &str, flags: Flags) -> Option<&'static str> {
    let path = source.find("src/art/").map_or("", |at| &source[at..]);
    let own = match flags {
        Flags::Art => path.starts_with("src/art/runtime/"),
        // Has its own names for registers.
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

const LIBCORE_DEFINES: &str = "-D_LARGEFILE64_SOURCE -D_GNU_SOURCE -DLINUX -D__GLIBC__";

const FDLIBM_FLAGS: &str = "-O2 -fPIC -w -fno-strict-aliasing -ffp-contract=off -fno-builtin \
    -fwrapv -fvisibility=hidden -D_IEEE_LIBM -D_LITTLE_ENDIAN";

fn fdlibm_flags(spec: &Spec, isa: Isa) -> String {
    format!("{FDLIBM_FLAGS} {}", target_flags(spec, isa))
        .trim_end()
        .to_owned()
}

fn code_generator_defines(spec: &Spec, isa: Isa) -> String {
    (spec.code_generators)(isa)
        .iter()
        .map(|isa| format!("-DART_ENABLE_CODEGEN_{isa}"))
        .collect::<Vec<_>>()
        .join(" ")
}

fn includes(spec: &Spec, dirs: &[&str], isa: Isa, out: &str) -> String {
    let sysroot = sysroot(spec, isa);
    dirs.iter()
        .map(|dir| match dir.starts_with('/') {
            true => format!("-I{sysroot}{dir}"),
            false => format!("-I{}", dir.replace("OUT", out)),
        })
        .collect::<Vec<_>>()
        .join(" ")
}

/// Where a part's sources come from.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Origin {
    /// A module of an `Android.bp`.
    Module(&'static str),
    /// Files, relative to the variant's folder.
    Files(&'static [&'static str]),
    /// All files with this extension in a folder.
    Folder(&'static str, &'static str),
    /// A file that the lab generates, relative to the output folder.
    Generated(&'static str),
    /// Files that only this instruction set's build does not have from the modules.
    Only(Isa, &'static [&'static str]),
    /// The C++ files of Hindsight in this folder; none in the stock variant.
    Hooks(&'static str),
}

#[derive(Debug)]
pub(crate) enum Kind {
    Shared,
    Program,
}

/// A library or program.
#[derive(Debug)]
pub(crate) struct Target {
    /// The output, relative to `root/`.
    pub(crate) output: &'static str,
    pub(crate) kind: Kind,
    pub(crate) parts: &'static [(Origin, Flags)],
    /// Libraries of the lab that it is linked with, without `lib` and `.so`.
    pub(crate) uses: &'static [&'static str],
    /// Debian's libraries.
    pub(crate) libs: &'static str,
}

/// The libraries and programs of an instruction set.
fn targets(
    spec: &'static Spec,
    isa: Isa,
    variant: Variant,
) -> impl Iterator<Item = &'static Target> {
    spec.targets
        .iter()
        .filter(move |target| isa.is_native() || !spec.native_only.contains(&target.output))
        .filter(move |target| !variant.is_sanitized() || sanitize::includes(target))
}

/// A target's output below `root/`: a 32-bit system has other folders.
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

/// A shared library that leaves nothing undefined.
const CLOSED: &str = "-Wl,--no-undefined";

/// Test libraries may refer to symbols that the agent or runtime that loads them has.
fn closed(target: &Target, variant: Variant) -> &'static str {
    match target.kind {
        // The sanitizer's functions are in the program.
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
    graph.boot_images()?;
    Ok(graph.ninja.finish())
}

struct Graph<'a> {
    spec: &'static Spec,
    dir: &'a Path,
    out: String,
    isa: Isa,
    variant: Variant,
    /// The static library of art-hooks, relative to the variant's folder.
    hooks: Option<&'a str>,
    tree: Tree,
    variation: Variation,
    /// The precompiled headers that some file needs.
    precompiled: BTreeSet<&'static str>,
    ninja: Writer,
}

impl Graph<'_> {
    fn rules(&mut self) {
        let (spec, isa, out) = (self.spec, self.isa, &self.out);
        let (cxx, cc) = (spec.cxx(), spec.cc());
        let is_sanitized = self.variant.is_sanitized();
        let adapted = |flags: String| match is_sanitized {
            true => sanitize::flags(&flags),
            false => flags,
        };
        let n = &mut self.ninja;
        for flags in Flags::ALL {
            let (of_cxx, of_c) = (flags.cxx(spec, isa, out), flags.c(spec, isa, out));
            n.variable(&format!("cxx_{}", flags.name()), &adapted(of_cxx));
            n.variable(&format!("c_{}", flags.name()), &adapted(of_c));
        }
        n.variable("asm_art", &adapted(Flags::Art.assembly(spec, isa, out)));
        let depfile = [("depfile", "$out.d"), ("deps", "gcc")];
        let rule = |n: &mut Writer, name: &str, compiler: &str| {
            let command = format!("ccache {compiler} -MD -MF $out.d $flags -c $in -o $out");
            let described = [depfile[0], depfile[1], ("description", "compile $in")];
            n.rule(name, &command, &described);
        };
        rule(n, "cxx", &cxx);
        rule(n, "cc", &cc);
        // The compiler cache tells precompiled headers apart by the sum beside them: the header itself
        // has absolute paths in it, which would keep the variants from sharing what they compile.
        n.rule(
            "precompile",
            &format!(
                "{cxx} -MD -MF $out.d $flags -Xclang -fno-pch-timestamp -fpch-instantiate-templates \
                 -x c++-header $in -o $out && \
                 {cxx} $flags -x c++-header -E $in | sha256sum > $out.sum"
            ),
            &[depfile[0], depfile[1], ("description", "precompile $in")],
        );
        n.rule(
            "asm_text",
            &format!("{cxx} -MD -MF $out.d $flags -S $in -o $out"),
            &[depfile[0], depfile[1], ("description", "compile $in")],
        );
        // Headers that stay the same don't make everything out of date.
        let keep = "if cmp -s $out.new $out; then rm $out.new; else mv $out.new $out; fi";
        n.rule(
            "asm_header",
            &format!("python3 src/art/tools/cpp-define-generator/make_header.py $in > $out.new && {keep}"),
            &[("restat", "1"), ("description", "generate $out")],
        );
        n.rule(
            "mterp",
            "python3 src/art/runtime/interpreter/mterp/gen_mterp.py $out $in",
            &[("description", "generate $out")],
        );
        n.rule(
            "operator_out",
            &format!(
                "python3 src/art/tools/generate_operator_out.py $dir $in > $out.new && {keep}"
            ),
            &[("restat", "1"), ("description", "generate $out")],
        );
        let linker = match target_flags(spec, isa) {
            _ if is_sanitized => format!("{cxx} -fuse-ld=lld {}", sanitize::FLAG),
            target if target.is_empty() => format!("{cxx} -fuse-ld=lld"),
            target => format!("{cxx} {target} -fuse-ld=lld"),
        };
        n.rule(
            "shared",
            &format!("{linker} -shared -Wl,-soname,$soname -o $out $in $ldflags"),
            &[("description", "link $out")],
        );
        n.rule(
            "program",
            &format!("{linker} -o $out $in $ldflags"),
            &[("description", "link $out")],
        );
        n.rule(
            "link",
            "ln -sf $target $out",
            &[("description", "link $out")],
        );
    }

    fn asm_defines(&self) -> String {
        format!("{}/gen/asm_defines.h", self.out)
    }

    /// What ART's build generates, except the sources of single modules.
    fn generated(&mut self) -> Result<()> {
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

    /// The headers that most files of some target include.
    fn precompiled_headers(&mut self) {
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

    fn precompiled_header(&self, name: &str) -> String {
        format!("{}/pch/{name}.pch", self.out)
    }

    fn interpreter(&self, interpreter: &Interpreter) -> String {
        format!("{}/gen/{}", self.out, interpreter.output)
    }

    /// The source files of a part; edges that generate some of them are written.
    fn sources(&mut self, from: Origin) -> Result<Vec<String>> {
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

    /// Whether a test needs dexter's slicer, which Debian doesn't package.
    fn needs_slicer(&self, path: &str) -> Result<bool> {
        Ok(path.starts_with("src/art/test/")
            && crate::util::read(&self.dir.join(path))?.contains("\"slicer/"))
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

    fn object(&mut self, target: &str, source: &str, flags: Flags) -> String {
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

    /// `core.art`, compiled, and `core-interpreter.art`, for the interpreter.
    fn boot_images(&mut self) -> Result<()> {
        let root = format!("{}/root", self.out);
        let isa = self.isa.name();
        let jars: Vec<String> = self
            .spec
            .core_jars()
            .iter()
            .map(|jar| format!("{root}/framework/{jar}"))
            .collect();
        if jars.is_empty() {
            return Ok(());
        }
        // This machine's dex2oat compiles for all instruction sets.
        let native = format!("out/{}/root", Isa::X86_64.name());
        let programs: Vec<String> = targets(self.spec, Isa::X86_64, self.variant)
            .map(|target| format!("{native}/{}", target.output))
            .filter(|output| !output.contains("/nativetest64/"))
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
        options.extend(crate::boot::image_options(
            self.isa,
            &format!("$$PWD/{root}"),
            "$filter",
        ));
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
        Ok(())
    }
}

/// Whether a file of art-hooks lowers nodes for an instruction set that there is no code generator for.
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
    use crate::Release;

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
