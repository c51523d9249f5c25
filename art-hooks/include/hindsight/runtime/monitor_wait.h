// SPDX-License-Identifier: Apache-2.0

#ifndef HINDSIGHT_RUNTIME_MONITOR_WAIT_H_
#define HINDSIGHT_RUNTIME_MONITOR_WAIT_H_

#include <atomic>

#include "base/mutex.h"
#include "hindsight/runtime/frames.h"
#include "hindsight/runtime/lock_wait.h"

namespace art {
namespace hindsight {

// Records that `self`, the calling thread, is about to wait for `lock`. The owner may release it and end at any moment,
// but it cannot be deleted while the thread list is locked.
template <typename AtomicOwner>
inline void MonitorWait(Thread* self, const AtomicOwner& owner, const void* lock)
    REQUIRES(!Locks::thread_list_lock_) {
  if (IsTraced(self)) {
    MutexLock thread_list(self, *Locks::thread_list_lock_);
    LockWait(self, owner.load(std::memory_order_relaxed), lock);
  }
}

}  // namespace hindsight
}  // namespace art

#endif  // HINDSIGHT_RUNTIME_MONITOR_WAIT_H_
