// SPDX-License-Identifier: Apache-2.0
//
// Method entries and exits that no compiled trace point records: of interpreted frames, of frames that an exception
// unwinds, and of compiled frames that go on in the interpreter.

#ifndef HINDSIGHT_RUNTIME_FRAMES_H_
#define HINDSIGHT_RUNTIME_FRAMES_H_

#include "base/locks.h"
#include "base/macros.h"
#include "hindsight/runtime/events.h"
#include "hindsight/runtime/rule_calls.h"
#include "hindsight/runtime/trivial_methods.h"
#include "thread.h"

namespace art {

class ArtMethod;
class ShadowFrame;
class StackVisitor;

namespace hindsight {

// Whether `self`, the calling thread, is traced.
ALWAYS_INLINE inline bool IsTraced(Thread* self) {
  return UNLIKELY(self->GetHindsightWords()->cursor != 0u);
}

// Append a method entry or exit to the ring of `self`, the calling thread, which is traced.
void RecordEntry(Thread* self, ArtMethod* method);
void RecordExit(Thread* self);

// Whether an interpreted call is recorded: not if its method IsLeftOut(). This is found out only if the thread is traced, and
// once for each call, since a redefinition of the class may change the method's code during the call.
class InterpretedCall {
 public:
  explicit InterpretedCall(ArtMethod* method) : method_(method), is_known_(false), is_left_out_(false) {}

  ALWAYS_INLINE bool IsRecorded() REQUIRES_SHARED(Locks::mutator_lock_) {
    if (!is_known_) {
      is_known_ = true;
      is_left_out_ = IsLeftOut(method_);
    }
    return !is_left_out_;
  }

 private:
  ArtMethod* const method_;
  bool is_known_;
  bool is_left_out_;

  DISALLOW_COPY_AND_ASSIGN(InterpretedCall);
};

// RAII entry and exit of a method that the interpreter executes. DeoptimizedFrame handles frames that were
// deoptimized (`from_deoptimize`).
class InterpretedFrame {
 public:
  ALWAYS_INLINE InterpretedFrame(Thread* self, ArtMethod* method, bool from_deoptimize)
      REQUIRES_SHARED(Locks::mutator_lock_)
      : self_(from_deoptimize ? nullptr : self), call_(method) {
    if (self_ != nullptr) {
      if (IsTraced(self_) && call_.IsRecorded()) {
        RecordEntry(self_, method);
      }
      rule_.Enter(self_, method);
    }
  }

  ALWAYS_INLINE ~InterpretedFrame() REQUIRES_SHARED(Locks::mutator_lock_) {
    if (self_ != nullptr) {
      rule_.Leave(self_);
      if (IsTraced(self_) && call_.IsRecorded()) {
        RecordExit(self_);
      }
    }
  }

 private:
  Thread* const self_;
  InterpretedCall call_;
  RuleCall rule_;

  DISALLOW_COPY_AND_ASSIGN(InterpretedFrame);
};

// Entry and exit of a native method that is called through a JNI stub or the generic trampoline. @CriticalNative
// methods use neither, and record nothing. The exit is recorded also while an exception is pending.
ALWAYS_INLINE inline void NativeMethodEntered(Thread* self) REQUIRES_SHARED(Locks::mutator_lock_) {
  if (IsTraced(self)) {
    RecordEntry(self, *self->GetManagedStack()->GetTopQuickFrame());
  }
}

// `self`, the calling thread, returns from a native method, and records stacks: takes one, if it is wanted now. @FastNative
// methods are left out: they are short, and many.
void SampleNativeMethod(Thread* self) REQUIRES_SHARED(Locks::mutator_lock_);

ALWAYS_INLINE inline void NativeMethodExited(Thread* self) REQUIRES_SHARED(Locks::mutator_lock_) {
  if (IsTraced(self)) {
    RecordExit(self);
  }
  if (Records(self, kCategoryStacks)) {
    SampleNativeMethod(self);
  }
}

// RAII exit of a frame of compiled code that goes on in the interpreter. Its compiled code has recorded the entry, so
// only the exit is recorded here, also if an exception pops the frame before it is executed. Two cases differ. A
// frame of an inlined method has recorded no entry: this records it, after the entries of the inlined frames around
// it. The entry and the exit of OSR code are recorded by the interpreter frame that it replaces. Frames of methods that are
// left out (IsLeftOut) record neither.
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

// Sets the flags of `new_frame` that DeoptimizedFrame reads: whether the compiled frame at which `visitor` stands has
// recorded its entry, and whether another frame records its exit, or none.
void MarkDeoptimizedFrame(const StackVisitor& visitor, ShadowFrame* new_frame)
    REQUIRES_SHARED(Locks::mutator_lock_);

// Records the number of frames that an exception unwinds and that have recorded an entry: the compiled frames above
// `handler_frame`, to which `self` is about to jump. They do not run their exits.
void FramesUnwound(Thread* self, ArtMethod** handler_frame) REQUIRES_SHARED(Locks::mutator_lock_);

}  // namespace hindsight
}  // namespace art

#endif  // HINDSIGHT_RUNTIME_FRAMES_H_
