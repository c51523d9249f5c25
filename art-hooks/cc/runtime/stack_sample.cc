// SPDX-License-Identifier: Apache-2.0

#include "hindsight/runtime/stack_sample.h"

#include <algorithm>

#include "art_method-inl.h"
#include "base/mutex.h"
#include "hindsight/compat.h"
#include "hindsight/runtime/lab_build.h"
#include "hindsight/runtime/method_word.h"
#include "hindsight/runtime/stack_requests.h"
#include "hindsight/runtime/stack_sample_abi.h"
#include "interpreter/shadow_frame-inl.h"
#include "jit/jit.h"
#include "jit/jit_code_cache.h"
#include "known_frames.h"
#include "managed_stack.h"
#include "oat_quick_method_header.h"
#include "runtime.h"
#include "stack.h"
#include "thread-current-inl.h"
#include "thread_list.h"
#include "walk_check.h"

namespace art {
namespace hindsight {

namespace {

// Whether a return address says all about a frame of this code. The place of a frame of nterp is in its memory.
bool IsDescribedByPc(const OatQuickMethodHeader* header) {
#if HINDSIGHT_ART >= 11
  return header == nullptr || !header->IsNterpMethodHeader();
#else
  (void)header;
  return true;
#endif
}

// Whether a fragment says that its top frame is of a JNI stub that the JIT has compiled.
constexpr bool TagsJitJni() { return HINDSIGHT_ART >= 14; }

// How the top frame of a fragment was entered.
uintptr_t EntryOfTopFrame(const ManagedStack& fragment) {
#if HINDSIGHT_ART >= 14
  return fragment.GetTopQuickFrameGenericJniTag() ? kGenericJniFrame :
         fragment.GetTopQuickFrameJitJniTag()     ? kJitJniFrame :
                                                    kTopOfFragment;
#else
  return fragment.GetTopQuickFrameTag() ? kGenericJniFrame : kTopOfFragment;
#endif
}

// Whether this is code that the JIT has compiled.
bool IsOfJit(const void* pc) {
  jit::Jit* jit = Runtime::Current()->GetJit();
  return jit != nullptr && jit->GetCodeCache()->ContainsPc(pc);
}

// The key of a frame that was entered by a call, or of the top frame of a fragment.
FrameKey KeyOf(uintptr_t method, uintptr_t pc, const CodeVersions& versions) {
  // Which code a JNI stub's frame belongs to depends on what the JIT has compiled.
  const bool is_top = pc <= kJitJniFrame;
  const bool is_of_jit = is_top || IsOfJit(reinterpret_cast<const void*>(pc));
  return {method, pc, is_of_jit ? versions.jit : versions.ahead};
}

// ART's own walk. Writes the frames of managed methods, inlined ones included, and remembers what it finds out. Allocates
// nothing.
class FrameCollector final : public StackVisitor {
 public:
  FrameCollector(Thread* self, const CodeVersions& versions, FrameList* list)
      REQUIRES_SHARED(Locks::mutator_lock_)
      : StackVisitor(self, /* context= */ nullptr, StackWalkKind::kIncludeInlinedFrames),
        versions_(versions),
        list_(list),
        first_(list->count) {}

  bool VisitFrame() override REQUIRES_SHARED(Locks::mutator_lock_) {
    ArtMethod* method = GetMethod();
    if (method == nullptr) {
      return true;
    }
    if (!method->IsRuntimeMethod() &&
        !list_->Add(MethodWord(method), GetDexPc(/* abort_on_failure= */ false))) {
      return false;
    }
    // Inlined methods come before the method that they are inlined in.
    if (!IsInInlinedFrame()) {
      uintptr_t pc;
      if (GetCurrentQuickFrame() != nullptr && FindPc(*GetCurrentQuickFrame(), &pc)) {
        RememberFrames(KeyOf(reinterpret_cast<uintptr_t>(*GetCurrentQuickFrame()), pc, versions_),
                       list_->frames + first_,
                       list_->count - first_,
                       GetCurrentQuickFrameInfo().FrameSizeInBytes());
      }
      first_ = list_->count;
    }
    return true;
  }

 private:
  // False if the frame does not follow from its method and a program counter that is in its memory.
  bool FindPc(ArtMethod* method, uintptr_t* pc) REQUIRES_SHARED(Locks::mutator_lock_) {
    const OatQuickMethodHeader* header = GetCurrentOatQuickMethodHeader();
    if (!IsDescribedByPc(header)) {
      return false;
    }
    *pc = GetCurrentQuickFramePc();
    if (*pc != 0u) {
      // Instrumentation may have put its own address into the memory.
      return reinterpret_cast<const uintptr_t*>(GetCurrentQuickFrame())[-1] == *pc;
    }
    if (method->IsRuntimeMethod()) {
      *pc = kTopOfFragment;
    } else if (method->IsNative()) {
      *pc = header == nullptr                ? kGenericJniFrame :
            TagsJitJni() && IsOfJit(header) ? kJitJniFrame :
                                               kTopOfFragment;
    } else {
      return false;
    }
    return true;
  }

  const CodeVersions versions_;
  FrameList* const list_;
  // The first frame of the physical frame that is being visited.
  uint32_t first_;

