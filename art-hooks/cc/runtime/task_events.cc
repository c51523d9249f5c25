// SPDX-License-Identifier: Apache-2.0

#include "task_events.h"

#include <algorithm>

#include "art_field-inl.h"
#include "boot_class.h"
#include "hindsight/runtime/events.h"
#include "hindsight/runtime/object_identity.h"
#include "jni/jni_internal.h"
#include "nativehelper/scoped_local_ref.h"
#include "runtime.h"
#include "runtime_callbacks.h"
#include "scoped_thread_state_change-inl.h"
#include "thread-current-inl.h"
#include "thread_list.h"

namespace art {
namespace hindsight {

namespace {

// A class of tasks that only run another object, and its field with that object. Readers want to know the other one's
// class.
struct Wrapper {
  const char* descriptor;
  const char* field;
  const char* type;
};

constexpr Wrapper kWrappers[] = {
    {"Ljava/util/concurrent/FutureTask;", "callable", "Ljava/util/concurrent/Callable;"},
    {"Ljava/util/concurrent/Executors$RunnableAdapter;", "task", "Ljava/lang/Runnable;"},
    {"Ljava/util/concurrent/ForkJoinTask$AdaptedRunnable;", "runnable", "Ljava/lang/Runnable;"},
    {"Ljava/util/concurrent/ForkJoinTask$AdaptedRunnableAction;", "runnable", "Ljava/lang/Runnable;"},
    {"Ljava/util/concurrent/ForkJoinTask$RunnableExecuteAction;", "runnable", "Ljava/lang/Runnable;"},
    {"Ljava/util/concurrent/ForkJoinTask$AdaptedCallable;", "callable", "Ljava/util/concurrent/Callable;"},
    {"Ljava/util/concurrent/CompletableFuture$AsyncSupply;", "fn", "Ljava/util/function/Supplier;"},
    {"Ljava/util/concurrent/CompletableFuture$AsyncRun;", "fn", "Ljava/lang/Runnable;"},
};

// The index of FutureTask in kWrappers.
constexpr int kFutureTask = 0;

// What was found of kWrappers: the classes by their numbers, since classes may move. Written by PrepareTaskEvents() only.
struct {
  uint64_t classes[arraysize(kWrappers)];
  MemberOffset fields[arraysize(kWrappers)] = {
      MemberOffset(0), MemberOffset(0), MemberOffset(0), MemberOffset(0),
      MemberOffset(0), MemberOffset(0), MemberOffset(0), MemberOffset(0)};
  // FutureTask.runner: the thread that runs the task now.
  MemberOffset runner = MemberOffset(0);
  MemberOffset thread_id = MemberOffset(0);
  MemberOffset thread_target = MemberOffset(0);
} found;

// At most this many wrappers are looked into, or superclasses looked at.
constexpr int kMaxSteps = 4;

// The wrapper that the class is or extends, or -1.
int WrapperOf(ObjPtr<mirror::Class> klass) REQUIRES_SHARED(Locks::mutator_lock_) {
  for (int step = 0; step != kMaxSteps && klass != nullptr; ++step) {
    const uint64_t number = NumberOf(klass);
    for (size_t i = 0; i != arraysize(kWrappers); ++i) {
      if (number == found.classes[i] && number != 0u) {
        return static_cast<int>(i);
      }
    }
    klass = klass->GetSuperClass();
  }
  return -1;
}

// Whether a thread runs the task now, as far as the task says so.
bool Runs(ObjPtr<mirror::Object> task) REQUIRES_SHARED(Locks::mutator_lock_) {
  return found.runner.Uint32Value() != 0u && WrapperOf(task->GetClass()) == kFutureTask &&
         task->GetFieldObjectVolatile<mirror::Object>(found.runner) != nullptr;
}

// The class of what the task runs, in the end.
uint64_t WorkOf(ObjPtr<mirror::Object> task) REQUIRES_SHARED(Locks::mutator_lock_) {
  for (int step = 0; step != kMaxSteps && task != nullptr; ++step) {
    const int wrapper = WrapperOf(task->GetClass());
    if (wrapper < 0) {
      break;
    }
    ObjPtr<mirror::Object> work = task->GetFieldObject<mirror::Object>(found.fields[wrapper]);
    if (work == nullptr) {
      break;  // Forgotten: it has run.
    }
    task = work;
  }
  return ClassOf(task);
}

constexpr uint64_t WithKind(uint32_t kind, uint64_t id) {
  return (static_cast<uint64_t>(kind) << 56) | (id & ((UINT64_C(1) << 56) - 1u));
}

// Of the class 28 bits, which tell it from most others, above the hash. 0 if the object has no hash now.
uint64_t TaskIdentity(uint32_t kind, ObjPtr<mirror::Object> task)
    REQUIRES_SHARED(Locks::mutator_lock_) {
  const uint64_t hash = IdentityOf(task);
  return hash != 0u ? WithKind(kind, ((ClassOf(task) >> 3) << 28) | hash) : 0u;
}

// 0 if one of the two has no hash now.
uint64_t ItemIdentity(ObjPtr<mirror::Object> queue, ObjPtr<mirror::Object> item)
    REQUIRES_SHARED(Locks::mutator_lock_) {
  const uint64_t of_queue = IdentityOf(queue);
  const uint64_t of_item = IdentityOf(item);
  return of_queue != 0u && of_item != 0u ? WithKind(kTaskKindQueueItem, (of_queue << 28) | of_item) :
                                           0u;
}

uint64_t ThreadIdentity(Thread* thread) REQUIRES_SHARED(Locks::mutator_lock_) {
  ObjPtr<mirror::Object> peer = thread->GetPeer();
  return peer != nullptr ? WithKind(kTaskKindThread, peer->GetField64(found.thread_id)) : 0u;
}

// Records that a thread begins and ends. ART calls it on the thread, which is Runnable and has a ring.
class ThreadsBeginAndEnd : public ThreadLifecycleCallback {
 public:
  void ThreadStart(Thread* self) override REQUIRES_SHARED(Locks::mutator_lock_) {
    if (Records(self, kCategoryTasks)) {
      ObjPtr<mirror::Object> peer = self->GetPeer();
      ObjPtr<mirror::Object> target =
          peer != nullptr ? peer->GetFieldObject<mirror::Object>(found.thread_target) : nullptr;
      const uint64_t work = WorkOf(target != nullptr ? target : peer);
      Record(self, kTaskBegin, PackTaskBegin(ThreadIdentity(self), work, kTaskKindThread));
    }
  }

