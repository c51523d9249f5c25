// SPDX-License-Identifier: Apache-2.0

#ifndef HINDSIGHT_RUNTIME_HINDSIGHT_CLASS_H_
#define HINDSIGHT_RUNTIME_HINDSIGHT_CLASS_H_

#include <jni.h>

namespace art {
namespace hindsight {

// Registers the native methods of dev.hindsight.Hindsight, if that class is on the boot class path.
void RegisterHindsightClass(JNIEnv* env);

}  // namespace hindsight
}  // namespace art

#endif  // HINDSIGHT_RUNTIME_HINDSIGHT_CLASS_H_
