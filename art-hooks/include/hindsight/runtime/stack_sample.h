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

// As TakeStack, if `self` records stacks. `self` is Runnable, and its managed frames are complete: it came from managed
// code by a runtime method or a native method, or runs the interpreter.
ALWAYS_INLINE inline void SampleStack(Thread* self, StackReason reason, bool force = false)
    REQUIRES_SHARED(Locks::mutator_lock_) {
  if (Records(self, kCategoryStacks)) {
    TakeStack(self, reason, force);
  }
}

// As TakeStack, where the stack cannot be walked: it is taken at the thread's next safepoint, or, if the thread is not
// Runnable, at its next hook. The thread may hold any locks but those of the thread list.
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
