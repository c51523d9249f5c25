// SPDX-License-Identifier: Apache-2.0
//
// Thread priorities of the lab's android.os.Process: nice values, as on a device, but without its cgroups.
#include "process.h"

#include <errno.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "core_jni_helpers.h"

namespace hindsight_lab {
namespace {

void SetPriorityOfThread(JNIEnv* env, jclass, jint tid, jint priority) {
  if (setpriority(PRIO_PROCESS, static_cast<id_t>(tid), priority) == 0) return;
  // An ordinary user may not raise priorities on Linux; an app's threads may, on a device. Not an error here.
  if (errno == EACCES || errno == EPERM) return;
  jniThrowException(env, "java/lang/IllegalArgumentException", strerror(errno));
}

void SetPriorityOfCaller(JNIEnv* env, jclass type, jint priority) {
  SetPriorityOfThread(env, type, static_cast<jint>(syscall(SYS_gettid)), priority);
}

const JNINativeMethod kMethods[] = {
    {"setThreadPriority", "(I)V", reinterpret_cast<void*>(SetPriorityOfCaller)},
    {"setThreadPriority", "(II)V", reinterpret_cast<void*>(SetPriorityOfThread)},
};

}  // namespace

void RegisterProcess(JNIEnv* env) {
  android::RegisterMethodsOrDie(env, "android/os/Process", kMethods, NELEM(kMethods));
}

}  // namespace hindsight_lab
