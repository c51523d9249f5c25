// SPDX-License-Identifier: Apache-2.0

#include "boot_class.h"

#include "class_linker.h"
#include "dex/dex_file-inl.h"
#include "dex/utf.h"
#include "handle_scope-inl.h"
#include "jni/jni_internal.h"
#include "mirror/class-inl.h"
#include "oat_file.h"
#include "runtime.h"
#include "scoped_thread_state_change-inl.h"
#include "thread-current-inl.h"

namespace art {
namespace hindsight {

namespace {

// Called before the look-up, because a look-up that fails would leave an exception and an entry in ART's log.
bool IsOnBootClassPath(const char* descriptor) REQUIRES_SHARED(Locks::mutator_lock_) {
  const size_t hash = ComputeModifiedUtf8Hash(descriptor);
  for (const DexFile* dex_file : Runtime::Current()->GetClassLinker()->GetBootClassPath()) {
    if (OatDexFile::FindClassDef(*dex_file, descriptor, hash) != nullptr) {
      return true;
    }
  }
  return false;
}

}  // namespace

jclass FindBootClass(JNIEnv* env, const char* descriptor) {
  Thread* self = Thread::Current();
  jclass java_class = nullptr;
  {
    ScopedObjectAccess soa(self);
    if (!IsOnBootClassPath(descriptor)) {
      return nullptr;
    }
    java_class = soa.AddLocalReference<jclass>(
        Runtime::Current()->GetClassLinker()->FindSystemClass(self, descriptor));
  }
  if (java_class == nullptr) {
    LOG(ERROR) << "hindsight: cannot load " << descriptor;
    env->ExceptionClear();
  }
  return java_class;
}

}  // namespace hindsight
}  // namespace art
