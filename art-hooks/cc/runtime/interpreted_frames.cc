// SPDX-License-Identifier: Apache-2.0

#include "hindsight/compat.h"

#if HINDSIGHT_ART >= 14

#include "hindsight/runtime/interpreted_frames.h"

#include <vector>

#include "hindsight/runtime/thread_offsets.h"
#include "hindsight/runtime/trivial_methods_default.h"
#include "interpreter/shadow_frame-inl.h"
#include "stack.h"

namespace art {
namespace hindsight {

// nterp_trace_points.S computes these offsets from the cursor's.
static_assert(ExitStubOffset<kRuntimePointerSize>().Int32Value() ==
              CursorOffset<kRuntimePointerSize>().Int32Value() +
                  3 * static_cast<int32_t>(sizeof(void*)));
static_assert(LeafStubOffset<kRuntimePointerSize>().Int32Value() ==
              CursorOffset<kRuntimePointerSize>().Int32Value() +
                  4 * static_cast<int32_t>(sizeof(void*)));

#if defined(HINDSIGHT_NTERP_ASKS)
// Called by nterp, see nterp_trace_points.S.
extern "C" uint32_t hindsight_is_left_out(ArtMethod* method) REQUIRES_SHARED(Locks::mutator_lock_) {
  return IsLeftOut(method) ? 1u : 0u;
}
#endif

void DeoptimizedFrameResumed(Thread* self, ShadowFrame* frame) {
  if (LIKELY(!ShadowFrameFlags::IsEntryMissing(*frame))) {
    return;
  }
  std::vector<ArtMethod*> missing;
  for (; frame != nullptr && ShadowFrameFlags::IsEntryMissing(*frame); frame = frame->GetLink()) {
    ShadowFrameFlags::SetEntryMissing(frame, false);
    if (!ShadowFrameFlags::IsExitElsewhere(*frame)) {
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
  if (visitor.IsInInlinedFrame()) {
    ShadowFrameFlags::SetEntryMissing(new_frame, true);
  }
  if (IsLeftOut(visitor.GetMethod())) {
    ShadowFrameFlags::SetExitElsewhere(new_frame);
  }
}

}  // namespace hindsight
}  // namespace art

#endif  // HINDSIGHT_ART >= 14
