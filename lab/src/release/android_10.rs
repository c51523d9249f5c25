// SPDX-License-Identifier: Apache-2.0
//! Android 10: ART 10.0.0_r36 with libcore of the same release.

use crate::spec::Origin::{Files, Folder, Generated, Hooks, Module, Only};
use crate::spec::{Flags, Includes, Interpreter, Isa, Java, Kind, Spec, Target};

pub(super) const SPEC: Spec = Spec {
    isas: &Isa::ALL,
    clang: "14",
    native_sysroot: false,
    optimization: "-O2",
    cxx_standard: "gnu++17",
    shared_sources: &["libcore", "system_core", "frameworks_base", "fdlibm", "dx"],
    ported_as: &[],
    blueprints: &BLUEPRINTS,
    includes: Includes {
        art: &ART_INCLUDES,
        beside_libcore: &["src/system_core/libnativeloader"],
        compiler: &COMPILER_INCLUDES,
        jvmti: &JVMTI_INCLUDES,
        libcore: &LIBCORE_INCLUDES,
    },
    shim: "hindsight/lab/android-10/shim",
    precompiled: "hindsight/lab/android-10/pch",
    art_defines: ART_DEFINES,
    vixl_defines,
    test_forced_includes: TEST_FORCED_INCLUDES,
    code_generators,
    interpreters,
    targets: TARGETS,
    native_only: &NATIVE_ONLY,
    tests_only: &TESTS_ONLY,
    java: Some(Java {
        core_jars: &[
            "core-oj-hostdex.jar",
            "core-libart-hostdex.jar",
            "core-icu4j-hostdex.jar",
        ],
    }),
    image_classes: Some("src/frameworks_base/config/preloaded-classes"),
    modules_of_libcore: &[],
    modules: &[
        ("ANDROID_RUNTIME_ROOT", "com.android.runtime"),
        ("ANDROID_TZDATA_ROOT", "com.android.tzdata"),
    ],
};

/// The instruction sets that the compiler generates code for.
pub(super) fn code_generators(isa: Isa) -> &'static [&'static str] {
    match isa {
        Isa::X86_64 => &["arm", "arm64", "x86", "x86_64"],
        // The JIT needs one. Code is compiled ahead of time by this machine's dex2oat.
        Isa::Arm64 => &["arm64"],
        Isa::Arm => &["arm"],
    }
}

fn interpreters(isa: Isa) -> &'static [Interpreter] {
    match isa {
        Isa::X86_64 => &[Interpreter {
            module: "libart_mterp.x86_64",
            output: "mterp_x86_64.S",
            inputs: &["x86_64"],
        }],
        Isa::Arm64 => &[Interpreter {
            module: "libart_mterp.arm64",
            output: "mterp_arm64.S",
            inputs: &["arm64"],
        }],
        Isa::Arm => &[Interpreter {
            module: "libart_mterp.arm",
            output: "mterp_arm.S",
            inputs: &["arm"],
        }],
    }
}

/// The `Android.bp` files, relative to the variant's folder.
const BLUEPRINTS: [&str; 26] = [
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
    "src/art/profman/Android.bp",
    "src/art/dexdump/Android.bp",
    "src/art/tools/hiddenapi/Android.bp",
    "src/art/openjdkjvm/Android.bp",
    "src/art/openjdkjvmti/Android.bp",
    "src/art/sigchainlib/Android.bp",
    "src/art/dalvikvm/Android.bp",
    "src/art/test/Android.bp",
    "src/libcore/NativeCode.bp",
    "src/libcore/luni/src/main/native/Android.bp",
    "src/libcore/ojluni/src/main/native/Android.bp",
    "src/libcore/openjdk_java_files.bp",
    "src/system_core/libnativebridge/Android.bp",
    "src/system_core/libnativeloader/Android.bp",
];

const ART_INCLUDES: [&str; 18] = [
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
    "src/art/tools/cpp-define-generator",
    "src/system_core/libnativebridge/include",
    "src/system_core/libnativeloader/include",
    "/usr/include/android",
    "/usr/include/android/nativehelper",
    "hindsight/art-hooks/include",
    "OUT/cargo/cxxbridge",
];

pub(super) const COMPILER_INCLUDES: [&str; 6] = [
    "src/art/compiler",
    "src/art/disassembler",
    "src/art/dexlayout",
    "src/art/dex2oat",
    "src/art/dex2oat/include",
    "/usr/include/vixl",
];

