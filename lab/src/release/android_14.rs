// SPDX-License-Identifier: Apache-2.0
//! Android 14: ART 14.0.0_r15, the native part only. It compiles and links ART with Hindsight's patches, and its
//! dex2oat shows the code; Debian has no core libraries of Android 14 to run.
//!
//! Bookworm packages Android's libraries in the version of Android 10, so everything is compiled against trixie's
//! packages of Android 14, unpacked into a sysroot.

use crate::spec::Origin::{Files, Hooks, Module};
use crate::spec::{Flags, Includes, Interpreter, Isa, Kind, Spec, Target};

pub(super) const SPEC: Spec = Spec {
    isas: &[Isa::X86_64],
    clang: "19",
    native_sysroot: true,
    // Compiles faster; nothing is measured on this release.
    optimization: "-O1",
    cxx_standard: "gnu++17",
    shared_sources: &[],
    ported_as: &[],
    blueprints: &BLUEPRINTS,
    includes: Includes {
        art: &ART_INCLUDES,
        beside_libcore: &[],
        compiler: &COMPILER_INCLUDES,
        jvmti: &[],
        libcore: &[],
    },
    shim: "hindsight/lab/android-14/shim",
    precompiled: "hindsight/lab/android-14/pch",
    art_defines: ART_DEFINES,
    vixl_defines,
    test_forced_includes: "",
    code_generators,
    interpreters,
    targets: TARGETS,
    native_only: &[],
    tests_only: &[],
    java: None,
    image_classes: None,
    modules_of_libcore: &[],
    modules: &[],
};

fn code_generators(_: Isa) -> &'static [&'static str] {
    &["arm", "arm64", "x86", "x86_64"]
}

fn interpreters(_: Isa) -> &'static [Interpreter] {
    &[Interpreter {
        module: "libart_mterp.x86_64ng",
        output: "mterp_x86_64ng.S",
        inputs: &["x86_64ng"],
    }]
}

const BLUEPRINTS: [&str; 14] = [
    "src/art/build/Android.bp",
    "src/art/libartbase/Android.bp",
    "src/art/libartpalette/Android.bp",
    "src/art/libdexfile/Android.bp",
    "src/art/libelffile/Android.bp",
    "src/art/libprofile/Android.bp",
    "src/art/runtime/Android.bp",
    "src/art/compiler/Android.bp",
    "src/art/disassembler/Android.bp",
    "src/art/dexlayout/Android.bp",
    "src/art/dex2oat/Android.bp",
    "src/art/oatdump/Android.bp",
    "src/art/sigchainlib/Android.bp",
    "src/art/odrefresh/Android.bp",
];

const ART_INCLUDES: [&str; 19] = [
    "OUT/gen",
    "src/art",
    "src/art/runtime",
    "src/art/libartbase",
    "src/art/libartpalette/include",
    "src/art/libdexfile",
    "src/art/libdexfile/external/include",
    "src/art/libelffile",
    "src/art/libprofile",
    "src/art/cmdline",
    "src/art/sigchainlib",
    "src/art/odrefresh/include",
    "src/art/tools/cpp-define-generator",
    "src/art/libnativebridge/include",
    "src/art/libnativeloader/include",
    "/usr/include/android",
    "/usr/include/android/nativehelper",
    "hindsight/art-hooks/include",
    "OUT/cargo/cxxbridge",
];

const COMPILER_INCLUDES: [&str; 7] = [
    "src/art/compiler",
    "src/art/disassembler",
    "src/art/dexlayout",
    "src/art/dex2oat",
    "src/art/dex2oat/include",
    "/usr/include/android/lzma",
    "/usr/include/vixl",
];

