// SPDX-License-Identifier: Apache-2.0
//! Android 11: ART 11.0.0_r48 with the libcore of Android 10, the only one that Debian has.
//!
//! The other tables are shared with [`super::android_10`].

use super::android_10::{
    code_generators, vixl_defines, COMPILER_INCLUDES, DALVIKVM, DEX2OAT, HIDDENAPI, JVMTI_INCLUDES,
    LIBANDROIDIO, LIBARTAGENT, LIBARTTEST, LIBART_COMPILER, LIBART_DEXLAYOUT, LIBART_DISASSEMBLER,
    LIBCORE_INCLUDES, LIBJAVACORE, LIBNATIVEBRIDGETEST, LIBOPENJDK, LIBOPENJDKJVM, LIBOPENJDKJVMTI,
    LIBSIGCHAIN, LIBTIAGENT, NATIVE_ONLY, OATDUMP, PROFMAN, TESTS_ONLY, TEST_FORCED_INCLUDES,
};
use crate::spec::Origin::{Hooks, Module};
use crate::spec::{Flags, Includes, Interpreter, Isa, Java, Kind, Spec, Target};

pub(super) const SPEC: Spec = Spec {
    isas: &[Isa::X86_64],
    clang: "14",
    native_sysroot: false,
    optimization: "-O2",
    cxx_standard: "gnu++17",
    shared_sources: &["libcore", "fdlibm", "dx"],
    ported_as: &[("libcore", "android-10")],
    blueprints: &BLUEPRINTS,
    includes: Includes {
        art: &ART_INCLUDES,
        beside_libcore: &["src/fdlibm/src"],
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
    image_classes: None,
    modules_of_libcore: &[("ANDROID_RUNTIME_ROOT", "com.android.runtime")],
    modules: &[
        ("ANDROID_ART_ROOT", "com.android.art"),
        ("ANDROID_I18N_ROOT", "com.android.i18n"),
        // For libcore.
        ("ANDROID_RUNTIME_ROOT", "com.android.runtime"),
        ("ANDROID_TZDATA_ROOT", "com.android.tzdata"),
    ],
};

fn interpreters(isa: Isa) -> &'static [Interpreter] {
    match isa {
        Isa::X86_64 => &[
            Interpreter {
                module: "libart_mterp.x86_64",
                output: "mterp_x86_64.S",
                inputs: &["x86_64"],
            },
            // Nterp, which only x86-64 has.
            Interpreter {
                module: "libart_mterp.x86_64ng",
                output: "mterp_x86_64ng.S",
                inputs: &["x86_64ng", "x86_64/arithmetic.S", "x86_64/floating_point.S"],
            },
        ],
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

const BLUEPRINTS: [&str; 26] = [
    "src/art/build/Android.bp",
    "src/art/libartbase/Android.bp",
    "src/art/libartpalette/Android.bp",
    "src/art/libdexfile/Android.bp",
    "src/art/libelffile/Android.bp",
    "src/art/libnativebridge/Android.bp",
    "src/art/libnativeloader/Android.bp",
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
    "src/art/libnativebridge/include",
    "src/art/libnativeloader/include",
    "/usr/include/android",
    "/usr/include/android/nativehelper",
    "hindsight/art-hooks/include",
    "OUT/cargo/cxxbridge",
];

const ART_DEFINES: &str = "-DART_BASE_ADDRESS=0x60000000 -DART_BASE_ADDRESS_MIN_DELTA=-0x1000000 \
    -DART_BASE_ADDRESS_MAX_DELTA=0x1000000 -DART_DEFAULT_COMPACT_DEX_LEVEL=fast \
    -DART_DEFAULT_GC_TYPE_IS_CMS -DART_FRAME_SIZE_LIMIT=1736 -DART_READ_BARRIER_TYPE_IS_BAKER=1 \
    -DART_USE_READ_BARRIER=1 -DART_USE_GENERATIONAL_CC=1 -DART_STACK_OVERFLOW_GAP_arm=8192 \
    -DART_STACK_OVERFLOW_GAP_arm64=8192 -DART_STACK_OVERFLOW_GAP_x86=8192 \
    -DART_STACK_OVERFLOW_GAP_x86_64=8192 -DBUILDING_LIBART=1 -DIMT_SIZE=43 -DUSE_D8_DESUGAR=1 \
    -DNDEBUG -D_FILE_OFFSET_BITS=64 -D_GNU_SOURCE -D__STDC_FORMAT_MACROS \
    -D__STDC_CONSTANT_MACROS -D__STDC_LIMIT_MACROS";

const TARGETS: &[Target] = &[
    LIBSIGCHAIN,
    // With the fake libartpalette, as everywhere but on a device.
    Target {
        output: "lib64/libart.so",
        kind: Kind::Shared,
        parts: &[
            (Module("libartbase"), Flags::Art),
            (Module("libdexfile"), Flags::Art),
            (Module("libelffile"), Flags::Art),
            (Module("libprofile"), Flags::Art),
            (Module("libartpalette"), Flags::Art),
            (Module("libart"), Flags::Art),
            (Module("libnativebridge"), Flags::System),
            (Module("libnativeloader"), Flags::System),
            (Hooks("runtime"), Flags::Art),
        ],
        uses: &["sigchain"],
        libs: "-lbacktrace -lziparchive -lbase -llog -lnativehelper -llz4 -llzma -lz -ldl -lpthread -latomic",
    },
    LIBART_COMPILER,
    LIBART_DISASSEMBLER,
    LIBART_DEXLAYOUT,
    DEX2OAT,
    OATDUMP,
    PROFMAN,
    HIDDENAPI,
    Target {
        output: "bin/dexdump",
        kind: Kind::Program,
        parts: &[(Module("dexdump"), Flags::Art)],
        uses: &["art", "sigchain"],
        libs: "-lbase -llog -lz -lpthread",
    },
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
