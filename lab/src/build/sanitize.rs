// SPDX-License-Identifier: Apache-2.0
//! AddressSanitizer: what a variant that it checks is compiled with.

use crate::spec::Target;

/// Flags of a compiler in the place of the usual ones: as AOSP has them for hosts (`SANITIZE_HOST`), but for
/// the stack that is kept for what runs after an overflow: frames of C++ are larger, and AOSP's 20 KiB are
/// too little for `QuickExceptionHandler::FindCatch`; 48 KiB are too much for the threads of ART that have 64. Managed code knows the size, too: its boot image is
/// made by a compiler of the same variant.
pub(crate) fn flags(usual: &str) -> String {
    let usual = usual
        .replace(
            "-DART_STACK_OVERFLOW_GAP_x86_64=8192",
            "-DART_STACK_OVERFLOW_GAP_x86_64=45056",
        )
        .replace("-DART_FRAME_SIZE_LIMIT=1736", "-DART_FRAME_SIZE_LIMIT=7400")
        .replace(" -O2 ", " -O1 ");
    format!("{usual} {FLAG} -DART_ENABLE_ADDRESS_SANITIZER=1")
}

/// What the compiler and the linker are told.
pub(crate) const FLAG: &str = "-fsanitize=address";

/// What tells rustc to do the same. The option is unstable: it needs `RUSTC_BOOTSTRAP=1`.
pub(crate) const RUSTFLAGS: &str = "-Zsanitizer=address -Cforce-frame-pointers=yes";

/// The target for rustc. With one that is named, what runs while compiling is not sanitized.
pub(crate) const RUST_TARGET: &str = "x86_64-unknown-linux-gnu";

/// A part of each program: the options that ART needs.
pub(crate) const OPTIONS: &str = "hindsight/lab/sanitize/asan_options.c";

/// What no test of threads and traces needs is not built.
const LEFT_OUT: [&str; 9] = [
    "lib64/libart-disassembler.so",
    "lib64/libopenjdkjvmti.so",
    "bin/oatdump",
    "bin/profman",
    "bin/hiddenapi",
    "bin/dexdump2",
    "nativetest64/libtiagent.so",
    "nativetest64/libartagent.so",
    "nativetest64/libnativebridgetest.so",
];

/// Whether a target is part of the variant.
pub(crate) fn includes(target: &Target) -> bool {
    !LEFT_OUT.contains(&target.output)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_may_be_larger() {
        let flags = flags("-std=gnu++17 -O2 -g -DART_STACK_OVERFLOW_GAP_x86_64=8192");
        assert!(
            flags.contains(" -O1 ") && flags.contains("GAP_x86_64=45056"),
            "{flags}"
        );
        assert!(flags.contains(FLAG));
    }
}