pub(super) const JVMTI_INCLUDES: [&str; 6] = [
    "src/art/openjdkjvmti/include",
    "src/art/openjdkjvmti",
    "src/art/dexlayout",
    "src/art/compiler",
    "src/art/test",
    "src/art/test/ti-agent",
];

pub(super) const LIBCORE_INCLUDES: [&str; 7] = [
    "src/libcore/include",
    "src/libcore/luni/src/main/native",
    "src/libcore/ojluni/src/main/native",
    "hindsight/lab/android-10/shim",
    "OUT/gen",
    "/usr/include/android",
    "/usr/include/android/nativehelper",
];

/// The macros that AOSP's release build defines for ART on a Linux host, and two options of AOSP's compiler: no
/// exceptions, and a reference may be null. Android 10 has such references (`DexFile::FindProtoId` takes the address of
/// an empty vector's first element), which AOSP's clang 9 compiled as meant. Without exceptions, clang 14 concludes from
/// it that a method's list of parameters is never null, and JVMTI's redefinition crashes.
const ART_DEFINES: &str = "-DART_BASE_ADDRESS=0x60000000 -DART_BASE_ADDRESS_MIN_DELTA=-0x1000000 \
    -DART_BASE_ADDRESS_MAX_DELTA=0x1000000 -DART_DEFAULT_COMPACT_DEX_LEVEL=fast \
    -DART_DEFAULT_GC_TYPE_IS_CMS -DART_FRAME_SIZE_LIMIT=1736 -DART_READ_BARRIER_TYPE_IS_BAKER=1 \
    -DART_USE_READ_BARRIER=1 -DART_USE_GENERATIONAL_CC=1 -DART_STACK_OVERFLOW_GAP_arm=8192 \
    -DART_STACK_OVERFLOW_GAP_arm64=8192 -DART_STACK_OVERFLOW_GAP_mips=16384 \
    -DART_STACK_OVERFLOW_GAP_mips64=16384 -DART_STACK_OVERFLOW_GAP_x86=8192 \
    -DART_STACK_OVERFLOW_GAP_x86_64=8192 -DBUILDING_LIBART=1 -DIMT_SIZE=43 -DUSE_D8_DESUGAR=1 \
    -DNDEBUG -D_FILE_OFFSET_BITS=64 -D_GNU_SOURCE -D__STDC_FORMAT_MACROS \
    -D__STDC_CONSTANT_MACROS -D__STDC_LIMIT_MACROS -fno-exceptions \
    -fno-delete-null-pointer-checks";

/// The macros of Debian's vixl.pc. The simulator and A64 change the layout of some classes.
pub(super) fn vixl_defines(isa: Isa) -> &'static str {
    match isa {
        Isa::X86_64 => {
            "-DVIXL_INCLUDE_TARGET_A32 -DVIXL_INCLUDE_TARGET_T32 \
             -DVIXL_INCLUDE_TARGET_A64 -DVIXL_INCLUDE_SIMULATOR_AARCH64 -DVIXL_CODE_BUFFER_MMAP"
        }
        Isa::Arm64 => {
            "-DVIXL_INCLUDE_TARGET_A32 -DVIXL_INCLUDE_TARGET_T32 \
             -DVIXL_INCLUDE_TARGET_A64 -DVIXL_CODE_BUFFER_MMAP"
        }
        Isa::Arm => "-DVIXL_INCLUDE_TARGET_A32 -DVIXL_INCLUDE_TARGET_T32 -DVIXL_CODE_BUFFER_MMAP",
    }
}

/// Headers that the native parts of the run-tests get from libc++ without including them.
pub(super) const TEST_FORCED_INCLUDES: &str =
    "-include string.h -include functional -include atomic -include android-base/macros.h";

/// Targets that are built for this machine only: dex2oat and similar tools run here for all instruction sets, and no
/// test of trace points on ARM needs JVMTI (120 files).
pub(super) const NATIVE_ONLY: [&str; 10] = [
    "lib64/libart-disassembler.so",
    "lib64/libart-dexlayout.so",
    "lib64/libopenjdkjvmti.so",
    "bin/dex2oat",
    "bin/oatdump",
    "bin/profman",
    "bin/hiddenapi",
    "bin/dexdump2",
    "nativetest64/libtiagent.so",
    "nativetest64/libartagent.so",
];

