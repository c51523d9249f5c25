// SPDX-License-Identifier: Apache-2.0
//
// Frames of the switch interpreter in Android 12 and later. There OSR code records the exit of the frame that it
// replaces, because nterp's frame is gone by then. So a ShadowFrame that went on in OSR code must not record another.

#ifndef HINDSIGHT_RUNTIME_INTERPRETED_FRAMES_H_
#define HINDSIGHT_RUNTIME_INTERPRETED_FRAMES_H_

#include "hindsight/runtime/frames.h"
#include "interpreter/shadow_frame.h"

namespace art {
namespace hindsight {

// Hindsight's two flags of a ShadowFrame.
class ShadowFrameFlags {
 public:
  // The frame was deoptimized from an inlined method, which has recorded no entry.
  static bool IsEntryMissing(const ShadowFrame& frame) {
    return frame.GetFrameFlag(ShadowFrame::FrameFlags::kTraceEntryMissing);
  }
  static void SetEntryMissing(ShadowFrame* frame, bool missing) {
    frame->UpdateFrameFlag(missing, ShadowFrame::FrameFlags::kTraceEntryMissing);
  }

  // The frame went on in OSR code, which has recorded the exit; or its method is left out, and it has none.
  static bool IsExitElsewhere(const ShadowFrame& frame) {
    return frame.GetFrameFlag(ShadowFrame::FrameFlags::kTraceExitElsewhere);
  }
  static void SetExitElsewhere(ShadowFrame* frame) {
    frame->UpdateFrameFlag(true, ShadowFrame::FrameFlags::kTraceExitElsewhere);
  }
};

// Records the exit of `frame`, unless OSR code has recorded it. Called on every way out of a frame.
ALWAYS_INLINE inline void ShadowFrameLeft(Thread* self, const ShadowFrame& frame) {
  if (IsTraced(self) && !ShadowFrameFlags::IsExitElsewhere(frame)) {
    RecordExit(self);
  }
}

// OSR code that replaced `frame` has returned, or an exception has unwound it.
inline void OsrCodeLeft(ShadowFrame* frame) { ShadowFrameFlags::SetExitElsewhere(frame); }

// RAII entry and exit of a frame of the switch interpreter. DeoptimizedFrameResumed() and ShadowFrameLeft() handle
// frames that were deoptimized.
class InterpretedShadowFrame {
 public:
  ALWAYS_INLINE InterpretedShadowFrame(Thread* self, const ShadowFrame& frame, bool from_deoptimize)
      REQUIRES_SHARED(Locks::mutator_lock_)
      : self_(from_deoptimize ? nullptr : self), frame_(frame), call_(frame.GetMethod()) {
    if (self_ != nullptr) {
      if (IsTraced(self_) && call_.IsRecorded()) {
        RecordEntry(self_, frame_.GetMethod());
      }
      rule_.Enter(self_, frame_.GetMethod());
    }
  }

  ALWAYS_INLINE ~InterpretedShadowFrame() REQUIRES_SHARED(Locks::mutator_lock_) {
    if (self_ != nullptr) {
      rule_.Leave(self_);
      if (IsTraced(self_) && call_.IsRecorded()) {
        ShadowFrameLeft(self_, frame_);
      }
    }
  }

 private:
  Thread* const self_;
  const ShadowFrame& frame_;
  InterpretedCall call_;
  RuleCall rule_;

  DISALLOW_COPY_AND_ASSIGN(InterpretedShadowFrame);
};

// Called when `frame`, deoptimized from compiled code or nterp, goes on in the switch interpreter. If its method was
// inlined, records the missing entry, after the entries of the inlined frames around it.
void DeoptimizedFrameResumed(Thread* self, ShadowFrame* frame) REQUIRES_SHARED(Locks::mutator_lock_);

// Called when the generic trampoline of a native method is about to leave the state Runnable.
ALWAYS_INLINE inline void GenericNativeMethodEntered(Thread* self, bool is_critical_native)
    REQUIRES_SHARED(Locks::mutator_lock_) {
  if (!is_critical_native) {
    NativeMethodEntered(self);
  }
}

}  // namespace hindsight
}  // namespace art

#endif  // HINDSIGHT_RUNTIME_INTERPRETED_FRAMES_H_
