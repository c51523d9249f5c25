// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <jni.h>

namespace hindsight_lab {

// Registers the natives of android.view.DisplayEventReceiver, whose vsync comes from a timer.
void RegisterDisplayEventReceiver(JNIEnv* env);

}  // namespace hindsight_lab
