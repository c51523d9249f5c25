// SPDX-License-Identifier: Apache-2.0
//
// Frames of the switch interpreter in Android 12 and later, where OSR code takes over the exit of the frame
// that it replaces: nterp's own frame is gone by then, so OSR code always records the exit, and a
// ShadowFrame that went on in OSR code must not record another.

#ifndef HINDSIGHT_RUNTIME_INTERPRETED_FRAMES_H_
#define HINDSIGHT_RUNTIME_INTERPRETED_FRAMES_H_

#include "hindsight/runtime/frames.h"
#include "interpreter/shadow_frame.h"

namespace art {
namespace hindsight {

// Hindsight's two flags in ShadowFrame.
class ShadowFrameFlags {
 public:
  // Deoptimized from an inlined method, which has not recorded its entry.
  static bool IsEntryMissing(const ShadowFrame& frame) {
    return frame.GetFrameFlag(ShadowFrame::FrameFlags::kTraceEntryMissing);
  }
  static void SetEntryMissing(ShadowFrame* frame, bool missing) {
    frame->UpdateFrameFlag(missing, ShadowFrame::FrameFlags::kTraceEntryMissing);
  }

  // Went on in OSR code, which has recorded the exit.
  static bool IsExitElsewhere(const ShadowFrame& frame) {
    return frame.GetFrameFlag(ShadowFrame::FrameFlags::kTraceExitElsewhere);
  }
  static void SetExitElsewhere(ShadowFrame* frame) {
    frame->UpdateFrameFlag(true, ShadowFrame::FrameFlags::kTraceExitElsewhere);
  }
};

// `frame` is left, whichever way: its exit is recorded, unless OSR code has done so.
ALWAYS_INLINE inline void ShadowFrameLeft(Thread* self, const ShadowFrame& frame) {
  if (IsTraced(self) && !ShadowFrameFlags::IsExitElsewhere(frame)) {
    RecordExit(self);
  }
}

// OSR code that replaced `frame` has returned, or was left by an exception.
inline void OsrCodeLeft(ShadowFrame* frame) { ShadowFrameFlags::SetExitElsewhere(frame); }

// One execution of a ShadowFrame. That of one that was deoptimized is the business of
// DeoptimizedFrameResumed() and ShadowFrameLeft().
class InterpretedShadowFrame {
 public:
  ALWAYS_INLINE InterpretedShadowFrame(Thread* self, const ShadowFrame& frame, bool from_deoptimize)
      : self_(from_deoptimize ? nullptr : self), frame_(frame) {
    if (self_ != nullptr && IsTraced(self_)) {
      RecordEntry(self_, frame_.GetMethod());
    }
  }

  ALWAYS_INLINE ~InterpretedShadowFrame() {
    if (self_ != nullptr) {
      ShadowFrameLeft(self_, frame_);
    }
  }

 private:
  Thread* const self_;
  const ShadowFrame& frame_;

  DISALLOW_COPY_AND_ASSIGN(InterpretedShadowFrame);
};

// `frame` was a frame of compiled code or of nterp, and goes on in the switch interpreter. If its method
// was inlined there, it gets the entry that it never had, after those of the inlined frames around it.
void DeoptimizedFrameResumed(Thread* self, ShadowFrame* frame) REQUIRES_SHARED(Locks::mutator_lock_);

// The generic trampoline of native methods is about to leave Runnable.
ALWAYS_INLINE inline void GenericNativeMethodEntered(Thread* self, bool is_critical_native)
    REQUIRES_SHARED(Locks::mutator_lock_) {
  if (!is_critical_native) {
    NativeMethodEntered(self);
  }
}

}  // namespace hindsight
}  // namespace art

#endif  // HINDSIGHT_RUNTIME_INTERPRETED_FRAMES_H_
