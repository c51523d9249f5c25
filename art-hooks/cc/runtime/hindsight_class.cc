// SPDX-License-Identifier: Apache-2.0

#include "hindsight_class.h"

#include "boot_class.h"
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

void NativeTrimMemory(JNIEnv*, jclass) {
  bridge::trim_memory();
}

const JNINativeMethod kMethods[] = {
    {"nativeAnomaly",
     "(Ljava/lang/String;)Ljava/lang/String;",
     reinterpret_cast<void*>(NativeAnomaly)},
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
}

}  // namespace hindsight
}  // namespace art