  void ThreadDeath(Thread* self) override REQUIRES_SHARED(Locks::mutator_lock_) {
    if (Records(self, kCategoryTasks)) {
      RecordResources(self);
      Record(self, kTaskEnd, PackTaskEnd(ThreadIdentity(self), kTaskKindThread));
    }
  }
};

// The offset of an instance field; 0, which no field has, if there is none.
MemberOffset OffsetOf(JNIEnv* env, const char* descriptor, const char* name, const char* type, uint64_t* klass) {
  ScopedLocalRef<jclass> java_class(env, FindBootClass(env, descriptor));
  if (java_class.get() == nullptr) {
    return MemberOffset(0);
  }
  ScopedObjectAccess soa(env);
  ObjPtr<mirror::Class> found_class = soa.Decode<mirror::Class>(java_class.get());
  ArtField* field = found_class->FindDeclaredInstanceField(name, type);
  if (field == nullptr) {
    return MemberOffset(0);
  }
  if (klass != nullptr) {
    *klass = NumberOf(found_class);
  }
  return field->GetOffset();
}

}  // namespace

void PrepareTaskEvents(JNIEnv* env) {
  for (size_t i = 0; i != arraysize(kWrappers); ++i) {
    const Wrapper& wrapper = kWrappers[i];
    found.fields[i] =
        OffsetOf(env, wrapper.descriptor, wrapper.field, wrapper.type, &found.classes[i]);
  }
  found.runner =
      OffsetOf(env, kWrappers[kFutureTask].descriptor, "runner", "Ljava/lang/Thread;", nullptr);
  found.thread_id = OffsetOf(env, "Ljava/lang/Thread;", "tid", "J", nullptr);
  found.thread_target =
      OffsetOf(env, "Ljava/lang/Thread;", "target", "Ljava/lang/Runnable;", nullptr);
  if (found.thread_id.Uint32Value() == 0u || found.thread_target.Uint32Value() == 0u) {
    LOG(ERROR) << "hindsight: java.lang.Thread has other fields: begins of threads are not recorded";
    return;
  }
  static ThreadsBeginAndEnd* const threads = new ThreadsBeginAndEnd();
  ScopedSuspendAll suspend(__FUNCTION__);
  Runtime::Current()->GetRuntimeCallbacks()->AddThreadLifecycleCallback(threads);
}

void TaskSubmitted(Thread* self, uint32_t kind, ObjPtr<mirror::Object> task, int64_t delay_ms) {
  if (Records(self, kCategoryTasks)) {
    const uint64_t delay = std::min<int64_t>(std::max<int64_t>(delay_ms, 0), UINT32_MAX);
    const uint64_t identity = TaskIdentity(kind, task);
    Record(self, kTaskSubmitted, PackTaskSubmitted(identity, WorkOf(task), kind, delay));
  }
}

void TaskBegin(Thread* self, uint32_t kind, ObjPtr<mirror::Object> task) {
  if (Records(self, kCategoryTasks)) {
    Record(self, kTaskBegin, PackTaskBegin(TaskIdentity(kind, task), WorkOf(task), kind));
  }
  RecordResources(self);
}

void TaskEnd(Thread* self, uint32_t kind, ObjPtr<mirror::Object> task) {
  RecordResources(self);
  if (Records(self, kCategoryTasks)) {
    Record(self, kTaskEnd, PackTaskEnd(TaskIdentity(kind, task), kind));
  }
}

void TaskCancelled(Thread* self, uint32_t kind, ObjPtr<mirror::Object> task) {
  // FutureTask.cancel() also ends the wait for a task that runs.
  if (Records(self, kCategoryTasks) && !Runs(task)) {
    Record(self, kCancelled, PackCancelled(TaskIdentity(kind, task)));
  }
}

void ItemPut(Thread* self, ObjPtr<mirror::Object> queue, ObjPtr<mirror::Object> item) {
  if (Records(self, kCategoryTasks)) {
    Record(self, kItemPut, PackItemPut(ItemIdentity(queue, item), ClassOf(item)));
  }
}

void ItemTaken(Thread* self, ObjPtr<mirror::Object> queue, ObjPtr<mirror::Object> item) {
  if (Records(self, kCategoryTasks) && item != nullptr) {
    Record(self, kItemTaken, PackItemTaken(ItemIdentity(queue, item), ClassOf(item)));
  }
}

void ItemRemoved(Thread* self, ObjPtr<mirror::Object> queue, ObjPtr<mirror::Object> item) {
  if (Records(self, kCategoryTasks)) {
    Record(self, kCancelled, PackCancelled(ItemIdentity(queue, item)));
  }
}

void ThreadSubmitted(Thread* self, int64_t id, ObjPtr<mirror::Object> work) {
  if (Records(self, kCategoryTasks)) {
    Record(self,
           kTaskSubmitted,
           PackTaskSubmitted(WithKind(kTaskKindThread, id), WorkOf(work), kTaskKindThread, 0u));
  }
}

}  // namespace hindsight
}  // namespace art
