// SPDX-License-Identifier: Apache-2.0

#include "hindsight/runtime/frames.h"

#include <vector>

#include "art_method-inl.h"
#include "hindsight/compat.h"
#include "hindsight/runtime/events.h"
#include "hindsight/runtime/method_word.h"
#include "hindsight/runtime/recorder_abi.h"
#include "hindsight/runtime/stack_sample.h"
#include "interpreter/shadow_frame-inl.h"
#include "jit/jit.h"
#include "jit/jit_code_cache.h"
#include "oat_quick_method_header.h"
#include "runtime.h"
#include "stack.h"
#include "stack_map.h"
#include "well_known_classes.h"

namespace art {
namespace hindsight {

namespace {

// Whether `header` is OSR code, which the interpreter enters in the middle of the method.
bool IsOsrCode(ArtMethod* method, const OatQuickMethodHeader* header)
    REQUIRES_SHARED(Locks::mutator_lock_) {
  jit::Jit* jit = Runtime::Current()->GetJit();
  return jit != nullptr && jit->GetCodeCache()->LookupOsrMethodHeader(method) == header;
}

// Whether `header` is a JNI stub, whose events are recorded where it enters and leaves native code. The compiler's own
// code for a native method that is an intrinsic is like the code of other methods: if it can throw, it has a stack map.
// A stub has none.
bool IsJniStub(ArtMethod* method, const OatQuickMethodHeader* header)
    REQUIRES_SHARED(Locks::mutator_lock_) {
  return method->IsNative() && CodeInfo(header).GetNumberOfStackMaps() == 0u;
}

// Counts the compiled frames above the frame of the catch handler (or the upcall) that have recorded an entry and will
// not record an exit.
class UnwoundFrameCounter final : public StackVisitor {
 public:
  UnwoundFrameCounter(Thread* self, ArtMethod** handler_frame)
      REQUIRES_SHARED(Locks::mutator_lock_)
      // Inlined methods have no trace points.
      : StackVisitor(self, /* context= */ nullptr, StackWalkKind::kSkipInlinedFrames),
        handler_frame_(handler_frame),
        count_(0u) {}

  bool VisitFrame() override REQUIRES_SHARED(Locks::mutator_lock_) {
    ArtMethod* method = GetMethod();
    if (method == nullptr || GetCurrentQuickFrame() == handler_frame_) {
      return false;
    }
    const OatQuickMethodHeader* header = GetCurrentOatQuickMethodHeader();
    if (!method->IsRuntimeMethod() &&
        header != nullptr &&
        HasTracedFrames(header) &&
        !IsLeftOut(method) &&
        !IsJniStub(method, header) &&
        (kOsrCodeRecordsExit || !IsOsrCode(method, header))) {
      ++count_;
    }
    return true;
  }

  size_t Count() const { return count_; }

 private:
  ArtMethod** const handler_frame_;
  size_t count_;

  DISALLOW_COPY_AND_ASSIGN(UnwoundFrameCounter);
};

}  // namespace

void RecordEntry(Thread* self, ArtMethod* method) {
  hindsight_record_entry(self->GetHindsightWords()->state, MethodWord(method));
}

void RecordExit(Thread* self) {
  hindsight_record_exit(self->GetHindsightWords()->state);
}

#if HINDSIGHT_ART < 14  // See interpreted_frames.h.

DeoptimizedFrame::DeoptimizedFrame(Thread* self, ShadowFrame* frame)
    : self_(self), records_exit_(!frame->IsTraceExitElsewhere()) {
  if (LIKELY(!frame->IsTraceEntryMissing())) {
    return;
  }
  std::vector<ArtMethod*> missing;
  for (; frame != nullptr && frame->IsTraceEntryMissing(); frame = frame->GetLink()) {
    frame->SetTraceEntryMissing(false);
    if (!frame->IsTraceExitElsewhere()) {
      missing.push_back(frame->GetMethod());
    }
  }
  if (IsTraced(self)) {
    for (auto it = missing.rbegin(); it != missing.rend(); ++it) {
      RecordEntry(self, *it);
    }
  }
}

void MarkDeoptimizedFrame(const StackVisitor& visitor, ShadowFrame* new_frame) {
  const bool is_inlined = visitor.IsInInlinedFrame();
  if (is_inlined) {
    new_frame->SetTraceEntryMissing(true);
  }
  if (IsLeftOut(visitor.GetMethod()) ||
      (!is_inlined && IsOsrCode(visitor.GetMethod(), visitor.GetCurrentOatQuickMethodHeader()))) {
    new_frame->SetTraceExitElsewhere();
  }
}

#endif

void SampleNativeMethod(Thread* self) {
  ArtMethod* method = *self->GetManagedStack()->GetTopQuickFrame();
  if (method == MethodOf<ArtMethod>(WellKnownClasses::java_lang_Runtime_nativeLoad)) {
    SampleStack(self, kStackReasonLibraryLoad, /* force= */ true);
  } else if (!method->IsFastNative()) {
    SampleStack(self, kStackReasonNativeCall);
  }
}

void FramesUnwound(Thread* self, ArtMethod** handler_frame) {
  if (LIKELY(!IsTraced(self))) {
    return;
  }
  UnwoundFrameCounter counter(self, handler_frame);
  counter.WalkStack(/* include_transitions= */ true);
  if (counter.Count() != 0u) {
    Record(self, kUnwound, PackUnwound(counter.Count()));
  }
}

}  // namespace hindsight
}  // namespace art
