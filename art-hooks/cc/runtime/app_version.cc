// SPDX-License-Identifier: Apache-2.0
//
// Which version of its app a process runs. The framework has it in the objects by which it binds the process to the app. They are read
// here when the version is wanted: an app's start does nothing for it, and an app that crashes in its first callback has it, too.

#include "hindsight/runtime/art_services.h"

#include "android-base/logging.h"
#include "art_field-inl.h"
#include "class_linker.h"
#include "mirror/class-inl.h"
#include "mirror/object-inl.h"
#include "runtime.h"
#include "scoped_thread_state_change-inl.h"
#include "thread-current-inl.h"

namespace art {
namespace hindsight {

namespace {

constexpr const char* kActivityThread = "Landroid/app/ActivityThread;";

// Says once that the framework of this system has no such field.
ArtField* Known(ArtField* field, const char* name) {
  static bool is_said = false;
  if (field == nullptr && !is_said) {
    is_said = true;
    LOG(WARNING) << "hindsight: traces have no version of the app: the framework has no field " << name;
  }
  return field;
}

ObjPtr<mirror::Object> Field(ObjPtr<mirror::Object> object, const char* name, const char* type)
    REQUIRES_SHARED(Locks::mutator_lock_) {
  if (object == nullptr) {
    return nullptr;
  }
  ArtField* field = Known(object->GetClass()->FindInstanceField(name, type), name);
  return field == nullptr ? nullptr : field->GetObject(object);
}

// ActivityThread.sCurrentActivityThread; null before the framework is there.
ObjPtr<mirror::Object> CurrentActivityThread(Thread* self) REQUIRES_SHARED(Locks::mutator_lock_) {
  // Nothing is loaded: a program without the framework has no such class.
  ObjPtr<mirror::Class> java_class = Runtime::Current()->GetClassLinker()->LookupClass(
      self, kActivityThread, /* class_loader= */ nullptr);
  if (java_class == nullptr || !java_class->IsInitialized()) {
    return nullptr;
  }
  const char* name = "sCurrentActivityThread";
  ArtField* field = Known(java_class->FindDeclaredStaticField(name, kActivityThread), name);
  return field == nullptr ? nullptr : field->GetObject(java_class);
}

}  // namespace

int64_t AppVersion() {
  Thread* self = Thread::Current();
  ScopedObjectAccess soa(self);
  // There is no suspend check from here on: no object moves.
  ObjPtr<mirror::Object> bound = Field(CurrentActivityThread(self),
                                       "mBoundApplication",
                                       "Landroid/app/ActivityThread$AppBindData;");
  ObjPtr<mirror::Object> app = Field(bound, "appInfo", "Landroid/content/pm/ApplicationInfo;");
  if (app == nullptr) {
    return 0;
  }
  const char* name = "longVersionCode";
  ArtField* version = Known(app->GetClass()->FindInstanceField(name, "J"), name);
  return version == nullptr ? 0 : version->GetLong(app);
}

}  // namespace hindsight
}  // namespace art
