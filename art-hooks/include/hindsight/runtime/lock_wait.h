// SPDX-License-Identifier: Apache-2.0

#ifndef HINDSIGHT_RUNTIME_LOCK_WAIT_H_
#define HINDSIGHT_RUNTIME_LOCK_WAIT_H_

#include "base/macros.h"
#include "hindsight/runtime/recorder_abi.h"
#include "thread.h"

namespace art {
namespace hindsight {

// `self`, the calling thread, is about to wait for `lock`, which `owner` has and cannot end before it
// gives it up.
ALWAYS_INLINE inline void LockWait(Thread* self, Thread* owner, const void* lock) {
  ThreadWords* words = self->GetHindsightWords();
  if (UNLIKELY(words->cursor != 0u) && owner != nullptr) {
    hindsight_record_lock_wait(
        &words->cursor, words->state, owner->GetTid(), reinterpret_cast<uintptr_t>(lock));
  }
}

}  // namespace hindsight
}  // namespace art

#endif  // HINDSIGHT_RUNTIME_LOCK_WAIT_H_
