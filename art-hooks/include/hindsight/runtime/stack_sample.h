// SPDX-License-Identifier: Apache-2.0
//
// Stacks that threads take of themselves, at hooks where their stack can be walked.

#ifndef HINDSIGHT_RUNTIME_STACK_SAMPLE_H_
#define HINDSIGHT_RUNTIME_STACK_SAMPLE_H_

#include "base/locks.h"
#include "base/macros.h"
#include "hindsight/runtime/events.h"

namespace art {
namespace hindsight {

// Takes the stack of `self`, the calling thread, if it is wanted now; `force` takes it in any case. Takes ART's lock of the
// JIT's code, so the thread must hold no lock that is acquired after that one.
void TakeStack(Thread* self, StackReason reason, bool force) REQUIRES_SHARED(Locks::mutator_lock_);

// As TakeStack, if `self` records stacks. `self` is Runnable, and its managed frames are all linked to it: it came from
// managed code by a runtime method or a native method, or runs the interpreter.
ALWAYS_INLINE inline void SampleStack(Thread* self, StackReason reason, bool force = false)
    REQUIRES_SHARED(Locks::mutator_lock_) {
  if (Records(self, kCategoryStacks)) {
    TakeStack(self, reason, force);
  }
}

// As TakeStack, where the stack cannot be walked. If the thread is Runnable, it takes its stack at its next safepoint, for this
// reason. If it takes another stack earlier, or is not Runnable, the next stack of any hook takes this one's place: it is taken
// even if it is not due, for its own reason. Allocates nothing unless ART has another request for the thread. The thread may
// hold any locks but those of the thread list.
void TakeStackSoon(Thread* self, StackReason reason, bool force);

// As TakeStackSoon, if `self` records stacks. Without `force`, it is Runnable.
ALWAYS_INLINE inline void SampleStackSoon(Thread* self, StackReason reason, bool force = false) {
  if (Records(self, kCategoryStacks)) {
    TakeStackSoon(self, reason, force);
  }
}

}  // namespace hindsight
}  // namespace art

#endif  // HINDSIGHT_RUNTIME_STACK_SAMPLE_H_
