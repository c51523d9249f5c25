// SPDX-License-Identifier: Apache-2.0

#include "event_class.h"

#include <atomic>

#include "boot_class.h"
#include "hindsight/runtime/art_services.h"
#include "jni/jni_env_ext.h"
#include "nativehelper/scoped_local_ref.h"
#include "task_events.h"
#include "thread-current-inl.h"

namespace art {
namespace hindsight {

namespace {

// A field of a class that has been registered.
struct RegisteredField {
  jclass java_class;
  jfieldID field;
  uint32_t categories;
};

constexpr size_t kMaxFields = 16u;

// Written by RegisterEventClasses() only, before `registered_fields` says that they are there.
RegisteredField fields[kMaxFields];
std::atomic<size_t> registered_fields(0u);

void Register(JNIEnv* env, const EventClass& events) {
  ScopedLocalRef<jclass> java_class(env, FindBootClass(env, events.descriptor));
  if (java_class.get() == nullptr) {
    return;  // A tree without this project's patch, or a program without the framework.
  }
  const jint methods = static_cast<jint>(events.method_count);
  if (env->RegisterNatives(java_class.get(), events.methods, methods) != JNI_OK) {
    LOG(ERROR) << "hindsight: cannot register the native methods of " << events.descriptor;
    env->ExceptionClear();
    return;
  }
  jclass global = static_cast<jclass>(env->NewGlobalRef(java_class.get()));
  size_t count = registered_fields.load(std::memory_order_relaxed);
  for (size_t i = 0; i != events.field_count && count != kMaxFields; ++i) {
    jfieldID field = env->GetStaticFieldID(global, events.fields[i].name, "Z");
    if (field == nullptr) {
      LOG(ERROR) << "hindsight: " << events.descriptor << " has no field " << events.fields[i].name;
      env->ExceptionClear();
      continue;
    }
    fields[count++] = {global, field, events.fields[i].categories};
  }
  registered_fields.store(count, std::memory_order_release);
}

}  // namespace

void RegisterEventClasses(JNIEnv* env) {
  Register(env, kLibcoreEvents);
  Register(env, kFrameworkEvents);
  Register(env, kProgramEvents);
  PrepareTaskEvents(env);
}

void SetEventCategories(uint32_t categories) {
  JNIEnv* env = Thread::Current()->GetJniEnv();
  const size_t count = registered_fields.load(std::memory_order_acquire);
  for (size_t i = 0; i != count; ++i) {
    const bool records = (categories & fields[i].categories) != 0u;
    env->SetStaticBooleanField(fields[i].java_class, fields[i].field, records ? JNI_TRUE : JNI_FALSE);
  }
}

}  // namespace hindsight
}  // namespace art
