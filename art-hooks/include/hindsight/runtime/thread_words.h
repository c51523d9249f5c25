// SPDX-License-Identifier: Apache-2.0

#ifndef HINDSIGHT_RUNTIME_THREAD_WORDS_H_
#define HINDSIGHT_RUNTIME_THREAD_WORDS_H_

#include <stdint.h>

namespace art {
namespace hindsight {

// What every Thread holds for Hindsight. Five elements of a pointer's size each, so that the offsets
// scale when code is compiled for the other pointer size. runtime/src/thread/words.rs has the same
// layout.
struct ThreadWords {
  // Address of the next trace slot, 0 while this thread is not traced. Read and written by trace points
  // in compiled code.
  uintptr_t cursor = 0u;

  // This thread's ring buffer, owned by Hindsight's runtime.
  void* state = nullptr;

  // What the entry of a compiled method tests, as one 32-bit word, instead of the thread's flags.
  // Byte 0 is Hindsight's: the thread is traced. Byte 1 is ART's: its flags may ask it to suspend.
  union {
    uint8_t poll_bytes[4] = {0u, 0u, 0u, 0u};
    uintptr_t poll_padding;
  };

  // What exits, and entries of methods without suspend check, call: null while this thread is not traced.
  void* exit_stub = nullptr;
  void* leaf_stub = nullptr;

  // Called after the flags were set, by any thread. The thread itself clears the byte, in
  // art_quick_trace_entry, before it looks at its flags, so no request is lost; a byte left behind
  // by a request that was seen elsewhere costs one look at the flags.
  void RequestSuspendCheck() { __atomic_store_n(&poll_bytes[1], 1u, __ATOMIC_SEQ_CST); }
};

}  // namespace hindsight
}  // namespace art

#endif  // HINDSIGHT_RUNTIME_THREAD_WORDS_H_
