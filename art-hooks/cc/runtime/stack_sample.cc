// SPDX-License-Identifier: Apache-2.0

#include "hindsight/runtime/stack_sample.h"

#include "art_method-inl.h"
#include "hindsight/runtime/stack_sample_abi.h"
#include "stack.h"

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

}  // namespace hindsight
}  // namespace art
