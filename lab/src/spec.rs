// SPDX-License-Identifier: Apache-2.0
//! Plain data: which builds of ART there are, and the form of the tables that describe a release.

use std::str::FromStr;

/// A release of Android whose ART the lab builds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Release {
    /// Android 10 (ART 10.0.0_r36).
    #[default]
    Android10,
    /// Android 11 (ART 11.0.0_r48).
    Android11,
    /// Android 14 (ART 14.0.0_r15): the native part only, to compile and link it.
    Android14,
}

impl Release {
    /// All of them, the oldest first.
    pub const ALL: [Release; 3] = [Release::Android10, Release::Android11, Release::Android14];

    /// The number, as in `--release 10`.
    pub fn number(self) -> u32 {
        match self {
            Release::Android10 => 10,
            Release::Android11 => 11,
            Release::Android14 => 14,
        }
    }

    /// The name of the release's folders: `android-10`.
    pub fn name(self) -> &'static str {
        match self {
            Release::Android10 => "android-10",
            Release::Android11 => "android-11",
            Release::Android14 => "android-14",
        }
    }
}

impl FromStr for Release {
    type Err = String;

    fn from_str(text: &str) -> std::result::Result<Release, String> {
        Release::ALL
            .into_iter()
            .find(|release| {
                text == release.name()
                    || text
                        .parse()
                        .is_ok_and(|number: u32| number == release.number())
            })
            .ok_or_else(|| {
                let known: Vec<String> = Release::ALL
                    .iter()
                    .map(|release| release.number().to_string())
                    .collect();
                format!(
                    "the lab has no release `{text}`; known: {}",
                    known.join(", ")
                )
            })
    }
}

/// The instruction set that the lab's programs are compiled for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Isa {
    /// 64-bit x86, which this machine runs itself.
    X86_64,
    /// 64-bit ARM, run by qemu-user.
    Arm64,
    /// 32-bit ARM (Thumb-2), run by qemu-user.
    Arm,
}

impl Isa {
    /// All of them.
    pub const ALL: [Isa; 3] = [Isa::X86_64, Isa::Arm64, Isa::Arm];

    /// ART's name of the instruction set.
    pub fn name(self) -> &'static str {
        match self {
            Isa::X86_64 => "x86_64",
            Isa::Arm64 => "arm64",
            Isa::Arm => "arm",
        }
    }

    /// Whether the machine that the lab is built on runs it without an emulator.
    pub fn is_native(self) -> bool {
        self == Isa::X86_64
    }

    /// The program of Debian's qemu-user that runs its programs.
    pub fn emulator(self) -> Option<&'static str> {
        match self {
            Isa::X86_64 => None,
            Isa::Arm64 => Some("qemu-aarch64"),
            Isa::Arm => Some("qemu-arm"),
        }
    }

    /// Whether pointers have 64 bits.
    pub fn is_64_bit(self) -> bool {
        self != Isa::Arm
    }

    /// The folder of libraries below `ANDROID_ROOT`.
    pub fn library_dir(self) -> &'static str {
        if self.is_64_bit() {
            "lib64"
        } else {
            "lib"
        }
    }

    /// The folder of the run-tests' native halves below `ANDROID_ROOT`.
    pub fn native_test_dir(self) -> &'static str {
        if self.is_64_bit() {
            "nativetest64"
        } else {
            "nativetest"
        }
    }

    /// AOSP's name of `dalvikvm` for this width of pointers.
    pub fn dalvikvm(self) -> &'static str {
        if self.is_64_bit() {
            "dalvikvm64"
        } else {
            "dalvikvm32"
        }
    }

    /// Debian's name of the architecture.
    pub(crate) fn debian(self) -> &'static str {
        match self {
            Isa::X86_64 => "amd64",
            Isa::Arm64 => "arm64",
            Isa::Arm => "armhf",
        }
    }

    /// Debian's multiarch triple, which compilers take for a target too.
    pub(crate) fn triple(self) -> &'static str {
        match self {
            Isa::X86_64 => "x86_64-linux-gnu",
            Isa::Arm64 => "aarch64-linux-gnu",
            Isa::Arm => "arm-linux-gnueabihf",
        }
    }

    /// Rust's name of the target, where code is not for the machine itself.
    pub(crate) fn rust_target(self) -> Option<&'static str> {
        match self {
            Isa::X86_64 => None,
            Isa::Arm64 => Some("aarch64-unknown-linux-gnu"),
            Isa::Arm => Some("armv7-unknown-linux-gnueabihf"),
        }
    }

    /// Where Debian's packages put Android's libraries, on a system of this architecture.
    pub(crate) fn android_libraries(self) -> String {
        format!("/usr/lib/{}/android", self.triple())
    }
}

impl FromStr for Isa {
    type Err = String;

    fn from_str(text: &str) -> std::result::Result<Isa, String> {
        match text {
            "x86_64" | "x86-64" => Ok(Isa::X86_64),
            "arm64" | "aarch64" => Ok(Isa::Arm64),
            "arm" => Ok(Isa::Arm),
            _ => Err(format!(
                "the lab has no instruction set `{text}`; known: x86_64, arm64, arm"
            )),
        }
    }
}

