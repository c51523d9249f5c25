// SPDX-License-Identifier: Apache-2.0

#ifndef HINDSIGHT_RUNTIME_LOCK_WAIT_H_
#define HINDSIGHT_RUNTIME_LOCK_WAIT_H_

#include "base/macros.h"
#include "hindsight/runtime/lifecycle.h"
#include "hindsight/runtime/recorder_abi.h"
#include "thread.h"

namespace art {
namespace hindsight {

// Records that `self`, the calling thread, is about to wait for `lock`. `owner` holds it, and does not end before it
// releases it.
ALWAYS_INLINE inline void LockWait(Thread* self, Thread* owner, const void* lock) {
  ThreadWords* words = self->GetHindsightWords();
  if (UNLIKELY(words->cursor != 0u) && owner != nullptr) {
    hindsight_record_lock_wait(
        &words->cursor, words->state, owner->GetTid(), reinterpret_cast<uintptr_t>(lock));
  }
}

// The scope in which `self`, the calling thread, may wait until another thread wakes it. At the end of the scope,
// records the thread that woke it, if any.
class Waiting {
 public:
  ALWAYS_INLINE explicit Waiting(Thread* self) : words_(self->GetHindsightWords()) {
    if (UNLIKELY(words_->cursor != 0u)) {
      hindsight_forget_waker(words_->state);
    }
  }

  ALWAYS_INLINE ~Waiting() {
    if (UNLIKELY(words_->cursor != 0u)) {
      hindsight_record_woken(&words_->cursor, words_->state);
    }
  }

 private:
  ThreadWords* const words_;

  DISALLOW_COPY_AND_ASSIGN(Waiting);
};

// `self`, the calling thread, is about to wake `thread`, which is in a Waiting scope and cannot be deleted during the
// call.
ALWAYS_INLINE inline void Wakes(Thread* self, Thread* thread) {
  if (UNLIKELY(__atomic_load_n(&thread->GetHindsightWords()->cursor, __ATOMIC_RELAXED) != 0u)) {
    ThreadWoken(thread, self);
  }
}

}  // namespace hindsight
}  // namespace art

#endif  // HINDSIGHT_RUNTIME_LOCK_WAIT_H_
