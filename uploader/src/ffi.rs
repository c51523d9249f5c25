// SPDX-License-Identifier: Apache-2.0
//! Entry for a `main` in C++. Android's build system links this crate as a static library into such a program, since it has no
//! Rust compiler that is new enough.

use std::ffi::{c_char, c_int, CStr, OsString};
use std::os::unix::ffi::OsStringExt;
use std::panic::catch_unwind;

/// Exit code after a panic: `EX_SOFTWARE` of sysexits.h.
const EXIT_PANIC: c_int = 70;

/// Runs the program with the arguments of a C `main`, the program's name first, and returns its exit code. A panic does not
/// reach the caller: it becomes the exit code 70.
///
/// # Safety
/// `argv` points to `argc` pointers to strings that end with a zero, and none of them changes until the function returns; or
/// `argv` is null.
#[no_mangle]
pub unsafe extern "C" fn hindsight_upload_main(argc: c_int, argv: *const *const c_char) -> c_int {
    // SAFETY: the caller upholds this function's contract, which is the same.
    let arguments = unsafe { arguments(argc, argv) };
    catch_unwind(|| crate::main(arguments.into_iter().skip(1))).unwrap_or(EXIT_PANIC)
}

/// The arguments as Rust's strings; ends at a null pointer.
///
/// # Safety
/// As [`hindsight_upload_main`].
unsafe fn arguments(argc: c_int, argv: *const *const c_char) -> Vec<OsString> {
    let count = if argv.is_null() {
        0
    } else {
        argc.max(0) as usize
    };
    (0..count)
        // SAFETY: the caller guarantees `argc` pointers at `argv`, which is not null if there is one.
        .map(|at| unsafe { *argv.add(at) })
        .take_while(|pointer| !pointer.is_null())
        // SAFETY: the caller guarantees a string that ends with a zero at each pointer.
        .map(|pointer| unsafe { CStr::from_ptr(pointer) })
        .map(|text| OsString::from_vec(text.to_bytes().to_vec()))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ptr::null;

    #[test]
    fn arguments_are_read_as_bytes_up_to_their_count() {
        let pointers = [c"program".as_ptr(), c"--x\xff".as_ptr(), null()];
        let expected = [&b"program"[..], b"--x\xff"].map(|text| OsString::from_vec(text.to_vec()));
        // The null pointer that ends a C program's arguments is none of them.
        for (count, read) in [(3, 2), (2, 2), (1, 1), (0, 0), (-1, 0)] {
            // SAFETY: there are three pointers, to strings that end with a zero, or null.
            let arguments = unsafe { arguments(count, pointers.as_ptr()) };
            assert_eq!(arguments, expected[..read], "{count}");
        }
        // SAFETY: null is allowed.
        assert!(unsafe { arguments(5, null()) }.is_empty());
        // The name is no argument: the option that is not known is.
        // SAFETY: there are three pointers, to strings that end with a zero, or null; they live until the call returns.
        assert_eq!(unsafe { hindsight_upload_main(3, pointers.as_ptr()) }, 1);
    }
}