  DISALLOW_COPY_AND_ASSIGN(FrameCollector);
};

// Walks the stack of `self`, the calling thread, as long as its frames are known: each frame's size says where the next one
// is, and the word below that how it was entered. False if a frame is not known; then ART has to walk.
bool WalkKnownFrames(Thread* self, const CodeVersions& versions, FrameList* list)
    REQUIRES_SHARED(Locks::mutator_lock_) {
  for (const ManagedStack* fragment = self->GetManagedStack(); fragment != nullptr;
       fragment = fragment->GetLink()) {
    const uintptr_t* frame = reinterpret_cast<const uintptr_t*>(fragment->GetTopQuickFrame());
    if (frame != nullptr) {
      uintptr_t pc = EntryOfTopFrame(*fragment);
      while (*frame != 0u) {
        size_t size;
        if (!AddKnownFrames(KeyOf(*frame, pc, versions), list, &size)) {
          return false;
        }
        if (list->is_cut) {
          return true;
        }
        frame += size / sizeof(uintptr_t);
        pc = frame[-1];
      }
      continue;
    }
    for (ShadowFrame* shadow = fragment->GetTopShadowFrame(); shadow != nullptr;
         shadow = shadow->GetLink()) {
      ArtMethod* method = shadow->GetMethod();
      if (!method->IsRuntimeMethod() &&
          !list->Add(MethodWord(method), shadow->GetDexPC())) {
        return true;
      }
    }
  }
  return true;
}

FrameList WalkWithArt(Thread* self, const CodeVersions& versions, HindsightFrame* frames)
    REQUIRES_SHARED(Locks::mutator_lock_) {
  FrameList list{frames, 0u, false};
  FrameCollector collector(self, versions, &list);
  collector.WalkStack(/* include_transitions= */ false);
  return list;
}

FrameList Walk(Thread* self, HindsightFrame* frames) REQUIRES_SHARED(Locks::mutator_lock_) {
  const CodeVersions versions = CurrentCode();
  FrameList known{frames, 0u, false};
  if (WalksWithArtOnly() || !WalkKnownFrames(self, versions, &known)) {
    CountWalk(/* with_art= */ true);
    return WalkWithArt(self, versions, frames);
  }
  CountWalk(/* with_art= */ false);
#if defined(HINDSIGHT_LAB)
  if (UNLIKELY(ChecksWalks())) {
    HindsightFrame others[HINDSIGHT_MAX_FRAMES];
    CompareWalks(known, WalkWithArt(self, versions, others));
  }
#endif
  return known;
}

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

// A stack that the thread has asked for itself.
class OwnRequest final : public Closure {
 public:
  void Run(Thread* thread) override NO_THREAD_SAFETY_ANALYSIS {
    void* state = thread->GetHindsightWords()->state;
    if (state == nullptr) {
      return;
    }
    const uint32_t reason = hindsight_stack_asked_for(state);
    if (reason != HINDSIGHT_NO_REASON && thread == Thread::Current()) {
      SampleStack(thread, static_cast<StackReason>(reason), /* force= */ true);
    }
  }
};

// Never deleted: threads may run until the process ends.
StackRequest* TheRequest() {
  static StackRequest* const request = new StackRequest();
  return request;
}

OwnRequest* TheOwnRequest() {
  static OwnRequest* const request = new OwnRequest();
  return request;
}

}  // namespace

bool IsStackRequest(const Closure* work) { return work == TheRequest() || work == TheOwnRequest(); }

void TakeStackSoon(Thread* self, StackReason reason, bool force) {
  void* state = self->GetHindsightWords()->state;
  if (hindsight_ask_for_stack(state, reason, force ? 1u : 0u) != 0u &&
      self->GetState() == ThreadState::kRunnable) {
    MutexLock suspend_count(self, *Locks::thread_suspend_count_lock_);
    if (self->RequestCheckpoint(TheOwnRequest())) {
      hindsight_stack_is_coming(state);
    }
  }
}

void SampleAllocation(Thread* thread) {
  if (thread == Thread::Current() && thread->GetState() == ThreadState::kRunnable) {
    SampleStackSoon(thread, kStackReasonAllocation);
  }
}

void TakeStack(Thread* self, StackReason reason, bool force) {
  void* state = self->GetHindsightWords()->state;
  const uint32_t how = !force                     ? HINDSIGHT_STACK_IF_DUE :
                       reason == kStackReasonWakes ? HINDSIGHT_STACK_OF_WAKE :
                                                    HINDSIGHT_STACK_ALWAYS;
  HindsightFrame* frames = hindsight_begin_stack(state, how);
  if (frames == nullptr) {
    return;
  }
  const FrameList list = Walk(self, frames);
  hindsight_end_stack(state, reason, list.count, list.is_cut ? 1u : 0u);
}

void RequestStacks(rust::Slice<const uint32_t> tids, rust::Slice<uint8_t> are_running) {
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
    if (thread->RequestCheckpoint(TheRequest())) {
      are_running[place - tids.data()] = 1u;
    }
  }
}

}  // namespace hindsight
}  // namespace art
