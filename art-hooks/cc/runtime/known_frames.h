// SPDX-License-Identifier: Apache-2.0
//
// What ART's walk of stacks has found out about frames of compiled code, so that it need not be found out again.

#ifndef HINDSIGHT_RUNTIME_KNOWN_FRAMES_H_
#define HINDSIGHT_RUNTIME_KNOWN_FRAMES_H_

#include <stddef.h>
#include <stdint.h>

#include "base/macros.h"
#include "hindsight/runtime/stack_sample_abi.h"

namespace art {
namespace hindsight {

// The frames of a stack, innermost first, in memory for HINDSIGHT_MAX_FRAMES of them.
struct FrameList {
  HindsightFrame* frames;
  uint32_t count;
  // Whether there are more than fit.
  bool is_cut;

  // False if there is no room.
  bool Add(uint64_t method, uint32_t dex_pc) {
    if (UNLIKELY(count == HINDSIGHT_MAX_FRAMES)) {
      is_cut = true;
      return false;
    }
    frames[count].method = method;
    frames[count].dex_pc = dex_pc;
    ++count;
    return true;
  }
};

// How a frame was entered, if not by a call from another frame of the same fragment: there the return address says it.
static constexpr uintptr_t kTopOfFragment = 0u;
static constexpr uintptr_t kGenericJniFrame = 1u;
static constexpr uintptr_t kJitJniFrame = 2u;

// The code that is in memory. Two equal values say that no code was replaced in between: code compiled ahead of time is
// replaced only when class loaders are unloaded, the JIT's also when it has compiled anything.
struct CodeVersions {
  uint64_t ahead;
  uint64_t jit;
};

// The versions now.
CodeVersions CurrentCode();

// A class loader is unloaded, or tracing starts: all that is known is forgotten.
void ForgetKnownFrames();

// A physical frame of compiled code. What it stands for follows from these values alone, because a return address
// identifies the place in the code, and that the code's frame and its inlined methods.
struct FrameKey {
  // The word at the frame's address.
  uintptr_t method;
  // The address to which it returns inside the method: the place of its call. Or one of the constants above.
  uintptr_t pc;
  // The version of its code, from CurrentCode().
  uint64_t version;
};

// Adds the managed frames that the frame stands for, none for a frame of the runtime, and sets its size in bytes. False if it
// is not known; frames may have been added then.
bool AddKnownFrames(const FrameKey& key, FrameList* list, size_t* size);

// What AddKnownFrames() will find: `count` frames, and the size in bytes. Too many frames are not remembered.
void RememberFrames(const FrameKey& key, const HindsightFrame* frames, size_t count, size_t size);

}  // namespace hindsight
}  // namespace art

#endif  // HINDSIGHT_RUNTIME_KNOWN_FRAMES_H_