/// Targets that only run-tests and checks of a build use, in Android 10 and 11.
pub(super) const TESTS_ONLY: [&str; 11] = [
    "lib64/libart-disassembler.so",
    "lib64/libopenjdkjvmti.so",
    "bin/oatdump",
    "bin/profman",
    "bin/hiddenapi",
    "bin/dexdump2",
    "bin/dexdump",
    "nativetest64/libarttest.so",
    "nativetest64/libtiagent.so",
    "nativetest64/libartagent.so",
    "nativetest64/libnativebridgetest.so",
];

const TARGETS: &[Target] = &[
    LIBSIGCHAIN,
    LIBART,
    LIBART_COMPILER,
    LIBART_DISASSEMBLER,
    LIBART_DEXLAYOUT,
    DEX2OAT,
    OATDUMP,
    PROFMAN,
    HIDDENAPI,
    DEXDUMP,
    DALVIKVM,
    LIBOPENJDKJVM,
    LIBOPENJDKJVMTI,
    LIBANDROIDIO,
    LIBJAVACORE,
    LIBOPENJDK,
    LIBARTTEST,
    LIBTIAGENT,
    LIBARTAGENT,
    LIBNATIVEBRIDGETEST,
];

/// Functions that do nothing, for libart; dalvikvm has the real ones.
pub(super) const LIBSIGCHAIN: Target = Target {
    output: "lib64/libsigchain.so",
    kind: Kind::Shared,
    parts: &[(Module("libsigchain_dummy"), Flags::Art)],
    uses: &[],
    libs: "",
};

pub(super) const LIBART: Target = Target {
    output: "lib64/libart.so",
    kind: Kind::Shared,
    parts: &[
        (Module("libartbase"), Flags::Art),
        (Module("libdexfile"), Flags::Art),
        (Module("libelffile"), Flags::Art),
        (Module("libprofile"), Flags::Art),
        (Module("libartpalette-system"), Flags::Art),
        (Module("libart"), Flags::Art),
        (Module("libnativebridge"), Flags::System),
        (Module("libnativeloader"), Flags::System),
        (Hooks("runtime"), Flags::Art),
    ],
    uses: &["sigchain"],
    libs: "-lbacktrace -lziparchive -lbase -llog -lnativehelper -llz4 -llzma -lz -ldl -lpthread -latomic",
};

pub(super) const LIBART_COMPILER: Target = Target {
    output: "lib64/libart-compiler.so",
    kind: Kind::Shared,
    parts: &[
        (Module("libart-compiler"), Flags::Compiler),
        // Listed with the code generator for 32-bit ARM, and used by both.
        (
            Only(
                Isa::Arm64,
                &[
                    "src/art/compiler/optimizing/instruction_simplifier_shared.cc",
                    "src/art/compiler/optimizing/nodes_shared.cc",
                ],
            ),
            Flags::Compiler,
        ),
        (Hooks("compiler"), Flags::Compiler),
    ],
    uses: &["art"],
    libs: "-lvixl -lbase -llog",
};

pub(super) const LIBART_DISASSEMBLER: Target = Target {
    output: "lib64/libart-disassembler.so",
    kind: Kind::Shared,
    parts: &[(Module("libart-disassembler"), Flags::Compiler)],
    uses: &["art"],
    libs: "-lvixl -lbase -llog",
};

pub(super) const LIBART_DEXLAYOUT: Target = Target {
    output: "lib64/libart-dexlayout.so",
    kind: Kind::Shared,
    parts: &[(Module("libart-dexlayout"), Flags::Compiler)],
    uses: &["art"],
    libs: "-lbase -llog -lz",
};

pub(super) const DEX2OAT: Target = Target {
    output: "bin/dex2oat",
    kind: Kind::Program,
    parts: &[
        (Module("libart-dex2oat"), Flags::Compiler),
        (Module("dex2oat"), Flags::Compiler),
    ],
    uses: &["art-compiler", "art-dexlayout", "art", "sigchain"],
    libs: "-lcrypto -lbase -llog -llz4 -lz -lpthread",
};

pub(super) const OATDUMP: Target = Target {
    output: "bin/oatdump",
    kind: Kind::Program,
    parts: &[(Module("oatdump"), Flags::Compiler)],
    uses: &[
        "art-compiler",
        "art-dexlayout",
        "art-disassembler",
        "art",
        "sigchain",
    ],
    libs: "-lbase -llog -lz -lpthread",
};

