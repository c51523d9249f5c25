// SPDX-License-Identifier: Apache-2.0
//
// Entries and exits that no compiled trace point sees: interpreted frames, frames that are left by an
// exception, and compiled frames that go on in the interpreter.

#ifndef HINDSIGHT_RUNTIME_FRAMES_H_
#define HINDSIGHT_RUNTIME_FRAMES_H_

#include "base/locks.h"
#include "base/macros.h"
#include "thread.h"

namespace art {

class ArtMethod;
class ShadowFrame;
class StackVisitor;

namespace hindsight {

// Whether `self`, the calling thread, is being traced.
ALWAYS_INLINE inline bool IsTraced(Thread* self) {
  return UNLIKELY(self->GetHindsightWords()->cursor != 0u);
}

// Append one event to the ring of `self`, which is being traced.
void RecordEntry(Thread* self, ArtMethod* method);
void RecordExit(Thread* self);

// One execution of a method in the interpreter: records its entry, and its exit whichever way it is
// left. A frame that got here by deoptimization is DeoptimizedFrame's business.
class InterpretedFrame {
 public:
  ALWAYS_INLINE InterpretedFrame(Thread* self, ArtMethod* method, bool from_deoptimize)
      : self_(from_deoptimize ? nullptr : self) {
    if (self_ != nullptr && IsTraced(self_)) {
      RecordEntry(self_, method);
    }
  }

  ALWAYS_INLINE ~InterpretedFrame() {
    if (self_ != nullptr && IsTraced(self_)) {
      RecordExit(self_);
    }
  }

 private:
  Thread* const self_;

  DISALLOW_COPY_AND_ASSIGN(InterpretedFrame);
};

// A native method, called through a JNI stub or the generic trampoline; @CriticalNative methods have
// neither, and no events. The exit is recorded also when an exception is pending.
ALWAYS_INLINE inline void NativeMethodEntered(Thread* self) REQUIRES_SHARED(Locks::mutator_lock_) {
  if (IsTraced(self)) {
    RecordEntry(self, *self->GetManagedStack()->GetTopQuickFrame());
  }
}

ALWAYS_INLINE inline void NativeMethodExited(Thread* self) {
  if (IsTraced(self)) {
    RecordExit(self);
  }
}

// One frame that compiled code left to the interpreter. Its compiled code has recorded the entry, so
// only the exit is recorded here, also when the frame is popped without being executed because of an
// exception. Two cases differ: a frame of an inlined method never recorded an entry, and gets it (with
// those of the inlined frames around it, outermost first) when it is resumed; and the entry and exit
// of on-stack-replacement code are recorded by the interpreter frame that it replaces.
class DeoptimizedFrame {
 public:
  DeoptimizedFrame(Thread* self, ShadowFrame* frame) REQUIRES_SHARED(Locks::mutator_lock_);

  ~DeoptimizedFrame() {
    if (records_exit_ && IsTraced(self_)) {
      RecordExit(self_);
    }
  }

 private:
  Thread* const self_;
  bool records_exit_;

  DISALLOW_COPY_AND_ASSIGN(DeoptimizedFrame);
};

// Tells DeoptimizedFrame, through `new_frame`'s flags, what the compiled frame that `visitor` stands
// at has recorded.
void MarkDeoptimizedFrame(const StackVisitor& visitor, ShadowFrame* new_frame)
    REQUIRES_SHARED(Locks::mutator_lock_);

// `self` is about to jump to `handler_frame` because of an exception: the compiled frames above it are
// left without running their trace points. Records how many of those had recorded an entry.
void FramesUnwound(Thread* self, ArtMethod** handler_frame) REQUIRES_SHARED(Locks::mutator_lock_);

}  // namespace hindsight
}  // namespace art

#endif  // HINDSIGHT_RUNTIME_FRAMES_H_
