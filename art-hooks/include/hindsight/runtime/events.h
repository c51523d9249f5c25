// SPDX-License-Identifier: Apache-2.0
//
// Recording of events (event_numbers.h) by the thread that they happen on. A hook costs a load and a branch while its
// category is off.

#ifndef HINDSIGHT_RUNTIME_EVENTS_H_
#define HINDSIGHT_RUNTIME_EVENTS_H_

#include <array>

#include "base/locks.h"
#include "base/macros.h"
#include "hindsight/runtime/event_numbers.h"
#include "hindsight/runtime/recorder_abi.h"
#include "thread.h"

namespace art {
namespace hindsight {

// The categories of events that `thread` records now.
ALWAYS_INLINE inline uint32_t CategoriesOf(Thread* thread) {
  return __atomic_load_n(&thread->GetHindsightWords()->events, __ATOMIC_RELAXED);
}

// Whether `self`, the calling thread, records any of these categories.
ALWAYS_INLINE inline bool Records(Thread* self, uint32_t categories) {
  return UNLIKELY((CategoriesOf(self) & categories) != 0u);
}

// Records an event, for instance Record(self, kWakes, PackWakes(tid, number)). `self`, the calling thread, records its
// category and is Runnable.
template <size_t kWords>
inline void Record(Thread* self, uint32_t number, const std::array<uint64_t, kWords>& payload) {
  hindsight_record_event(self->GetHindsightWords()->state, number, payload.data(), kWords);
}

inline void Record(Thread* self, uint32_t number) {
  hindsight_record_event(self->GetHindsightWords()->state, number, nullptr, 0u);
}

// As Record(), in any state of the thread.
template <size_t kWords>
inline void RecordInAnyState(Thread* self,
                             uint32_t number,
                             const std::array<uint64_t, kWords>& payload) {
  void* state = self->GetHindsightWords()->state;
  if (self->GetState() == ThreadState::kRunnable) {
    hindsight_record_event(state, number, payload.data(), kWords);
  } else {
    hindsight_record_event_suspended(state, number, payload.data(), kWords);
  }
}

// Bytes that `thread` has allocated in its present buffer.
ALWAYS_INLINE inline size_t BytesInBuffer(Thread* thread) {
  return thread->GetThreadLocalBytesAllocated() - thread->TlabSize();
}

// Lets `thread` take its stack soon, if it is the calling thread. It may hold locks of the heap.
void SampleAllocation(Thread* thread);

// Called before `thread` gets another allocation buffer, or none: by the thread itself, or while it is suspended.
ALWAYS_INLINE inline void CountAllocations(Thread* thread) {
  ThreadWords* words = thread->GetHindsightWords();
  words->allocated_objects += thread->GetThreadLocalObjectsAllocated();
  words->allocated_bytes += BytesInBuffer(thread);
  if (Records(thread, kCategoryStacks)) {
    SampleAllocation(thread);
  }
}

// Records the CPU time, allocations, page faults and context switches of `self`, the calling thread, at most once a
// millisecond. The thread is Runnable. Objects outside of allocation buffers, which are large ones, are not counted.
ALWAYS_INLINE inline void RecordResources(Thread* self) {
  if (Records(self, kCategoryResources)) {
    ThreadWords* words = self->GetHindsightWords();
    hindsight_record_resources(words->state,
                               words->allocated_objects + self->GetThreadLocalObjectsAllocated(),
                               words->allocated_bytes + BytesInBuffer(self));
  }
}

// Whether this is one of Hindsight's requests for a stack.
bool IsStackRequest(const Closure* work);

// RAII scope of work that the runtime does on `thread`. If another thread does it on its behalf, or the work is to take a
// stack, nothing is recorded.
class CheckpointScope {
 public:
  ALWAYS_INLINE CheckpointScope(Thread* thread, const Closure* work)
      : thread_(Records(thread, kCategoryRuntime) ? Begin(thread, work) : nullptr) {}

  ALWAYS_INLINE ~CheckpointScope() {
    // The work may have been to turn events off.
    if (UNLIKELY(thread_ != nullptr) && Records(thread_, kCategoryRuntime)) {
      Record(thread_, kCheckpointEnd);
    }
  }

 private:
  static Thread* Begin(Thread* thread, const Closure* work) {
    if (thread != Thread::Current() || thread->GetState() != ThreadState::kRunnable ||
        IsStackRequest(work)) {
      return nullptr;
    }
    Record(thread, kCheckpointBegin);
    return thread;
  }

  Thread* const thread_;

  DISALLOW_COPY_AND_ASSIGN(CheckpointScope);
};

}  // namespace hindsight
}  // namespace art

#endif  // HINDSIGHT_RUNTIME_EVENTS_H_
