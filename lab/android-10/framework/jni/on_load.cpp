// SPDX-License-Identifier: Apache-2.0
//
// What AndroidRuntime::startReg does on a device, for the natives that are here.
#include <jni.h>

#include "display_event_receiver.h"
#include "input.h"
#include "process.h"

namespace android {

// Defined by the originals of frameworks/base.
int register_android_net_LocalSocketImpl(JNIEnv* env);
int register_android_os_FileObserver(JNIEnv* env);
int register_android_os_MessageQueue(JNIEnv* env);
int register_android_os_SystemClock(JNIEnv* env);
int register_android_os_SystemProperties(JNIEnv* env);
int register_android_os_Trace(JNIEnv* env);
int register_android_util_Log(JNIEnv* env);

}  // namespace android

extern "C" JNIEXPORT jint JNICALL JNI_OnLoad(JavaVM* vm, void* /*reserved*/) {
  JNIEnv* env = nullptr;
  if (vm->GetEnv(reinterpret_cast<void**>(&env), JNI_VERSION_1_6) != JNI_OK) return JNI_ERR;
  // Log first: the others report through it.
  android::register_android_util_Log(env);
  android::register_android_os_SystemProperties(env);
  android::register_android_os_SystemClock(env);
  android::register_android_os_Trace(env);
  android::register_android_os_MessageQueue(env);
  android::register_android_os_FileObserver(env);
  android::register_android_net_LocalSocketImpl(env);
  hindsight_lab::RegisterProcess(env);
  hindsight_lab::RegisterDisplayEventReceiver(env);
  hindsight_lab::RegisterInput(env);
  return JNI_VERSION_1_6;
}
