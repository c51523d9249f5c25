// SPDX-License-Identifier: Apache-2.0
//
// The C interface between ART's hooks and the recorder (in Rust: art-hooks/src/recorder.rs), for calls at every event
// and in signal handlers.
//
// `state` is the value of a thread's ThreadWords::state. The traced thread itself calls the record functions; the first two
// while its ThreadWords::cursor is not 0.

#ifndef HINDSIGHT_RUNTIME_RECORDER_ABI_H_
#define HINDSIGHT_RUNTIME_RECORDER_ABI_H_

#include <stddef.h>
#include <stdint.h>

extern "C" {

// Appends the entry of the method at `method` (an ArtMethod*).
void hindsight_record_entry(void* state, uint64_t method);

// Appends a method exit, or takes the call back (ThreadWords::rewind_below).
void hindsight_record_exit(void* state);

// The process has compiled code that records in place, without the checks of the stubs (ThreadWords::epoch). In the lab only.
void hindsight_has_unmarked_code();

// The next three take the state of the calling thread, which is not null.

// Appends an event (event_numbers.h) with this payload, into whichever ring the thread has. The thread is Runnable.
void hindsight_record_event(void* state, uint32_t number, const uint64_t* payload, size_t words);

// As hindsight_record_event, in any other state. Takes a lock, which is held only while a ring is exchanged.
void hindsight_record_event_suspended(void* state,
                                      uint32_t number,
                                      const uint64_t* payload,
                                      size_t words);

// Appends the CPU time, allocations (the arguments, since the thread's start), page faults and context switches of the
// thread, unless it did so less than a millisecond ago. The thread is Runnable.
void hindsight_record_resources(void* state, uint64_t objects, uint64_t bytes);

// The functions below are for the handler of SIGSEGV. They are async-signal-safe.

// Whether a trace point of the thread with this state that runs onto the guard page faults at `fault_address`.
bool hindsight_is_at_guard(const void* state, uintptr_t fault_address);

// For 32-bit ARM: the number of the register that holds the cursor, if the instruction at `pc` is a trace point's
// store; otherwise -1. `pc` is in Thumb code that can be read.
int32_t hindsight_cursor_register(uintptr_t pc);

// If a trace point of the thread with this state ran onto the guard page at `fault_address`, with `cursor_register` in
// the register that holds the cursor: counts a wrap, and returns the ring's start. Otherwise returns 0. `pc` is the
// address of the faulting instruction, or 0 if it is known to be a trace point's.
uintptr_t hindsight_wrap(void* state,
                         uintptr_t fault_address,
                         uintptr_t cursor_register,
                         uintptr_t pc);

}  // extern "C"

#endif  // HINDSIGHT_RUNTIME_RECORDER_ABI_H_