pub(super) const PROFMAN: Target = Target {
    output: "bin/profman",
    kind: Kind::Program,
    parts: &[(Module("profman"), Flags::Compiler)],
    uses: &["art", "sigchain"],
    libs: "-lbase -llog -lz -lpthread",
};

pub(super) const HIDDENAPI: Target = Target {
    output: "bin/hiddenapi",
    kind: Kind::Program,
    parts: &[(Module("hiddenapi"), Flags::Compiler)],
    uses: &["art", "sigchain"],
    libs: "-lbase -llog -lz -lpthread",
};

pub(super) const DEXDUMP: Target = Target {
    output: "bin/dexdump2",
    kind: Kind::Program,
    parts: &[(Module("dexdump2"), Flags::Art)],
    uses: &["art", "sigchain"],
    libs: "-lbase -llog -lz -lpthread",
};

pub(super) const DALVIKVM: Target = Target {
    output: "bin/dalvikvm",
    kind: Kind::Program,
    parts: &[
        (Module("dalvikvm"), Flags::Art),
        (Files(&["src/art/sigchainlib/sigchain.cc"]), Flags::Art),
    ],
    uses: &[],
    // libart finds the real sigchain functions in the program.
    libs: "-lnativehelper -llog -ldl -lpthread -Wl,--export-dynamic",
};

pub(super) const LIBOPENJDKJVM: Target = Target {
    output: "lib64/libopenjdkjvm.so",
    kind: Kind::Shared,
    parts: &[(Module("libopenjdkjvm"), Flags::OpenJdkJvm)],
    uses: &["art"],
    libs: "-lbase -llog -lnativehelper",
};

pub(super) const LIBOPENJDKJVMTI: Target = Target {
    output: "lib64/libopenjdkjvmti.so",
    kind: Kind::Shared,
    parts: &[(Module("libopenjdkjvmti"), Flags::Jvmti)],
    uses: &["art", "art-compiler", "art-dexlayout"],
    libs: "-lbase -llog -lnativehelper",
};

pub(super) const LIBANDROIDIO: Target = Target {
    output: "lib64/libandroidio.so",
    kind: Kind::Shared,
    parts: &[(Module("libandroidio"), Flags::Libcore)],
    uses: &[],
    libs: "-llog",
};

pub(super) const LIBJAVACORE: Target = Target {
    output: "lib64/libjavacore.so",
    kind: Kind::Shared,
    parts: &[(Module("libjavacore"), Flags::Libcore)],
    uses: &["androidio"],
    libs:
        "-lnativehelper -lziparchive -lbase -llog -lcrypto -lexpat -licuuc -licui18n -licudata -lz",
};

pub(super) const LIBOPENJDK: Target = Target {
    output: "lib64/libopenjdk.so",
    kind: Kind::Shared,
    parts: &[
        (Module("libopenjdk"), Flags::Libcore),
        (
            Folder("src/fdlibm/src/java.base/share/native/libfdlibm", "c"),
            Flags::Fdlibm,
        ),
        (Generated("gen/fdlibm_java.cc"), Flags::Fdlibm),
    ],
    uses: &["androidio", "openjdkjvm"],
    libs: "-lnativehelper -lbase -llog -lcrypto -licuuc -licudata -lz -lm -ldl",
};

pub(super) const LIBARTTEST: Target = Target {
    output: "nativetest64/libarttest.so",
    kind: Kind::Shared,
    parts: &[(Module("libarttest"), Flags::Test)],
    uses: &["art"],
    libs: "-lbase -llog -lbacktrace -lnativehelper",
};

pub(super) const LIBTIAGENT: Target = Target {
    output: "nativetest64/libtiagent.so",
    kind: Kind::Shared,
    parts: &[(Module("libtiagent"), Flags::Test)],
    uses: &["art"],
    libs: "-lbase -llog -lbacktrace -lnativehelper",
};

pub(super) const LIBARTAGENT: Target = Target {
    output: "nativetest64/libartagent.so",
    kind: Kind::Shared,
    parts: &[(Module("libartagent"), Flags::Test)],
    uses: &["art"],
    libs: "-lbase -llog -lbacktrace -lnativehelper",
};

pub(super) const LIBNATIVEBRIDGETEST: Target = Target {
    output: "nativetest64/libnativebridgetest.so",
    kind: Kind::Shared,
    parts: &[(Module("libnativebridgetest"), Flags::Test)],
    uses: &["art"],
    libs: "-lbase -llog",
};
