// SPDX-License-Identifier: Apache-2.0
//
// Events of waits: when a thread begins to wait, for which object, how the wait ends, and which thread ends it.
//
// Each thread counts its waits. The thread that ends a wait records the wait's number, so that readers can join the two
// ends without comparing times.

#ifndef HINDSIGHT_RUNTIME_WAITS_H_
#define HINDSIGHT_RUNTIME_WAITS_H_

#include "base/locks.h"
#include "base/macros.h"
#include "base/mutex.h"
#include "hindsight/runtime/events.h"
#include "hindsight/runtime/lifecycle.h"  // For Android 14's thread.cc, which has one line for both headers.
#include "thread-current-inl.h"

namespace art {
namespace hindsight {

// Bits of a thread's kernel id: the largest is 2^22 - 1.
static constexpr uint32_t kTidBits = 22u;

// A value of ThreadWords::waker: the wait's number has the bits above the id.
constexpr uint32_t PackWaker(uint32_t tid, uint32_t wait) {
  return (tid & ((1u << kTidBits) - 1u)) | (wait << kTidBits);
}

// The thread in `waker` if it has ended the wait with this number, otherwise 0. The numbers' low bits are compared.
constexpr uint32_t WakerOf(uint32_t waker, uint32_t wait) {
  return (waker ^ PackWaker(0u, wait)) >> kTidBits == 0u ? waker & ((1u << kTidBits) - 1u) : 0u;
}

// What a thread records about its own waits: the events LockWait and WokenBy also if the category is off.
static constexpr uint32_t kAnyWaitEvent = kCategoryRecording | kCategoryWaits;

// Begins a wait of `self`, the calling thread, which nobody can end yet. Returns its number; 0 while nothing is recorded.
ALWAYS_INLINE inline uint32_t BeginWait(Thread* self) {
  if (LIKELY(!Records(self, kAnyWaitEvent))) {
    return 0u;
  }
  ThreadWords* words = self->GetHindsightWords();
  // 0 is the number of no wait.
  const uint32_t number = words->wait_number + 1u == 0u ? 1u : words->wait_number + 1u;
  __atomic_store_n(&words->wait_number, number, __ATOMIC_RELAXED);
  return number;
}

// Records the two ends of a wait. Out of line: the threads wait anyway. `self`, the calling thread, is Runnable.
void RecordWaitBegin(
    Thread* self, uint32_t kind, uint32_t number, uint64_t object, uint64_t timeout_ns)
    NO_THREAD_SAFETY_ANALYSIS;
void RecordWaitEnd(Thread* self, uint32_t kind, uint32_t number, uint32_t result)
    NO_THREAD_SAFETY_ANALYSIS;

// RAII scope in which `self`, the calling thread, waits for the monitor `lock`, which `owner` holds. The owner does not end
// before it releases the monitor.
class LockWait {
 public:
  ALWAYS_INLINE LockWait(Thread* self, Thread* owner, const void* lock)
      : self_(self), number_(BeginWait(self)) {
    if (UNLIKELY(number_ != 0u)) {
      Begin(owner != nullptr ? owner->GetTid() : 0, lock);
    }
  }

  ALWAYS_INLINE ~LockWait() {
    if (UNLIKELY(number_ != 0u)) {
      RecordWaitEnd(self_, kWaitKindLock, number_, kWaitResultSignalled);
    }
  }

 protected:
  LockWait(Thread* self) : self_(self), number_(BeginWait(self)) {}

  void Begin(uint32_t owner_tid, const void* lock);

  Thread* const self_;
  const uint32_t number_;

  DISALLOW_COPY_AND_ASSIGN(LockWait);
};

// As LockWait, where the owner may release the monitor and end at any moment. It cannot be deleted while the thread list is
// locked.
class MonitorWait : LockWait {
 public:
  template <typename AtomicOwner>
  MonitorWait(Thread* self, const AtomicOwner& owner, const void* lock)
      REQUIRES(!Locks::thread_list_lock_)
      : LockWait(self) {
    if (UNLIKELY(number_ != 0u)) {
      uint32_t owner_tid = 0u;
      {
        MutexLock thread_list(self, *Locks::thread_list_lock_);
        Thread* thread = owner.load(std::memory_order_relaxed);
        owner_tid = thread != nullptr ? thread->GetTid() : 0;
      }
      Begin(owner_tid, lock);
    }
  }
};

// The outcome of a wait, where it is a local variable of ART's.
struct WaitOutcome {
  const bool* timed_out;
  const bool* interrupted;
};

// RAII scope in which `self`, the calling thread, waits until another thread wakes it. Created and destroyed while it is
// Runnable. `number` is the value of BeginWait().
class Waiting {
 public:
  ALWAYS_INLINE Waiting(Thread* self,
                        uint32_t number,
                        uint32_t kind,
                        const void* object,
                        uint64_t timeout_ns,
                        WaitOutcome outcome)
      : self_(self), number_(number), kind_(kind), outcome_(outcome) {
    if (UNLIKELY(number_ != 0u)) {
      RecordWaitBegin(self_, kind_, number_, reinterpret_cast<uintptr_t>(object), timeout_ns);
    }
  }

