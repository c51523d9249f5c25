// SPDX-License-Identifier: Apache-2.0

#ifndef HINDSIGHT_RUNTIME_THREAD_WORDS_H_
#define HINDSIGHT_RUNTIME_THREAD_WORDS_H_

#include <stdint.h>

namespace art {
namespace hindsight {

// Hindsight's words in each Thread. First five elements of a pointer's size each, so that their offsets scale
// when code is compiled for the other pointer size: compiled code uses these. The same layout is in
// runtime/src/thread/words.rs.
struct ThreadWords {
  // Address of the next slot, 0 while this thread is not traced. Compiled trace points read and write
  // it.
  uintptr_t cursor = 0u;

  // This thread's state in Hindsight's runtime, which owns it.
  void* state = nullptr;

  // The entry of a compiled method tests this, as one 32-bit word, instead of the thread's flags. Byte 0 says that the
  // thread is traced, byte 1 that its flags may ask it to suspend.
  union {
    uint8_t poll_bytes[4] = {0u, 0u, 0u, 0u};
    uintptr_t poll_padding;
  };

  // The stubs for method exits, and for entries of methods without a suspend check. Null while not traced.
  void* exit_stub = nullptr;
  void* leaf_stub = nullptr;

  // The categories of events that the thread records, as bits (event_numbers.h). The control thread changes it.
  uint32_t events = 0u;

  // The number of the thread's current or last wait. Only the thread itself changes it, before anybody can wake it.
  uint32_t wait_number = 0u;

  // The thread that ended a wait of this one, and the wait's number, as PackWaker() returns them; 0 if none did.
  uint32_t waker = 0u;

  // The number of the wait in MessageQueue.nativePollOnce that is under way; 0: none. Only the thread itself uses it.
  uint32_t poll_wait = 0u;

  // Objects and bytes that the thread has allocated in buffers that it does not use any more. Changed by the thread, or
  // while it is suspended. Aligned as pointers are, so that a 32-bit Thread keeps its layout.
  typedef uint64_t __attribute__((aligned(4))) Counter;
  Counter allocated_objects = 0u;
  Counter allocated_bytes = 0u;

  // The upper half of the counter at the thread's last slot. Whoever appends a slot compares it first, and marks a change
  // with a FullTime event.
  uint32_t epoch = 0u;

  // A call in which nothing was recorded is taken back at its exit if it took fewer ticks than this; 0: none is.
  uint32_t rewind_below = 0u;

  // How many calls were taken back since the thread got its ring.
  Counter taken_back = 0u;

  // Where the next call that is taken back is noted; 0: nowhere. Always 0 except in the lab's build, which cannot leave it
  // out: the same layout is compiled into all of ART.
  uintptr_t rewind_log = 0u;

  // Called by any thread, after it has set the flags. The thread itself clears the byte in art_quick_trace_entry before
  // it reads its flags, so no request is lost. If the thread has seen the request elsewhere, the byte that is left
  // costs one read of the flags.
  void RequestSuspendCheck() { __atomic_store_n(&poll_bytes[1], 1u, __ATOMIC_SEQ_CST); }
};

}  // namespace hindsight
}  // namespace art

#endif  // HINDSIGHT_RUNTIME_THREAD_WORDS_H_
