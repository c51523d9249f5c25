// SPDX-License-Identifier: Apache-2.0
//
// com.android.internal.os.TraceEvents. The @CriticalNative methods have neither an environment nor a class; the thread
// stays Runnable. Their stack is taken later: ART does not know the frame of their caller.

#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <mutex>  // NOLINT [build/c++11]

#include "base/time_utils.h"
#include "event_class.h"
#include "hindsight/runtime/lifecycle.h"
#include "hindsight/runtime/object_identity.h"
#include "hindsight/runtime/stack_sample.h"
#include "hindsight/runtime/waits.h"
#include "native/scoped_fast_native_object_access-inl.h"
#include "task_events.h"

namespace art {
namespace hindsight {

namespace {

// Identities of messages and transactions: numbers that are used once in the process. A transaction's has the process's
// id above it.
std::atomic<uint64_t> last_id(0u);

jlong NextId() { return static_cast<jlong>(last_id.fetch_add(1u, std::memory_order_relaxed) + 1u); }

// The time until then; 0 for a time that has passed. `when` is in milliseconds of uptime.
uint64_t DelayMs(jlong when) {
  const int64_t delay = when != 0 ? when - static_cast<int64_t>(MilliTime()) : 0;
  return std::min<int64_t>(std::max<int64_t>(delay, 0), UINT32_MAX);
}

jlong MessageEnqueued(jint tid, jlong when) {
  const jlong id = NextId();
  Thread* self = Thread::Current();
  if (Records(self, kCategoryMessages)) {
    Record(self, kMessageEnqueued, PackMessageEnqueued(id, tid, DelayMs(when)));
  }
  return id;
}

void MessageRemoved(jlong id) {
  Thread* self = Thread::Current();
  if (Records(self, kCategoryMessages)) {
    Record(self, kMessageRemoved, PackMessageRemoved(id));
  }
}

void MessageDispatched(JNIEnv* env, jclass, jlong id, jobject target, jint what) {
  ScopedFastNativeObjectAccess soa(env);
  if (Records(soa.Self(), kCategoryMessages)) {
    const uint64_t klass = ClassOf(soa.Decode<mirror::Object>(target));
    Record(soa.Self(), kMessageDispatched, PackMessageDispatched(id, klass, what));
  }
  SampleStack(soa.Self(), kStackReasonMessage);
  RecordResources(soa.Self());
}

void MessageDone(jlong id) {
  Thread* self = Thread::Current();
  RecordResources(self);
  if (Records(self, kCategoryMessages)) {
    Record(self, kMessageDone, PackMessageDone(id));
  }
}

// The number of the wait in which `self`, the calling thread, polls its looper's queue; 0 if it does not.
uint32_t& PollOf(Thread* self) { return self->GetHindsightWords()->poll_wait; }

// The wait's number in the low half, the time in milliseconds above it. The number is not 0.
jlong PollBegin(JNIEnv* env, jclass, jint timeout_ms) {
  ScopedFastNativeObjectAccess soa(env);
  Thread* self = soa.Self();
  const uint32_t number = timeout_ms != 0 ? BeginWait(self) : 0u;
  if (number == 0u) {
    return 0;
  }
  const uint64_t timeout_ns = timeout_ms > 0 ? static_cast<uint64_t>(timeout_ms) * 1000000u : 0u;
  RecordWaitBegin(self, kWaitKindPoll, number, 0u, timeout_ns);
  PollOf(self) = number;
  return static_cast<jlong>((static_cast<uint64_t>(MilliTime()) << 32) | number);
}

// Ends the poll with this number, unless something that the looper does while it polls has ended it.
void EndPoll(Thread* self, uint32_t number, uint32_t result) {
  if (PollOf(self) == number && number != 0u) {
    PollOf(self) = 0u;
    RecordWaitEnd(self, kWaitKindPoll, number, result);
  }
}

void PollEnd(JNIEnv* env, jclass, jlong began, jint timeout_ms) {
  ScopedFastNativeObjectAccess soa(env);
  const uint32_t elapsed_ms =
      static_cast<uint32_t>(MilliTime()) - static_cast<uint32_t>(static_cast<uint64_t>(began) >> 32);
  const bool timed_out = timeout_ms > 0 && elapsed_ms >= static_cast<uint32_t>(timeout_ms);
  EndPoll(soa.Self(),
          static_cast<uint32_t>(began),
          timed_out ? kWaitResultTimedOut : kWaitResultSignalled);
}

// The number of the wait is not known: the looper may have been woken before, and poll again.
void PollWoken(JNIEnv* env, jclass, jint tid) {
  ScopedFastNativeObjectAccess soa(env);
  if (static_cast<uint32_t>(tid) == static_cast<uint32_t>(soa.Self()->GetTid())) {
    // Something that the looper does while it polls: it runs.
    return;
  }
  if (Records(soa.Self(), kCategoryWaits)) {
    Record(soa.Self(), kWakes, PackWakes(tid, 0u));
  }
  SampleStack(soa.Self(), kStackReasonWakes, /* force= */ true);
}

void FrameBegin(jlong vsync) {
  Thread* self = Thread::Current();
  if (Records(self, kCategoryFrames)) {
    Record(self, kFrameBegin, PackFrameBegin(vsync));
  }
}

void FrameCallbacks(jint type) {
  Thread* self = Thread::Current();
  if (Records(self, kCategoryFrames)) {
    Record(self, kFrameCallbacks, PackFrameCallbacks(type));
  }
}

void FrameEnd(jlong vsync) {
  Thread* self = Thread::Current();
  if (Records(self, kCategoryFrames)) {
    Record(self, kFrameEnd, PackFrameEnd(vsync));
  }
}

jlong CallbackPosted(JNIEnv* env, jclass, jobject callback, jlong when) {
  const jlong id = NextId();
  ScopedFastNativeObjectAccess soa(env);
  if (Records(soa.Self(), kCategoryFrames)) {
    const uint64_t klass = ClassOf(soa.Decode<mirror::Object>(callback));
    Record(soa.Self(), kCallbackPosted, PackCallbackPosted(id, klass, DelayMs(when)));
  }
  return id;
}

jlong CallbackRun(jlong id, jint type) {
  Thread* self = Thread::Current();
  if (Records(self, kCategoryFrames)) {
    Record(self, kCallbackRun, PackCallbackRun(id, type));
  }
  return 0;
}

jlong CallbackRemoved(jlong id) {
  Thread* self = Thread::Current();
  if (Records(self, kCategoryFrames)) {
    Record(self, kCancelled, PackCancelled(id));
  }
  return 0;
}

// The three events of a traversal have the same payload.
template <uint32_t kNumber>
void Traversal(JNIEnv* env, jclass, jobject window) {
  ScopedFastNativeObjectAccess soa(env);
  if (Records(soa.Self(), kCategoryFrames)) {
    Record(soa.Self(), kNumber, PackTraversalBegin(IdentityOf(soa.Decode<mirror::Object>(window))));
  }
}

void InputBegin(
    JNIEnv* env, jclass, jint seq, jint type, jint action, jlong event_time_ns, jobject receiver) {
  ScopedFastNativeObjectAccess soa(env);
  // The looper delivers input while it polls, and does not wait meanwhile.
  EndPoll(soa.Self(), PollOf(soa.Self()), kWaitResultSignalled);
  if (Records(soa.Self(), kCategoryInput)) {
    const uint64_t klass = ClassOf(soa.Decode<mirror::Object>(receiver));
    Record(soa.Self(), kInputBegin, PackInputBegin(seq, action, type, event_time_ns, klass));
  }
}

void InputEnd(jint seq, jboolean handled) {
  Thread* self = Thread::Current();
  if (Records(self, kCategoryInput)) {
    Record(self, kInputEnd, PackInputEnd(seq, handled));
  }
}

jlong BinderSend(jint code, jboolean one_way) {
  const jlong id = (static_cast<jlong>(getpid()) << 32) | static_cast<uint32_t>(NextId());
  Thread* self = Thread::Current();
  if (Records(self, kCategoryBinder)) {
    Record(self, kBinderSend, PackBinderSend(id, code, one_way));
  }
  SampleStackSoon(self, kStackReasonTransaction);
  return id;
}

void BinderReply(jlong id) {
  Thread* self = Thread::Current();
  if (Records(self, kCategoryBinder)) {
    Record(self, kBinderReply, PackBinderReply(id));
  }
  SampleStackSoon(self, kStackReasonTransaction);
}

void BinderServe(jlong id, jint code, jboolean one_way, jint pid, jint uid) {
  Thread* self = Thread::Current();
  if (Records(self, kCategoryBinder)) {
    Record(self, kBinderServe, PackBinderServe(id, code, one_way, pid, uid));
  }
  SampleStackSoon(self, kStackReasonTransaction);
  RecordResources(self);
}

void BinderServed(jlong id) {
  Thread* self = Thread::Current();
  RecordResources(self);
  if (Records(self, kCategoryBinder)) {
    Record(self, kBinderServed, PackBinderServed(id));
  }
  SampleStackSoon(self, kStackReasonTransaction);
}

// Activities that are started, by identity; more than these are not known. What happens while the hooks are off is not, either.
class StartedActivities {
 public:
  // Some builds of Android 10 want to know of each lock that it is not held yet (-Wthread-safety-negative).
  void Step(jint step, uint32_t identity) NO_THREAD_SAFETY_ANALYSIS {
    if (identity == 0u || (step != kStart && step != kStop && step != kDestroy)) {
      return;
    }
    std::lock_guard<std::mutex> lock(lock_);
    const bool were_started = AreAny();
    // An activity that is started again has one place.
    std::replace(activities_.begin(), activities_.end(), identity, 0u);
    if (step == kStart) {
      *std::min_element(activities_.begin(), activities_.end()) = identity;
    }
    if (AreAny() != were_started) {
      SetActivities(!were_started);
    }
  }