  // A wait for `monitor` by Object.wait or Thread.sleep.
  ALWAYS_INLINE Waiting(Thread* self,
                        const void* monitor,
                        ThreadState why,
                        int64_t ms,
                        int32_t ns,
                        const bool& timed_out,
                        const bool& interrupted)
      : Waiting(self,
                BeginWait(self),
                why == ThreadState::kSleeping ? kWaitKindSleep : kWaitKindObject,
                monitor,
                why == ThreadState::kWaiting ? 0u : Nanoseconds(ms, ns),
                {&timed_out, &interrupted}) {}

  ALWAYS_INLINE ~Waiting() {
    if (UNLIKELY(number_ != 0u)) {
      End();
    }
  }

 private:
  // At least 1, which says that there is a limit, and at most 292 years.
  static uint64_t Nanoseconds(int64_t ms, int32_t ns) {
    constexpr int64_t kLongest = INT64_MAX / 1000000 - 1;
    return static_cast<uint64_t>(std::max<int64_t>(std::min(ms, kLongest) * 1000000 + ns, 1));
  }

  void End();

  Thread* const self_;
  const uint32_t number_;
  const uint32_t kind_;
  const WaitOutcome outcome_;

  DISALLOW_COPY_AND_ASSIGN(Waiting);
};

// RAII scope in which `self`, the calling thread, is parked. `number` is the value of BeginWait() before the thread could be
// unparked.
class Parked : Waiting {
 public:
  ALWAYS_INLINE Parked(
      Thread* self, uint32_t number, bool is_absolute, int64_t time, const bool& timed_out)
      : Waiting(self,
                number,
                kWaitKindPark,
                number != 0u ? Blocker(self) : nullptr,
                Timeout(is_absolute, time),
                {&timed_out, nullptr}) {}

 private:
  // The identity of the object that the thread says it is parked for.
  static const void* Blocker(Thread* self);

  static uint64_t Timeout(bool is_absolute, int64_t time) {
    // An absolute time is a date; that there is a limit is said by any other number than 0.
    return is_absolute ? 1u : static_cast<uint64_t>(std::max<int64_t>(time, 0));
  }
};

// RAII scope in which `self`, the calling thread, waits for a garbage collection. The thread is not Runnable.
class GcWait {
 public:
  explicit GcWait(Thread* self);
  ~GcWait();

 private:
  Thread* const self_;
  const uint32_t number_;

  DISALLOW_COPY_AND_ASSIGN(GcWait);
};

// The number of the wait in which `thread` is, or was last.
ALWAYS_INLINE inline uint32_t WaitOf(Thread* thread) {
  return __atomic_load_n(&thread->GetHindsightWords()->wait_number, __ATOMIC_RELAXED);
}

// `self`, the calling thread, ends the wait of `thread`, which cannot leave it during the call: the mutex of its wait is held.
void RecordInterrupts(Thread* self, Thread* thread) NO_THREAD_SAFETY_ANALYSIS;

ALWAYS_INLINE inline void Wakes(Thread* self, Thread* thread) {
  if (UNLIKELY(CategoriesOf(thread) != 0u) || Records(self, kCategoryWaits)) {
    RecordInterrupts(self, thread);
  }
}

// `self`, the calling thread, owns a monitor and notifies `first`, the first thread that waits in it, or all of them: a list.
// It is the notification that ends their waits, although each thread goes on only when the monitor is released.
void RecordNotified(Thread* self, Thread* first, bool all) NO_THREAD_SAFETY_ANALYSIS;

ALWAYS_INLINE inline void Notifies(Thread* self, Thread* first) {
  if (UNLIKELY(CategoriesOf(first) != 0u) || Records(self, kCategoryWaits)) {
    RecordNotified(self, first, /* all= */ false);
  }
}

ALWAYS_INLINE inline void NotifiesAll(Thread* self, Thread* first) {
  if (UNLIKELY(CategoriesOf(first) != 0u) || Records(self, kCategoryWaits)) {
    RecordNotified(self, first, /* all= */ true);
  }
}

// `self`, the calling thread, ends the wait with this number of `thread`, which cannot be deleted during the call. 0 is a
// number that is not known.
void RecordUnparks(Thread* self, Thread* thread, uint32_t wait) NO_THREAD_SAFETY_ANALYSIS;

// As Wakes(), where no mutex is held: `thread` may have left the wait in which it was before the permit was given, and wait
// again. `before` is WaitOf(thread) before that.
ALWAYS_INLINE inline void Unparks(Thread* self, Thread* thread, uint32_t before) {
  if (UNLIKELY(CategoriesOf(thread) != 0u) || Records(self, kCategoryWaits)) {
    RecordUnparks(self, thread, before == WaitOf(thread) ? before : 0u);
  }
}

// `self`, the calling thread, releases the monitor `lock`. `waiters` wait for it, or in it for a notification; the thread itself
// is one of them if it releases the monitor because it begins to wait, which it does while it is not Runnable.
void RecordReleased(Thread* self, const void* lock, size_t waiters) NO_THREAD_SAFETY_ANALYSIS;

ALWAYS_INLINE inline void Released(Thread* self, const void* lock, size_t waiters) {
  if (Records(self, kCategoryWaits) && waiters != 0u) {
    RecordReleased(self, lock, waiters);
  }
}

}  // namespace hindsight
}  // namespace art

#endif  // HINDSIGHT_RUNTIME_WAITS_H_
