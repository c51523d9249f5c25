// SPDX-License-Identifier: Apache-2.0
//
// libcore.hindsight.TraceEvents.

#include <string>

#include "bridge_bytes.h"
#include "event_class.h"
#include "hindsight/runtime/events.h"
#include "hindsight/runtime/object_identity.h"
#include "native/scoped_fast_native_object_access-inl.h"
#include "scoped_thread_state_change-inl.h"
#include "task_events.h"

#include "hindsight-art-hooks/src/bridge.rs.h"

namespace art {
namespace hindsight {

namespace {

void NativeTaskSubmitted(JNIEnv* env, jclass, jint kind, jobject task, jlong delay_ms) {
  ScopedFastNativeObjectAccess soa(env);
  TaskSubmitted(soa.Self(), kind, soa.Decode<mirror::Object>(task), delay_ms);
}

void NativeTaskBegin(JNIEnv* env, jclass, jint kind, jobject task) {
  ScopedFastNativeObjectAccess soa(env);
  TaskBegin(soa.Self(), kind, soa.Decode<mirror::Object>(task));
}

void NativeTaskEnd(JNIEnv* env, jclass, jint kind, jobject task) {
  ScopedFastNativeObjectAccess soa(env);
  TaskEnd(soa.Self(), kind, soa.Decode<mirror::Object>(task));
}

void NativeTaskCancelled(JNIEnv* env, jclass, jint kind, jobject task) {
  ScopedFastNativeObjectAccess soa(env);
  TaskCancelled(soa.Self(), kind, soa.Decode<mirror::Object>(task));
}

void NativeItemPut(JNIEnv* env, jclass, jobject queue, jobject item) {
  ScopedFastNativeObjectAccess soa(env);
  ItemPut(soa.Self(), soa.Decode<mirror::Object>(queue), soa.Decode<mirror::Object>(item));
}

jobject NativeItemTaken(JNIEnv* env, jclass, jobject queue, jobject item) {
  ScopedFastNativeObjectAccess soa(env);
  ItemTaken(soa.Self(), soa.Decode<mirror::Object>(queue), soa.Decode<mirror::Object>(item));
  return item;
}

void NativeItemRemoved(JNIEnv* env, jclass, jobject queue, jobject item) {
  ScopedFastNativeObjectAccess soa(env);
  ItemRemoved(soa.Self(), soa.Decode<mirror::Object>(queue), soa.Decode<mirror::Object>(item));
}

void NativeThreadSubmitted(JNIEnv* env, jclass, jlong id, jobject work) {
  ScopedFastNativeObjectAccess soa(env);
  ThreadSubmitted(soa.Self(), id, soa.Decode<mirror::Object>(work));
}

void NativeUncaught(JNIEnv* env, jclass, jobject exception) {
  ScopedFastNativeObjectAccess soa(env);
  Thread* self = soa.Self();
  ObjPtr<mirror::Object> object = soa.Decode<mirror::Object>(exception);
  if (object == nullptr) {
    return;
  }
  if (Records(self, kCategoryRuntime)) {
    Record(self, kUncaught, PackUncaught(ClassOf(object)));
  }
  const std::string name = mirror::Class::PrettyDescriptor(object->GetClass());
  // The control thread, which this waits for, may wait for this thread.
  ScopedThreadSuspension suspended(self, ThreadState::kNative);
  bridge::crashed(ToBridge(name), self->GetTid());
}

const JNINativeMethod kMethods[] = {
    {"taskSubmitted", "(ILjava/lang/Object;J)V", reinterpret_cast<void*>(NativeTaskSubmitted)},
    {"taskBegin", "(ILjava/lang/Object;)V", reinterpret_cast<void*>(NativeTaskBegin)},
    {"taskEnd", "(ILjava/lang/Object;)V", reinterpret_cast<void*>(NativeTaskEnd)},
    {"taskCancelled", "(ILjava/lang/Object;)V", reinterpret_cast<void*>(NativeTaskCancelled)},
    {"itemPut", "(Ljava/lang/Object;Ljava/lang/Object;)V", reinterpret_cast<void*>(NativeItemPut)},
    {"itemTaken",
     "(Ljava/lang/Object;Ljava/lang/Object;)Ljava/lang/Object;",
     reinterpret_cast<void*>(NativeItemTaken)},
    {"itemRemoved",
     "(Ljava/lang/Object;Ljava/lang/Object;)V",
     reinterpret_cast<void*>(NativeItemRemoved)},
    {"threadSubmitted", "(JLjava/lang/Object;)V", reinterpret_cast<void*>(NativeThreadSubmitted)},
    {"uncaught", "(Ljava/lang/Throwable;)V", reinterpret_cast<void*>(NativeUncaught)},
};

constexpr CategoryField kFields[] = {
    {"tasks", kCategoryTasks | kCategoryResources},
    {"runtime", kCategoryRuntime},
};

}  // namespace

const EventClass kLibcoreEvents = {"Llibcore/hindsight/TraceEvents;",
                                   kMethods,
                                   arraysize(kMethods),
                                   kFields,
                                   arraysize(kFields)};

}  // namespace hindsight
}  // namespace art
