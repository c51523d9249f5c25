// SPDX-License-Identifier: Apache-2.0
//
// Numbers that stand for objects and classes in events.

#ifndef HINDSIGHT_RUNTIME_OBJECT_IDENTITY_H_
#define HINDSIGHT_RUNTIME_OBJECT_IDENTITY_H_

#include "base/length_prefixed_array.h"
#include "base/locks.h"
#include "hindsight/runtime/method_word.h"
#include "lock_word-inl.h"
#include "mirror/class-inl.h"
#include "mirror/object-inl.h"
#include "monitor.h"
#include "thread.h"

namespace art {
namespace hindsight {

// The object's identity hash, of 28 bits; 0 if there is no object. Also 0 if it is thin-locked: its hash would need a
// monitor, which takes locks and memory. Never suspends the thread.
inline uint32_t IdentityOf(ObjPtr<mirror::Object> object) REQUIRES_SHARED(Locks::mutator_lock_) {
  while (object != nullptr) {
    const LockWord word = object->GetLockWord(/* as_volatile= */ false);
    switch (word.GetState()) {
      case LockWord::kHashCode:
        return static_cast<uint32_t>(word.GetHashCode());
      case LockWord::kFatLocked:
        return static_cast<uint32_t>(word.FatLockMonitor()->GetHashCode());
      case LockWord::kUnlocked:
        // Another thread may lock the object, or give it a hash, at the same time: then this looks again.
        object->CasLockWord(
            word,
            LockWord::FromHashCode(mirror::Object::GenerateIdentityHashCode(), word.GCState()),
            CASMode::kWeak,
            std::memory_order_relaxed);
        break;
      default:
        return 0u;
    }
  }
  return 0u;
}

// As IdentityOf(), but an object that this thread has locked gets a monitor for its hash. For programs' objects, whose
// methods are often called, and whose fields are accessed, while the lock is held. Never suspends the thread.
inline uint32_t IdentityOfLocked(Thread* self, ObjPtr<mirror::Object> object)
    REQUIRES_SHARED(Locks::mutator_lock_) {
  const uint32_t identity = IdentityOf(object);
  if (identity != 0u || object == nullptr) {
    return identity;
  }
  const LockWord word = object->GetLockWord(/* as_volatile= */ false);
  const bool is_own =
      word.GetState() == LockWord::kThinLocked && word.ThinLockOwner() == self->GetThreadId();
  return is_own ? static_cast<uint32_t>(object->IdentityHashCode()) : 0u;
}

// A class, as the number of its first method, which does not move: readers know the method's name, and so the class's.
// 0 if it has no method.
inline uint64_t NumberOf(ObjPtr<mirror::Class> klass) REQUIRES_SHARED(Locks::mutator_lock_) {
  LengthPrefixedArray<ArtMethod>* methods = klass->GetMethodsPtr();
  if (methods == nullptr || methods->size() == 0u) {
    return 0u;
  }
  return MethodWord(
      &methods->At(0, ArtMethod::Size(kRuntimePointerSize), ArtMethod::Alignment(kRuntimePointerSize)));
}

inline uint64_t ClassOf(ObjPtr<mirror::Object> object) REQUIRES_SHARED(Locks::mutator_lock_) {
  return object != nullptr ? NumberOf(object->GetClass()) : 0u;
}

}  // namespace hindsight
}  // namespace art

#endif  // HINDSIGHT_RUNTIME_OBJECT_IDENTITY_H_
