// SPDX-License-Identifier: Apache-2.0
//! The compiler flags of each part of ART and libcore.

use crate::spec::{Flags, Isa, Spec};
use crate::toolchain::{sysroot, target_flags};

/// Machine and code flags of C, C++ and assembly. No warnings: ART's sources are not ours to fix.
fn common(spec: &Spec, isa: Isa) -> String {
    let target = target_flags(spec, isa);
    let machine = match isa {
        Isa::X86_64 if target.is_empty() => "-msse4.2 -mpopcnt".to_owned(),
        Isa::X86_64 => format!("{target} -msse4.2 -mpopcnt"),
        _ => target,
    };
    format!("-fPIC -fno-omit-frame-pointer -fno-strict-aliasing {machine} -w -pthread")
}

/// Flags for native methods: on 32-bit ARM, ART calls them by another convention than the compiler's default.
fn native_method_flags(spec: &Spec, isa: Isa) -> String {
    match isa {
        Isa::Arm => format!(" -include {}/jnicall.h", spec.shim),
        _ => String::new(),
    }
}

impl Flags {
    pub(super) const ALL: [Flags; 8] = [
        Flags::Art,
        Flags::OpenJdkJvm,
        Flags::Compiler,
        Flags::Jvmti,
        Flags::System,
        Flags::Test,
        Flags::Libcore,
        Flags::Fdlibm,
    ];

    pub(super) fn name(self) -> &'static str {
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

    pub(super) fn cxx(self, spec: &Spec, isa: Isa, out: &str) -> String {
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

    pub(super) fn c(self, spec: &Spec, isa: Isa, out: &str) -> String {
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

    pub(super) fn assembly(self, spec: &Spec, isa: Isa, out: &str) -> String {
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
