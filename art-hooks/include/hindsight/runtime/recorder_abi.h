// SPDX-License-Identifier: Apache-2.0
//
// The plain C interface between ART's hooks and the recorder (Rust: art-hooks/src/recorder.rs), for
// calls that happen at every event or inside a signal handler.
//
// `cursor` is the address of Thread's cursor word, `state` what Thread's state word holds. All of the
// record functions are called by the traced thread itself, while `*cursor` is not 0.

#ifndef HINDSIGHT_RUNTIME_RECORDER_ABI_H_
#define HINDSIGHT_RUNTIME_RECORDER_ABI_H_

#include <stdint.h>

extern "C" {

// Appends the entry of the method at `method` (an ArtMethod*, 64 bits wide at most).
void hindsight_record_entry(uintptr_t* cursor, void* state, uint64_t method);

// Appends a method exit.
void hindsight_record_exit(uintptr_t* cursor, void* state);

// Appends: `frames` traced frames were left by an exception.
void hindsight_record_unwound(uintptr_t* cursor, void* state, uint64_t frames);

// For the handler of SIGSEGV: if a trace point of the thread with this state, whose code is at `pc`, ran
// onto the guard page at `fault_address` with `cursor_register` in the register that holds the cursor,
// counts a lap and returns the address to go on at; otherwise returns 0. Async-signal-safe.
uintptr_t hindsight_wrap(void* state,
                         uintptr_t fault_address,
                         uintptr_t cursor_register,
                         uintptr_t pc);

}  // extern "C"

#endif  // HINDSIGHT_RUNTIME_RECORDER_ABI_H_
