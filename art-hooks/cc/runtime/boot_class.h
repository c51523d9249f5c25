// SPDX-License-Identifier: Apache-2.0

#ifndef HINDSIGHT_RUNTIME_BOOT_CLASS_H_
#define HINDSIGHT_RUNTIME_BOOT_CLASS_H_

#include <jni.h>

namespace art {
namespace hindsight {

// A local reference to the class of the boot class path with this descriptor; null, and nothing in ART's log, if there
// is none. The calling thread is not Runnable.
jclass FindBootClass(JNIEnv* env, const char* descriptor);

}  // namespace hindsight
}  // namespace art

#endif  // HINDSIGHT_RUNTIME_BOOT_CLASS_H_
