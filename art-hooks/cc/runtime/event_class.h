// SPDX-License-Identifier: Apache-2.0
//
// The Java classes that record events.

#ifndef HINDSIGHT_RUNTIME_EVENT_CLASS_H_
#define HINDSIGHT_RUNTIME_EVENT_CLASS_H_

#include <jni.h>
#include <stddef.h>
#include <stdint.h>

namespace art {
namespace hindsight {

// A static boolean field that says whether any of these categories is recorded.
struct CategoryField {
  const char* name;
  uint32_t categories;
};

// A class with natives that record events.
struct EventClass {
  const char* descriptor;
  const JNINativeMethod* methods;
  size_t method_count;
  const CategoryField* fields;
  size_t field_count;
};

// libcore's, the framework's, and the program's.
extern const EventClass kLibcoreEvents;
extern const EventClass kFrameworkEvents;
extern const EventClass kProgramEvents;

// Registers the natives of those classes that are on the boot class path, and has begins and ends of threads recorded.
// Called once, before any thread has a ring. Then SetEventCategories() sets the fields of these classes.
void RegisterEventClasses(JNIEnv* env);

}  // namespace hindsight
}  // namespace art

#endif  // HINDSIGHT_RUNTIME_EVENT_CLASS_H_