/// Which ART: the original, or the one with Hindsight's patches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Variant {
    /// ART as released, ported to Linux: the baseline of every comparison.
    Stock,
    /// ART with the patches of `aosp-patches/` and the code of `art-hooks/`.
    Hindsight,
    /// [`Variant::Hindsight`] with all C++ and Rust compiled for AddressSanitizer; for this machine's instruction set
    /// only.
    HindsightAddress,
}

impl Variant {
    /// All of them.
    pub const ALL: [Variant; 3] = [
        Variant::Stock,
        Variant::Hindsight,
        Variant::HindsightAddress,
    ];

    /// Whether it has Hindsight's patches.
    pub fn is_patched(self) -> bool {
        self != Variant::Stock
    }

    /// Whether AddressSanitizer checks it.
    pub fn is_sanitized(self) -> bool {
        self == Variant::HindsightAddress
    }

    /// The name of the variant's folder.
    pub fn name(self) -> &'static str {
        match self {
            Variant::Stock => "stock",
            Variant::Hindsight => "hindsight",
            Variant::HindsightAddress => "hindsight-address",
        }
    }
}

/// The description of a release: how it is built outside of AOSP's own build.
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
    /// Source folders, `art` included, to which the port patches of another release are applied first, and the name
    /// of that release.
    pub(crate) ported_as: &'static [(&'static str, &'static str)],
    /// The `Android.bp` files that modules are read from, relative to the variant's folder.
    pub(crate) blueprints: &'static [&'static str],
    /// Include folders.
    pub(crate) includes: Includes,
    /// The lab's folder of headers that stand for ones that Debian doesn't package.
    pub(crate) shim: &'static str,
    /// The lab's folder of headers to precompile.
    pub(crate) precompiled: &'static str,
    /// The macros that AOSP's release build defines for ART on a Linux host.
    pub(crate) art_defines: &'static str,
    /// The macros of Debian's vixl.pc.
    pub(crate) vixl_defines: fn(Isa) -> &'static str,
    /// Headers that the native parts of the run-tests get from libc++ without including them.
    pub(crate) test_forced_includes: &'static str,
    /// The instruction sets that the compiler generates code for.
    pub(crate) code_generators: fn(Isa) -> &'static [&'static str],
    /// The interpreters in assembly, which are generated from one file for each instruction.
    pub(crate) interpreters: fn(Isa) -> &'static [Interpreter],
    /// The libraries and programs.
    pub(crate) targets: &'static [Target],
    /// The targets that are built only for this machine.
    pub(crate) native_only: &'static [&'static str],
    /// The targets that only run-tests and checks of a build use; see [`Parts`].
    pub(crate) tests_only: &'static [&'static str],
    /// The core libraries, unless only the native part is built.
    pub(crate) java: Option<Java>,
    /// The list of classes in the boot image, relative to the variant's folder; without one, all classes.
    pub(crate) image_classes: Option<&'static str>,
    /// The modules (APEXes) below `ANDROID_ROOT`, with the variables that name them.
    pub(crate) modules: &'static [(&'static str, &'static str)],
    /// The modules that libcore needs and the scripts of the run-tests don't set, where libcore is of another release.
    pub(crate) modules_of_libcore: &'static [(&'static str, &'static str)],
}

/// Include folders, in order. `OUT` is the output folder; absolute ones are below the sysroot.
#[derive(Debug)]
pub(crate) struct Includes {
    /// For everything in ART.
    ///
    /// The stock variant has Hindsight's folders too, which need not exist: the same command lines in both variants let
    /// them share the compiler cache.
    pub(crate) art: &'static [&'static str],
    /// A folder from which `../../libcore` is libcore, also where `src/art` is somebody's work tree.
    pub(crate) beside_libcore: &'static [&'static str],
    pub(crate) compiler: &'static [&'static str],
    pub(crate) jvmti: &'static [&'static str],
    pub(crate) libcore: &'static [&'static str],
}

/// An assembly file that `gen_mterp.py` generates from the files of some folders.
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

/// A set of compiler flags.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Flags {
    /// ART itself.
    Art,
    /// The one file that includes libcore's headers by a path relative to ART's folder.
    OpenJdkJvm,
    /// Code that uses VIXL and the compiler's headers.
    Compiler,
    /// JVMTI.
    Jvmti,
    /// Parts of system/core in libart: their functions are exported.
    System,
    /// The native parts of the run-tests, which use RTTI and are looked up by name.
    Test,
    /// libcore.
    Libcore,
    /// fdlibm, which must compute in strict IEEE arithmetic.
    Fdlibm,
}

/// The origin of a part's sources.
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
    /// Files that the modules lack for this instruction set only.
    Only(Isa, &'static [&'static str]),
    /// The C++ files of Hindsight in this folder; none in the stock variant.
    Hooks(&'static str),
}

#[derive(Debug)]
pub(crate) enum Kind {
    Shared,
    Program,
}

/// How much of a variant is built.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Parts {
    /// The VM, the compiler, the core libraries and their boot image.
    Programs,
    /// Also the run-tests' native halves, JVMTI, oatdump and other tools, and the boot image for the
    /// interpreter.
    #[default]
    All,
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
