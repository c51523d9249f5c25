// SPDX-License-Identifier: Apache-2.0
//
// AddressSanitizer's options for ART. The environment variable ASAN_OPTIONS overrides them.

const char* __asan_default_options(void) {
  // ART frees little at its end, and gives its threads signal stacks of their own.
  return "detect_leaks=0:use_sigaltstack=0";
}
