// SPDX-License-Identifier: Apache-2.0
//
// The C interface between the walk of a stack and the recorder (in Rust: art-hooks/src/stacks.rs). `state` is the value
// of the calling thread's ThreadWords::state.

#ifndef HINDSIGHT_RUNTIME_STACK_SAMPLE_ABI_H_
#define HINDSIGHT_RUNTIME_STACK_SAMPLE_ABI_H_

#include <stdint.h>

extern "C" {

// A frame. In Rust: hindsight_runtime::stacks::Frame.
struct HindsightFrame {
  // The MethodWord() of the method.
  uint64_t method;
  // Index of the instruction in the method's dex code; UINT32_MAX in a native method.
  uint32_t dex_pc;
  uint32_t unused;
};

// The number of frames that hindsight_begin_stack has memory for. In Rust: hindsight_runtime::stacks::MAX_FRAMES.
#define HINDSIGHT_MAX_FRAMES 256u

// How old the last stack must be: as old as the configured interval, an eighth of it, or of any age.
#define HINDSIGHT_STACK_IF_DUE 0u
#define HINDSIGHT_STACK_OF_WAKE 1u
#define HINDSIGHT_STACK_ALWAYS 2u

// Memory for the frames of the calling thread, innermost first, if its stack is wanted now; else null. Memory is allocated
// the first time.
HindsightFrame* hindsight_begin_stack(const void* state, uint32_t how);

// Records the stack of the calling thread, which is Runnable: `count` frames were written to hindsight_begin_stack's
// memory. `cut` is not 0 if there were more. `reason`: a StackReason.
void hindsight_end_stack(const void* state, uint32_t reason, uint32_t count, uint32_t cut);

// The calling thread asks for a stack: its next one is taken whenever the last one was. Returns 0 if none is wanted, because
// the last one is not older than the configured interval (not with `force`), or if one that was asked for is coming. With
// `force`, the thread may be in any state.
uint32_t hindsight_ask_for_stack(const void* state, uint32_t reason, uint32_t force);

// The calling thread will call hindsight_stack_asked_for() at its next safepoint.
void hindsight_stack_is_coming(const void* state);

// The reason of the stack that the calling thread has asked for, or HINDSIGHT_NO_REASON if it has taken a stack since. It is
// not asked for any more.
#define HINDSIGHT_NO_REASON UINT32_MAX
uint32_t hindsight_stack_asked_for(const void* state);

// The calling thread answers a request for its stack.
void hindsight_stack_request_done(const void* state);

}  // extern "C"

#endif  // HINDSIGHT_RUNTIME_STACK_SAMPLE_ABI_H_
