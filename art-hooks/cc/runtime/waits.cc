// SPDX-License-Identifier: Apache-2.0

#include "hindsight/runtime/waits.h"

#include "hindsight/compat.h"
#include "hindsight/runtime/object_identity.h"
#include "hindsight/runtime/stack_sample.h"
#include "runtime.h"

namespace art {
namespace hindsight {

namespace {

// The stack of a thread that wakes others or releases a lock: it shows what they waited for.
void SampleStackOfWake(Thread* self) REQUIRES_SHARED(Locks::mutator_lock_) {
  if (self->GetState() == ThreadState::kRunnable) {
    SampleStack(self, kStackReasonWakes, /* force= */ true);
  }
}

// `self`, the calling thread, ends the wait with this number of `thread`. False if it runs: its next park will not wait.
bool RecordWakes(Thread* self, Thread* thread, uint32_t wait) {
  if (thread == self) {
    return false;
  }
  if (CategoriesOf(thread) != 0u && wait != 0u) {
    const uint32_t waker = PackWaker(self->GetTid(), wait);
    __atomic_store_n(&thread->GetHindsightWords()->waker, waker, __ATOMIC_RELAXED);
  }
  if (Records(self, kCategoryWaits)) {
    RecordInAnyState(self, kWakes, PackWakes(thread->GetTid(), wait));
  }
  return true;
}

}  // namespace

void RecordWaitBegin(
    Thread* self, uint32_t kind, uint32_t number, uint64_t object, uint64_t timeout_ns) {
  if (Records(self, kCategoryWaits)) {
    Record(self, kWaitBegin, PackWaitBegin(kind, number, object, timeout_ns));
  }
  SampleStack(self, kStackReasonWaitBegins);
  RecordResources(self);
}

void RecordWaitEnd(Thread* self, uint32_t kind, uint32_t number, uint32_t result) {
  if (Records(self, kCategoryWaits)) {
    Record(self, kWaitEnd, PackWaitEnd(kind, result, number));
  }
  SampleStack(self, kStackReasonWaitEnds);
  RecordResources(self);
}

void LockWait::Begin(uint32_t owner_tid, const void* lock) {
  if (owner_tid != 0u && Records(self_, kAnyWaitEvent)) {
    Record(self_, kLockWait, PackLockWait(owner_tid, reinterpret_cast<uintptr_t>(lock)));
  }
  RecordWaitBegin(self_, kWaitKindLock, number_, reinterpret_cast<uintptr_t>(lock), /* timeout_ns= */ 0u);
}

void Waiting::End() {
  const uint32_t waker =
      WakerOf(__atomic_load_n(&self_->GetHindsightWords()->waker, __ATOMIC_RELAXED), number_);
  if (waker != 0u && Records(self_, kAnyWaitEvent)) {
    Record(self_, kWokenBy, PackWokenBy(waker));
  }
  uint32_t result = kWaitResultSignalled;
  if (outcome_.interrupted != nullptr ? *outcome_.interrupted : self_->IsInterrupted()) {
    result = kWaitResultInterrupted;
  } else if (*outcome_.timed_out) {
    result = kWaitResultTimedOut;
  }
  RecordWaitEnd(self_, kind_, number_, result);
}

// Called by the thread itself, which is Runnable.
const void* Parked::Blocker(Thread* self) NO_THREAD_SAFETY_ANALYSIS {
  static const MemberOffset offset = [self]() NO_THREAD_SAFETY_ANALYSIS {
    ArtField* field = self->GetPeer()->GetClass()->FindInstanceField("parkBlocker", "Ljava/lang/Object;");
    return field != nullptr ? field->GetOffset() : MemberOffset(0u);
  }();
  if (self->GetPeer() == nullptr || offset.Uint32Value() == 0u) {
    return nullptr;
  }
  ObjPtr<mirror::Object> blocker = self->GetPeer()->GetFieldObjectVolatile<mirror::Object>(offset);
  return reinterpret_cast<const void*>(static_cast<uintptr_t>(IdentityOf(blocker)));
}

GcWait::GcWait(Thread* self) : self_(self), number_(BeginWait(self)) {
  if (number_ != 0u && Records(self, kCategoryWaits)) {
    RecordInAnyState(self, kWaitBegin, PackWaitBegin(kWaitKindGc, number_, 0u, 0u));
  }
}

GcWait::~GcWait() {
  if (number_ != 0u && Records(self_, kCategoryWaits)) {
    RecordInAnyState(self_, kWaitEnd, PackWaitEnd(kWaitKindGc, kWaitResultSignalled, number_));
  }
  // The stack cannot be walked here. It is the same when the thread gets memory, and asks for a stack again.
  SampleStackSoon(self_, kStackReasonGcWait, /* force= */ true);
}

void RecordInterrupts(Thread* self, Thread* thread) {
  if (RecordWakes(self, thread, WaitOf(thread))) {
    // Not now: a walk may take locks that come before the mutex of a wait.
    SampleStackSoon(self, kStackReasonWakes, /* force= */ true);
  }
}

void RecordUnparks(Thread* self, Thread* thread, uint32_t wait) {
  if (RecordWakes(self, thread, wait)) {
    SampleStackOfWake(self);
  }
}

void RecordNotified(Thread* self, Thread* first, bool all) {
  bool wakes = false;
  Thread* thread = first;
  do {
    // In the list are also threads that were interrupted, or whose time was up, until they own the monitor again.
    MutexLock wait(self, *thread->GetWaitMutex());
    if (thread->GetWaitMonitor() != nullptr) {
      wakes |= RecordWakes(self, thread, WaitOf(thread));
    }
    thread = thread->GetWaitNext();
  } while (all && thread != nullptr);
  if (wakes) {
    SampleStackOfWake(self);
  }
}

void RecordReleased(Thread* self, const void* lock, size_t waiters) {
  const size_t itself = self->GetState() == ThreadState::kRunnable ? 0u : 1u;
  if (waiters > itself) {
    const uint64_t number = reinterpret_cast<uintptr_t>(lock);
    RecordInAnyState(self, kReleased, PackReleased(number, waiters - itself));
    SampleStackOfWake(self);
  }
}

}  // namespace hindsight
}  // namespace art
