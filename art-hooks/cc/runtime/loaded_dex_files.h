// SPDX-License-Identifier: Apache-2.0
//
// The dex files of class loaders.

#ifndef HINDSIGHT_ART_HOOKS_CC_RUNTIME_LOADED_DEX_FILES_H_
#define HINDSIGHT_ART_HOOKS_CC_RUNTIME_LOADED_DEX_FILES_H_

#include <vector>

#include "base/locks.h"
#include "handle.h"
#include "inlined_copies.h"
#include "obj_ptr.h"

namespace art {

class Thread;
class VariableSizedHandleScope;

namespace mirror {
class Class;
class ClassLoader;
}  // namespace mirror

namespace hindsight {

// What InlinedCopies calls the owner of the class loader's dex files. Null: the boot class path's.
const void* OwnerOf(ObjPtr<mirror::ClassLoader> loader) REQUIRES_SHARED(Locks::mutator_lock_);

// The dex files of the class loader of a class. They stay mapped as long as the class is not unloaded.
LoadedDexFiles DexFilesWith(Thread* self, Handle<mirror::Class> klass) REQUIRES_SHARED(Locks::mutator_lock_);

// The dex files of the boot class path, and of all class loaders that have loaded a class. The class loaders get handles
// in `loaders`: their dex files stay mapped as long as it exists. No collection runs.
std::vector<LoadedDexFiles> AllDexFiles(Thread* self, VariableSizedHandleScope* loaders)
    REQUIRES_SHARED(Locks::mutator_lock_);

}  // namespace hindsight
}  // namespace art

#endif  // HINDSIGHT_ART_HOOKS_CC_RUNTIME_LOADED_DEX_FILES_H_
