// SPDX-License-Identifier: Apache-2.0
//! Entry for a `main` in C++. Android's build system links the service as a static library into such a program, since it has no
//! Rust compiler that is new enough.

use std::ffi::{c_char, c_int, CStr, OsString};
use std::os::unix::ffi::OsStringExt;
use std::panic::catch_unwind;

/// Exit code after a panic: `EX_SOFTWARE` of sysexits.h.
const EXIT_PANIC: c_int = 70;

/// Runs the service with the arguments of a C `main`, the program's name first, and returns its exit code. A panic does not
/// reach the caller: it becomes the exit code 70.
///
/// # Safety
/// `argv` points to `argc` pointers to strings that end with a zero, and none of them changes until the function returns; or
/// `argv` is null.
#[no_mangle]
pub unsafe extern "C" fn hindsightd_main(argc: c_int, argv: *const *const c_char) -> c_int {
    // SAFETY: the caller upholds this function's contract, which is the same.
    let arguments = unsafe { arguments(argc, argv) };
    catch_unwind(|| crate::run(arguments.into_iter())).unwrap_or(EXIT_PANIC)
}

/// The arguments as Rust's strings; ends at a null pointer.
///
/// # Safety
/// As [`hindsightd_main`].
unsafe fn arguments(argc: c_int, argv: *const *const c_char) -> Vec<OsString> {
    let Ok(count) = usize::try_from(argc) else {
        return Vec::new();
    };
    if argv.is_null() {
        return Vec::new();
    }
    // SAFETY: the caller guarantees `argc` pointers at `argv`.
    let pointers = unsafe { std::slice::from_raw_parts(argv, count) };
    let present = pointers.iter().take_while(|pointer| !pointer.is_null());
    present
        // SAFETY: the caller guarantees a string that ends with a zero at each pointer.
        .map(|pointer| unsafe { CStr::from_ptr(*pointer) })
        .map(|text| OsString::from_vec(text.to_bytes().to_vec()))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ptr::null;

    /// The result of [`arguments`] for strings that end with a zero.
    fn read(argc: c_int, texts: &[Option<&CStr>]) -> Vec<OsString> {
        let pointers: Vec<_> = texts
            .iter()
            .map(|text| text.map_or(null(), CStr::as_ptr))
            .collect();
        assert!(usize::try_from(argc).map_or(true, |count| count <= pointers.len()));
        // SAFETY: `pointers` has at least `argc` elements, each a string of `texts`, or null.
        unsafe { arguments(argc, pointers.as_ptr()) }
    }

    #[test]
    fn arguments_are_read_as_bytes_up_to_their_count() {
        let given = [Some(c"hindsightd"), Some(c"--store"), Some(c"/x\xff"), None];
        let expected: Vec<OsString> = [&b"hindsightd"[..], b"--store", b"/x\xff"]
            .into_iter()
            .map(|bytes| OsString::from_vec(bytes.to_vec()))
            .collect();
        assert_eq!(read(3, &given), expected);
        // The null pointer that ends a C program's arguments is none of them.
        assert_eq!(read(4, &given), expected);
        assert_eq!(read(1, &given), expected[..1]);
        assert!(read(0, &given).is_empty());
        assert!(read(-1, &given).is_empty());
        // SAFETY: null is allowed.
        assert!(unsafe { arguments(5, null()) }.is_empty());
    }
}
