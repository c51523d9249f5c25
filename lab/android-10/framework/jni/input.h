// SPDX-License-Identifier: Apache-2.0
#ifndef HINDSIGHT_LAB_FRAMEWORK_JNI_INPUT_H_
#define HINDSIGHT_LAB_FRAMEWORK_JNI_INPUT_H_

#include <jni.h>

namespace hindsight_lab {

// Registers the natives of android.view.InputEventReceiver and dev.hindsight.lab.InputSource.
void RegisterInput(JNIEnv* env);

}  // namespace hindsight_lab

#endif  // HINDSIGHT_LAB_FRAMEWORK_JNI_INPUT_H_
