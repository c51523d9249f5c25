// SPDX-License-Identifier: Apache-2.0

#include "hindsight/runtime/stack_sample.h"

#include <algorithm>

#include "art_method-inl.h"
#include "base/mutex.h"
#include "hindsight/runtime/stack_requests.h"
#include "hindsight/runtime/stack_sample_abi.h"
#include "runtime.h"
#include "stack.h"
#include "thread-current-inl.h"
#include "thread_list.h"

namespace art {
namespace hindsight {

namespace {

// Writes the frames of managed methods, inlined ones included, innermost first. Allocates nothing.
class FrameCollector final : public StackVisitor {
 public:
  FrameCollector(Thread* self, HindsightFrame* frames) REQUIRES_SHARED(Locks::mutator_lock_)
      : StackVisitor(self, /* context= */ nullptr, StackWalkKind::kIncludeInlinedFrames),
        frames_(frames),
        count_(0u),
        cut_(false) {}

  bool VisitFrame() override REQUIRES_SHARED(Locks::mutator_lock_) {
    ArtMethod* method = GetMethod();
    if (method == nullptr || method->IsRuntimeMethod()) {
      return true;
    }
    if (count_ == HINDSIGHT_MAX_FRAMES) {
      cut_ = true;
      return false;
    }
    frames_[count_].method = reinterpret_cast<uintptr_t>(method);
    frames_[count_].dex_pc = GetDexPc(/* abort_on_failure= */ false);
    ++count_;
    return true;
  }

  uint32_t Count() const { return count_; }
  bool IsCut() const { return cut_; }

 private:
  HindsightFrame* const frames_;
  uint32_t count_;
  bool cut_;

  DISALLOW_COPY_AND_ASSIGN(FrameCollector);
};

// A request for a stack, which the thread itself answers.
class StackRequest final : public Closure {
 public:
  void Run(Thread* thread) override NO_THREAD_SAFETY_ANALYSIS {
    void* state = thread->GetHindsightWords()->state;
    if (thread != Thread::Current() || state == nullptr) {
      return;
    }
    hindsight_stack_request_done(state);
    SampleStack(thread, kStackReasonCheckpoint);
  }
};

}  // namespace

void TakeStack(Thread* self, StackReason reason, bool force) {
  void* state = self->GetHindsightWords()->state;
  HindsightFrame* frames = hindsight_begin_stack(state, force ? 1u : 0u);
  if (frames == nullptr) {
    return;
  }
  FrameCollector collector(self, frames);
  collector.WalkStack(/* include_transitions= */ false);
  hindsight_end_stack(state, reason, collector.Count(), collector.IsCut() ? 1u : 0u);
}

void RequestStacks(rust::Slice<const uint32_t> tids, rust::Slice<uint8_t> are_running) {
  static StackRequest request;
  Thread* self = Thread::Current();
  MutexLock thread_list(self, *Locks::thread_list_lock_);
  for (Thread* thread : Runtime::Current()->GetThreadList()->GetList()) {
    const uint32_t tid = thread->GetTid();
    const uint32_t* place = std::lower_bound(tids.data(), tids.data() + tids.size(), tid);
    if (place == tids.data() + tids.size() || *place != tid || !Records(thread, kCategoryStacks)) {
      continue;
    }
    MutexLock suspend_count(self, *Locks::thread_suspend_count_lock_);
    // Fails unless the thread is Runnable.
    if (thread->RequestCheckpoint(&request)) {
      are_running[place - tids.data()] = 1u;
    }
  }
}

}  // namespace hindsight
}  // namespace art