/// The macros that AOSP's release build defines for ART on a Linux host, and the include folders of Debian's
/// libraries in the sysroot.
const ART_DEFINES: &str = "-DART_BASE_ADDRESS=0x60000000 -DART_BASE_ADDRESS_MIN_DELTA=-0x1000000 \
    -DART_BASE_ADDRESS_MAX_DELTA=0x1000000 -DART_DEFAULT_COMPACT_DEX_LEVEL=fast \
    -DART_DEFAULT_GC_TYPE_IS_CMC -DART_FRAME_SIZE_LIMIT=1736 -DART_READ_BARRIER_TYPE_IS_BAKER=1 \
    -DART_USE_READ_BARRIER=1 -DART_USE_GENERATIONAL_CC=1 -DART_STACK_OVERFLOW_GAP_arm=8192 \
    -DART_STACK_OVERFLOW_GAP_arm64=8192 -DART_STACK_OVERFLOW_GAP_riscv64=8192 \
    -DART_STACK_OVERFLOW_GAP_x86=8192 -DART_STACK_OVERFLOW_GAP_x86_64=8192 -DBUILDING_LIBART=1 \
    -DIMT_SIZE=43 -DUSE_D8_DESUGAR=1 -DNDEBUG -D_FILE_OFFSET_BITS=64 -D_GNU_SOURCE \
    -D__STDC_FORMAT_MACROS -D__STDC_CONSTANT_MACROS -D__STDC_LIMIT_MACROS \
    -fno-exceptions -Isysroots/x86_64/usr/include/android/lzma \
    -Isysroots/x86_64/usr/include/android/cpu_features";

/// The macros of Debian's vixl.pc. The simulator changes the layout of some classes.
fn vixl_defines(_: Isa) -> &'static str {
    "-DVIXL_INCLUDE_TARGET_A32 -DVIXL_INCLUDE_TARGET_T32 -DVIXL_INCLUDE_TARGET_A64 \
     -DVIXL_INCLUDE_SIMULATOR_AARCH64 -DVIXL_CODE_BUFFER_MMAP"
}

const TARGETS: &[Target] = &[
    // Functions that do nothing, for libart.
    Target {
        output: "lib64/libsigchain.so",
        kind: Kind::Shared,
        parts: &[(Module("libsigchain_fake"), Flags::Art)],
        uses: &[],
        libs: "",
    },
    Target {
        output: "lib64/libart.so",
        kind: Kind::Shared,
        parts: &[
            (Module("libartbase"), Flags::Art),
            (Module("libdexfile"), Flags::Art),
            (Module("libelffile"), Flags::Art),
            (Module("libprofile"), Flags::Art),
            (Module("libart"), Flags::Art),
            (
                Files(&[
                    "src/art/libartpalette/system/palette_fake.cc",
                    "src/art/odrefresh/odr_statslog_host.cc",
                ]),
                Flags::Art,
            ),
            (
                Files(&[
                    "src/art/libnativebridge/native_bridge.cc",
                    "src/art/libnativeloader/native_loader.cpp",
                ]),
                Flags::System,
            ),
            (Hooks("runtime"), Flags::Art),
        ],
        uses: &["sigchain"],
        libs: "-lbacktrace -lziparchive -lbase -llog -lnativehelper -ltinyxml2 -lcap -llz4 -llzma -lz \
               -lcpu_features -ldl -lpthread -latomic",
    },
    Target {
        output: "lib64/libart-compiler.so",
        kind: Kind::Shared,
        parts: &[
            (Module("libart-compiler"), Flags::Compiler),
            (Hooks("compiler"), Flags::Compiler),
        ],
        uses: &["art", "art-disassembler"],
        libs: "-lvixl -lbase -llog",
    },
    Target {
        output: "lib64/libart-disassembler.so",
        kind: Kind::Shared,
        parts: &[(Module("libart-disassembler"), Flags::Compiler)],
        uses: &["art"],
        libs: "-lvixl -lbase -llog",
    },
    Target {
        output: "lib64/libart-dexlayout.so",
        kind: Kind::Shared,
        parts: &[(Module("libart-dexlayout"), Flags::Compiler)],
        uses: &["art"],
        libs: "-lbase -llog -lz",
    },
    Target {
        output: "bin/dex2oat",
        kind: Kind::Program,
        parts: &[
            (Module("libart-dex2oat"), Flags::Compiler),
            (Module("dex2oat"), Flags::Compiler),
        ],
        uses: &["art-compiler", "art-dexlayout", "art-disassembler", "art", "sigchain"],
        libs: "-lvixl -lcrypto -lziparchive -lbase -llog -llz4 -lz -lpthread",
    },
    Target {
        output: "bin/oatdump",
        kind: Kind::Program,
        parts: &[(Module("oatdump"), Flags::Compiler)],
        uses: &["art-compiler", "art-dexlayout", "art-disassembler", "art", "sigchain"],
        libs: "-lvixl -lbase -llog -lz -lpthread",
    },
];
