// SPDX-License-Identifier: Apache-2.0
//! What differs between the releases of Android: one [`Spec`] of tables for each.
//!
//! To add a release: a module here with its `Spec`, a line in [`Release::spec`], and the folder
//! `lab/android-NN/` with `sources.toml`, `packages.txt` and `port/`.

mod android_10;
mod android_11;
mod android_14;

use crate::graph::Target;
use crate::{Isa, Release};

/// How a release is built outside of AOSP's own build.
#[derive(Debug)]
pub(crate) struct Spec {
    /// The instruction sets that the lab can run it on.
    pub(crate) isas: &'static [Isa],
    /// The version suffix of Debian's clang, lld and LLVM.
    pub(crate) clang: &'static str,
    /// Whether it is compiled against the libraries of a newer suite, unpacked into a sysroot (listed
    /// in `cross.toml`), also for this machine's instruction set.
    pub(crate) native_sysroot: bool,
    /// The compiler's `-O`.
    pub(crate) optimization: &'static str,
    /// `-std=` of ART's C++.
    pub(crate) cxx_standard: &'static str,
    /// The source folders beside ART, which both variants share: names in `sources.toml`.
    pub(crate) shared_sources: &'static [&'static str],
    /// Folders of them (or `art`) that are ported with the patches of another release's
    /// `lab/android-NN/port/` first.
    pub(crate) ported_as: &'static [(&'static str, &'static str)],
    /// The `Android.bp` files that modules are read from, relative to the variant's folder.
    pub(crate) blueprints: &'static [&'static str],
    /// Include folders.
    pub(crate) includes: Includes,
    /// The lab's folder of headers that stand for ones that Debian doesn't package.
    pub(crate) shim: &'static str,
    /// The lab's folder of headers to precompile.
    pub(crate) precompiled: &'static str,
    /// What AOSP's build defines for ART on a Linux host, in its release form.
    pub(crate) art_defines: &'static str,
    /// The defines of Debian's vixl.pc.
    pub(crate) vixl_defines: fn(Isa) -> &'static str,
    /// Headers that the native parts of the run-tests get from libc++ without including them.
    pub(crate) test_forced_includes: &'static str,
    /// The instruction sets that the compiler generates code for.
    pub(crate) code_generators: fn(Isa) -> &'static [&'static str],
    /// The interpreters in assembly that are put together of a file for each instruction.
    pub(crate) interpreters: fn(Isa) -> &'static [Interpreter],
    /// The libraries and programs.
    pub(crate) targets: &'static [Target],
    /// Which of them are built only for this machine.
    pub(crate) native_only: &'static [&'static str],
    /// The core libraries, unless only the native part is built.
    pub(crate) java: Option<Java>,
    /// The list of classes in the boot image, relative to the variant's folder; all classes without.
    pub(crate) image_classes: Option<&'static str>,
    /// The modules (APEXes) below `ANDROID_ROOT`, with the variables that name them.
    pub(crate) modules: &'static [(&'static str, &'static str)],
    /// Those of them that the scripts of the run-tests don't know, as libcore is another release's.
    pub(crate) modules_of_libcore: &'static [(&'static str, &'static str)],
}

/// Include folders, in order. `OUT` is the output folder; absolute ones are below the sysroot.
#[derive(Debug)]
pub(crate) struct Includes {
    /// Of everything in ART.
    ///
    /// Those of Hindsight are there for the stock variant too (and may not exist): were its command
    /// lines different, the variants could not share the compiler cache.
    pub(crate) art: &'static [&'static str],
    /// A folder from which `../../libcore` is libcore, also where `src/art` is somebody's work tree.
    pub(crate) beside_libcore: &'static [&'static str],
    pub(crate) compiler: &'static [&'static str],
    pub(crate) jvmti: &'static [&'static str],
    pub(crate) libcore: &'static [&'static str],
}

/// An assembly file that `gen_mterp.py` makes of the files of some folders.
#[derive(Debug)]
pub(crate) struct Interpreter {
    /// The genrule that makes it in AOSP's build.
    pub(crate) module: &'static str,
    /// The file's name.
    pub(crate) output: &'static str,
    /// Folders and files below `interpreter/mterp`.
    pub(crate) inputs: &'static [&'static str],
}

/// The Java part.
#[derive(Debug)]
pub(crate) struct Java {
    /// The core jars, in the order of the boot class path.
    pub(crate) core_jars: &'static [&'static str],
}

impl Spec {
    /// The core jars; none if only the native part is built.
    pub(crate) fn core_jars(&self) -> &'static [&'static str] {
        self.java.as_ref().map_or(&[], |java| java.core_jars)
    }

    pub(crate) fn cxx(&self) -> String {
        format!("clang++-{}", self.clang)
    }

    pub(crate) fn cc(&self) -> String {
        format!("clang-{}", self.clang)
    }
}

impl Release {
    pub(crate) fn spec(self) -> &'static Spec {
        match self {
            Release::Android10 => &android_10::SPEC,
            Release::Android11 => &android_11::SPEC,
            Release::Android14 => &android_14::SPEC,
        }
    }
}
