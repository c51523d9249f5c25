// SPDX-License-Identifier: Apache-2.0
//
// libcore.hindsight.TraceEvents.

#include "event_class.h"
#include "hindsight/runtime/events.h"
#include "hindsight/runtime/object_identity.h"
#include "native/scoped_fast_native_object_access-inl.h"
#include "task_events.h"

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

void NativeThreadSubmitted(JNIEnv* env, jclass, jlong id, jobject work) {
  ScopedFastNativeObjectAccess soa(env);
  ThreadSubmitted(soa.Self(), id, soa.Decode<mirror::Object>(work));
}

void NativeUncaught(JNIEnv* env, jclass, jobject exception) {
  ScopedFastNativeObjectAccess soa(env);
  if (Records(soa.Self(), kCategoryRuntime)) {
    Record(soa.Self(), kUncaught, PackUncaught(ClassOf(soa.Decode<mirror::Object>(exception))));
  }
}

const JNINativeMethod kMethods[] = {
    {"taskSubmitted", "(ILjava/lang/Object;J)V", reinterpret_cast<void*>(NativeTaskSubmitted)},
    {"taskBegin", "(ILjava/lang/Object;)V", reinterpret_cast<void*>(NativeTaskBegin)},
    {"taskEnd", "(ILjava/lang/Object;)V", reinterpret_cast<void*>(NativeTaskEnd)},
    {"taskCancelled", "(ILjava/lang/Object;)V", reinterpret_cast<void*>(NativeTaskCancelled)},
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
