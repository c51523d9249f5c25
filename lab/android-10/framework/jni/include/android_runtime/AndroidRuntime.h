// SPDX-License-Identifier: Apache-2.0
//
// Stands in for the header of libandroid_runtime: the one function that the originals' core_jni_helpers.h
// calls. Found before the original because this folder comes first on the include path.
#pragma once

#include <jni.h>
#include <log/log.h>
#include <nativehelper/JNIHelp.h>

#include <string>

namespace android {

class AndroidRuntime {
 public:
  static int registerNativeMethods(JNIEnv* env, const char* class_name,
                                   const JNINativeMethod* methods, int count) {
    return jniRegisterNativeMethods(env, class_name, methods, count);
  }
};

}  // namespace android
