// SPDX-License-Identifier: Apache-2.0
//
// dev.hindsight.Events.

#include "bridge_bytes.h"
#include "event_class.h"
#include "hindsight/runtime/events.h"
#include "hindsight/runtime/stack_sample.h"
#include "nativehelper/scoped_utf_chars.h"
#include "native/scoped_fast_native_object_access-inl.h"
#include "thread-current-inl.h"

#include "hindsight-art-hooks/src/bridge.rs.h"

namespace art {
namespace hindsight {

namespace {

jint Register(JNIEnv* env, jclass, jstring java_name) {
  ScopedUtfChars name(env, java_name);
  if (name.c_str() == nullptr) {
    return 0;  // NullPointerException is pending.
  }
  return static_cast<jint>(bridge::register_name(ToBridge(name.c_str())));
}

void Mark(jint name) {
  Thread* self = Thread::Current();
  if (Records(self, kCategoryMarks)) {
    Record(self, kUserMark, PackUserMark(name));
  }
}

// The events of work have the same payload.
template <uint32_t kNumber>
void Work(jint name, jlong id) {
  Thread* self = Thread::Current();
  if (Records(self, kCategoryMarks)) {
    Record(self, kNumber, PackUserBegin(name, id));
  }
}

void Sample(JNIEnv* env, jclass, jboolean force) {
  ScopedFastNativeObjectAccess soa(env);
  SampleStack(soa.Self(), kStackReasonProgram, force == JNI_TRUE);
}

const JNINativeMethod kMethods[] = {
    {"nativeRegister", "(Ljava/lang/String;)I", reinterpret_cast<void*>(Register)},
    {"nativeMark", "(I)V", reinterpret_cast<void*>(Mark)},
    {"nativeBegin", "(IJ)V", reinterpret_cast<void*>(Work<kUserBegin>)},
    {"nativeEnd", "(IJ)V", reinterpret_cast<void*>(Work<kUserEnd>)},
    {"nativePost", "(IJ)V", reinterpret_cast<void*>(Work<kUserPost>)},
    {"nativeSample", "(Z)V", reinterpret_cast<void*>(Sample)},
};

constexpr CategoryField kFields[] = {
    {"marks", kCategoryMarks},
    {"stacks", kCategoryStacks},
};

}  // namespace

const EventClass kProgramEvents = {"Ldev/hindsight/Events;",
                                   kMethods,
                                   arraysize(kMethods),
                                   kFields,
                                   arraysize(kFields)};

}  // namespace hindsight
}  // namespace art
