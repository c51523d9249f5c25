// SPDX-License-Identifier: Apache-2.0

#include "hindsight_class.h"

#include "boot_class.h"
#include "hindsight/runtime/art_services.h"
#include "jni/jni_env_ext.h"
#include "bridge_bytes.h"
#include "nativehelper/scoped_local_ref.h"
#include "nativehelper/scoped_utf_chars.h"
#include "thread-current-inl.h"

#include "hindsight-art-hooks/src/bridge.rs.h"

namespace art {
namespace hindsight {

namespace {

constexpr const char* kDescriptor = "Ldev/hindsight/Hindsight;";

// Hindsight.nativeAnomaly: the path of the file, or null if no file was written.
jstring NativeAnomaly(JNIEnv* env, jclass, jstring java_reason) {
  ScopedUtfChars reason(env, java_reason);
  if (reason.c_str() == nullptr) {
    return nullptr;  // NullPointerException is pending.
  }
  const rust::String path =
      bridge::snapshot(ToBridge(reason.c_str()), Thread::Current()->GetTid());
  return path.empty() ? nullptr : env->NewStringUTF(std::string(path).c_str());
}

jboolean NativeIsTracing(JNIEnv*, jclass) {
  const ThreadWords* words = Thread::Current()->GetHindsightWords();
  return words->cursor != 0u || words->events != 0u ? JNI_TRUE : JNI_FALSE;
}

jboolean NativeTrace(JNIEnv*, jclass, jboolean trace) {
  return bridge::trace_thread(Thread::Current()->GetTid(), trace == JNI_TRUE) ? JNI_TRUE : JNI_FALSE;
}

// Fields of the class, which the watchdog of the main looper reads. Written by RegisterHindsightClass() only, before the control
// thread is started.
jclass watchdog_class = nullptr;
jfieldID slow_millis = nullptr;
jfieldID stuck_millis = nullptr;
jfieldID quiet_millis = nullptr;

jfieldID LongField(JNIEnv* env, jclass java_class, const char* name) {
  jfieldID field = env->GetStaticFieldID(java_class, name, "J");
  if (field == nullptr) {
    LOG(ERROR) << "hindsight: " << kDescriptor << " has no field " << name;
    env->ExceptionClear();
  }
  return field;
}

void NativeAppIsKnown(JNIEnv*, jclass) {
  bridge::app_is_known();
}

void NativeTrimMemory(JNIEnv*, jclass) {
  bridge::trim_memory();
}

const JNINativeMethod kMethods[] = {
    {"nativeAnomaly",
     "(Ljava/lang/String;)Ljava/lang/String;",
     reinterpret_cast<void*>(NativeAnomaly)},
    {"nativeAppIsKnown", "()V", reinterpret_cast<void*>(NativeAppIsKnown)},
    {"nativeIsTracing", "()Z", reinterpret_cast<void*>(NativeIsTracing)},
    {"nativeTrace", "(Z)Z", reinterpret_cast<void*>(NativeTrace)},
    {"nativeTrimMemory", "()V", reinterpret_cast<void*>(NativeTrimMemory)},
};

}  // namespace

void RegisterHindsightClass(JNIEnv* env) {
  ScopedLocalRef<jclass> java_class(env, FindBootClass(env, kDescriptor));
  if (java_class.get() != nullptr &&
      env->RegisterNatives(java_class.get(), kMethods, arraysize(kMethods)) != JNI_OK) {
    LOG(ERROR) << "hindsight: cannot register the native methods of " << kDescriptor;
    env->ExceptionClear();
  }
  if (java_class.get() != nullptr) {
    slow_millis = LongField(env, java_class.get(), "slowMillis");
    stuck_millis = LongField(env, java_class.get(), "stuckMillis");
    quiet_millis = LongField(env, java_class.get(), "quietMillis");
    watchdog_class = static_cast<jclass>(env->NewGlobalRef(java_class.get()));
  }
}

void SetMessageLimits(uint64_t slow_ms, uint64_t stuck_ms, uint64_t quiet_ms) {
  if (slow_millis == nullptr || stuck_millis == nullptr || quiet_millis == nullptr) {
    return;
  }
  JNIEnv* env = Thread::Current()->GetJniEnv();
  // 0 in the message is off; 0 in the field is that no service has said anything.
  auto set = [env](jfieldID field, uint64_t ms) {
    env->SetStaticLongField(watchdog_class, field, ms == 0u ? -1 : static_cast<jlong>(ms));
  };
  set(quiet_millis, quiet_ms);
  set(stuck_millis, stuck_ms);
  set(slow_millis, slow_ms);
}

}  // namespace hindsight
}  // namespace art
