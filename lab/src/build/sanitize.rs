// SPDX-License-Identifier: Apache-2.0
//! Compiler flags and targets of the variant that AddressSanitizer checks.

use crate::spec::Target;

/// The usual flags, changed as AOSP does for hosts (`SANITIZE_HOST`), except the stack reserved for handling a stack
/// overflow (`STACK_OVERFLOW_GAP`). C++ frames are larger under the sanitizer: AOSP's 20 KiB are too little for
/// `QuickExceptionHandler::FindCatch`, and 48 KiB too much for ART's threads with 64 KiB of stack. Managed code depends
/// on the size, too, so this variant's own compiler makes its boot image.
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

/// The option of the compiler and the linker.
pub(crate) const FLAG: &str = "-fsanitize=address";

/// The options of rustc. They are unstable and need `RUSTC_BOOTSTRAP=1`.
pub(crate) const RUSTFLAGS: &str = "-Zsanitizer=address -Cforce-frame-pointers=yes";

/// The target for rustc. Naming it keeps build scripts and procedural macros unsanitized.
pub(crate) const RUST_TARGET: &str = "x86_64-unknown-linux-gnu";

/// A source file of each program: the sanitizer's options that ART needs.
pub(crate) const OPTIONS: &str = "hindsight/lab/sanitize/asan_options.c";

/// Targets that are not built, since no test of threads and traces needs them.
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
