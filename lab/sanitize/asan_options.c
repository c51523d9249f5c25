// SPDX-License-Identifier: Apache-2.0
//
// What AddressSanitizer has to know of ART. ASAN_OPTIONS overrides it.

const char* __asan_default_options(void) {
  // ART frees little at its end, and gives its threads signal stacks of their own.
  return "detect_leaks=0:use_sigaltstack=0";
}
