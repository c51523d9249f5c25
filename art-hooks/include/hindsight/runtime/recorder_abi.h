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

// Appends: the thread is about to wait for a lock that the thread `owner_tid` has. `lock` tells locks
// apart.
void hindsight_record_lock_wait(uintptr_t* cursor, void* state, uint32_t owner_tid, uint64_t lock);

// Who wakes the thread is not known yet.
void hindsight_forget_waker(const void* state);

// Appends: the thread was woken by the one that its state names since hindsight_forget_waker. Appends
// nothing if that is none.
void hindsight_record_woken(uintptr_t* cursor, void* state);

// The rest is for the handler of SIGSEGV, and async-signal-safe.

// Whether `fault_address` is where a trace point of the thread with this state hits the guard page.
bool hindsight_is_at_guard(const void* state, uintptr_t fault_address);

// 32-bit ARM: the number of the register that the trace point whose store is at `pc`, Thumb code that
// can be read, has the cursor in; -1 if there is no store of a trace point.
int32_t hindsight_cursor_register(uintptr_t pc);

// If a trace point of the thread with this state ran onto the guard page at `fault_address` with
// `cursor_register` in the register that holds the cursor, counts a lap and returns the address to go on
// at; otherwise returns 0. `pc` is where its code is, or 0 if that is known to be a trace point's.
uintptr_t hindsight_wrap(void* state,
                         uintptr_t fault_address,
                         uintptr_t cursor_register,
                         uintptr_t pc);

}  // extern "C"

#endif  // HINDSIGHT_RUNTIME_RECORDER_ABI_H_
