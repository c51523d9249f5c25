// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <jni.h>

namespace hindsight_lab {

// Registers the natives of the lab's android.os.Process.
void RegisterProcess(JNIEnv* env);

}  // namespace hindsight_lab
