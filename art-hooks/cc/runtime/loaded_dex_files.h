// SPDX-License-Identifier: Apache-2.0
//
// The dex files of class loaders.

#ifndef HINDSIGHT_ART_HOOKS_CC_RUNTIME_LOADED_DEX_FILES_H_
#define HINDSIGHT_ART_HOOKS_CC_RUNTIME_LOADED_DEX_FILES_H_

#include <vector>

#include "base/locks.h"
#include "handle.h"
#include "obj_ptr.h"

namespace art {

class DexFile;
class Thread;
class VariableSizedHandleScope;

namespace mirror {
class Class;
class ClassLoader;
}  // namespace mirror

namespace hindsight {

// The dex files of a class loader.
struct LoadedDexFiles {
  // Stands for the class loader: nothing is read there. Null: the boot class path.
  const void* owner;
  std::vector<const DexFile*> dex_files;
};

// Both functions register the dex files with the class loader, as loading a class does. So the dex files stay mapped until
// the class loader is unloaded, also if the program closes them, and no other class loader can load classes from them. Those
// that are registered with another class loader are left out. Both functions may suspend the thread. No exception is pending
// when they are called, nor when they return.

// The dex files of the class loader of a class. They stay mapped as long as the class is not unloaded.
LoadedDexFiles DexFilesWith(Thread* self, Handle<mirror::Class> klass) REQUIRES_SHARED(Locks::mutator_lock_);

// The dex files of the boot class path, and of all class loaders that have loaded a class. The class loaders get handles
// in `loaders`: their dex files stay mapped as long as it exists.
std::vector<LoadedDexFiles> AllDexFiles(Thread* self, VariableSizedHandleScope* loaders)
    REQUIRES_SHARED(Locks::mutator_lock_);

}  // namespace hindsight
}  // namespace art

#endif  // HINDSIGHT_ART_HOOKS_CC_RUNTIME_LOADED_DEX_FILES_H_
