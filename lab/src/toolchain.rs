// SPDX-License-Identifier: Apache-2.0
//! Compiler flags that select the instruction set and the sysroot.

use crate::spec::{Isa, Spec};
use std::path::Path;

/// The flags that select another machine as the target; every step needs them. Empty for this machine.
pub(crate) fn target_flags(spec: &Spec, isa: Isa) -> String {
    let sysroot = sysroot(spec, isa);
    let machine = match isa {
        Isa::X86_64 if sysroot.is_empty() => return String::new(),
        Isa::X86_64 => "",
        Isa::Arm64 => " -march=armv8-a",
        Isa::Arm => " -march=armv7-a -mfpu=neon -mfloat-abi=hard -mthumb",
    };
    format!("--target={} --sysroot={sysroot}{machine}", isa.triple())
}

/// The flags of [`target_flags`] with absolute paths, for a compiler that does not run in the variant's folder.
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
pub(crate) fn sysroot(spec: &Spec, isa: Isa) -> String {
    if isa.is_native() && !spec.native_sysroot {
        String::new()
    } else {
        format!("sysroots/{}", isa.name())
    }
}