 private:
  // TraceEvents.START and so on.
  static constexpr jint kStart = 1;
  static constexpr jint kStop = 4;
  static constexpr jint kDestroy = 5;

  bool AreAny() const {
    return std::any_of(activities_.begin(), activities_.end(), [](uint32_t a) { return a != 0u; });
  }

  std::mutex lock_;
  // 0: free.
  std::array<uint32_t, 32> activities_{};
};

StartedActivities started_activities;

void LifecycleBegin(JNIEnv* env, jclass, jint step, jobject activity) {
  ScopedFastNativeObjectAccess soa(env);
  ObjPtr<mirror::Object> object = soa.Decode<mirror::Object>(activity);
  started_activities.Step(step, IdentityOf(object));
  if (Records(soa.Self(), kCategoryLifecycle)) {
    Record(soa.Self(), kLifecycleBegin, PackLifecycleBegin(IdentityOf(object), ClassOf(object), step));
  }
  RecordResources(soa.Self());
}

void LifecycleEnd(JNIEnv* env, jclass, jint step, jobject activity) {
  ScopedFastNativeObjectAccess soa(env);
  RecordResources(soa.Self());
  if (Records(soa.Self(), kCategoryLifecycle)) {
    const uint64_t identity = IdentityOf(soa.Decode<mirror::Object>(activity));
    Record(soa.Self(), kLifecycleEnd, PackLifecycleEnd(identity, step));
  }
}

void AsyncTaskSubmitted(JNIEnv* env, jclass, jobject task) {
  ScopedFastNativeObjectAccess soa(env);
  TaskSubmitted(soa.Self(), kTaskKindAsyncTask, soa.Decode<mirror::Object>(task), 0);
}

void AsyncTaskBegin(JNIEnv* env, jclass, jobject task) {
  ScopedFastNativeObjectAccess soa(env);
  TaskBegin(soa.Self(), kTaskKindAsyncTask, soa.Decode<mirror::Object>(task));
}

void AsyncTaskEnd(JNIEnv* env, jclass, jobject task) {
  ScopedFastNativeObjectAccess soa(env);
  TaskEnd(soa.Self(), kTaskKindAsyncTask, soa.Decode<mirror::Object>(task));
}

const JNINativeMethod kMethods[] = {
    {"messageEnqueued", "(IJ)J", reinterpret_cast<void*>(MessageEnqueued)},
    {"messageRemoved", "(J)V", reinterpret_cast<void*>(MessageRemoved)},
    {"messageDispatched", "(JLjava/lang/Object;I)V", reinterpret_cast<void*>(MessageDispatched)},
    {"messageDone", "(J)V", reinterpret_cast<void*>(MessageDone)},
    {"pollBegin", "(I)J", reinterpret_cast<void*>(PollBegin)},
    {"pollEnd", "(JI)V", reinterpret_cast<void*>(PollEnd)},
    {"pollWoken", "(I)V", reinterpret_cast<void*>(PollWoken)},
    {"frameBegin", "(J)V", reinterpret_cast<void*>(FrameBegin)},
    {"frameCallbacks", "(I)V", reinterpret_cast<void*>(FrameCallbacks)},
    {"frameEnd", "(J)V", reinterpret_cast<void*>(FrameEnd)},
    {"callbackPosted", "(Ljava/lang/Object;J)J", reinterpret_cast<void*>(CallbackPosted)},
    {"callbackRun", "(JI)J", reinterpret_cast<void*>(CallbackRun)},
    {"callbackRemoved", "(J)J", reinterpret_cast<void*>(CallbackRemoved)},
    {"traversalScheduled",
     "(Ljava/lang/Object;)V",
     reinterpret_cast<void*>(Traversal<kTraversalScheduled>)},
    {"traversalBegin", "(Ljava/lang/Object;)V", reinterpret_cast<void*>(Traversal<kTraversalBegin>)},
    {"traversalEnd", "(Ljava/lang/Object;)V", reinterpret_cast<void*>(Traversal<kTraversalEnd>)},
    {"inputBegin", "(IIIJLjava/lang/Object;)V", reinterpret_cast<void*>(InputBegin)},
    {"inputEnd", "(IZ)V", reinterpret_cast<void*>(InputEnd)},
    {"binderSend", "(IZ)J", reinterpret_cast<void*>(BinderSend)},
    {"binderReply", "(J)V", reinterpret_cast<void*>(BinderReply)},
    {"binderServe", "(JIZII)V", reinterpret_cast<void*>(BinderServe)},
    {"binderServed", "(J)V", reinterpret_cast<void*>(BinderServed)},
    {"lifecycleBegin", "(ILjava/lang/Object;)V", reinterpret_cast<void*>(LifecycleBegin)},
    {"lifecycleEnd", "(ILjava/lang/Object;)V", reinterpret_cast<void*>(LifecycleEnd)},
    {"asyncTaskSubmitted", "(Ljava/lang/Object;)V", reinterpret_cast<void*>(AsyncTaskSubmitted)},
    {"asyncTaskBegin", "(Ljava/lang/Object;)V", reinterpret_cast<void*>(AsyncTaskBegin)},
    {"asyncTaskEnd", "(Ljava/lang/Object;)V", reinterpret_cast<void*>(AsyncTaskEnd)},
};

constexpr CategoryField kFields[] = {
    {"waits", kCategoryWaits | kCategoryResources},
    {"tasks", kCategoryTasks | kCategoryResources},
    {"messages", kCategoryMessages | kCategoryResources | kCategoryStacks},
    {"frames", kCategoryFrames},
    {"input", kCategoryInput},
    {"binder", kCategoryBinder | kCategoryResources | kCategoryStacks},
    {"lifecycle", kCategoryLifecycle | kCategoryResources},
};

}  // namespace

const EventClass kFrameworkEvents = {"Lcom/android/internal/os/TraceEvents;",
                                     kMethods,
                                     arraysize(kMethods),
                                     kFields,
                                     arraysize(kFields)};

}  // namespace hindsight
}  // namespace art
