// SPDX-License-Identifier: Apache-2.0

#include "loaded_dex_files.h"

#include <algorithm>
#include <unordered_set>

#include "class_linker.h"
#include "class_loader_utils.h"
#include "gc/scoped_gc_critical_section.h"
#include "handle_scope-inl.h"
#include "hindsight/compat.h"
#include "mirror/class-inl.h"
#include "mirror/class_loader-inl.h"
#include "runtime.h"
#include "scoped_thread_state_change-inl.h"
#include "well_known_classes.h"

namespace art {
namespace hindsight {

namespace {

void AddOnce(const DexFile* dex_file, std::vector<const DexFile*>* to) {
  if (dex_file != nullptr && std::find(to->begin(), to->end(), dex_file) == to->end()) {
    to->push_back(dex_file);
  }
}

// What stands for a class loader.
const void* OwnerOf(ObjPtr<mirror::ClassLoader> loader) REQUIRES_SHARED(Locks::mutator_lock_) {
  return loader != nullptr ? loader->GetAllocator() : nullptr;
}

// The dex files that the class loader finds classes in.
std::vector<const DexFile*> Searched(Thread* self, Handle<mirror::ClassLoader> loader)
    REQUIRES_SHARED(Locks::mutator_lock_) {
  std::vector<const DexFile*> searched;
  auto add = [&](const DexFile* dex_file) {
    AddOnce(dex_file, &searched);
    return true;
  };
#if HINDSIGHT_ART >= 14
  if (loader->InstanceOf(WellKnownClasses::dalvik_system_BaseDexClassLoader.Get())) {
    VisitClassLoaderDexFiles(self, loader, add);
  }
#else
  ScopedObjectAccessUnchecked soa(self);
  if (loader->InstanceOf(soa.Decode<mirror::Class>(WellKnownClasses::dalvik_system_BaseDexClassLoader))) {
    VisitClassLoaderDexFiles(soa, loader, add);
  }
#endif
  return searched;
}

// Adds the dex files of which the loader has not loaded a class yet, too: they were compiled together with the others.
// DexFile.close() frees dex files that are not registered.
void AddDexFilesOf(Thread* self, Handle<mirror::ClassLoader> loader, std::vector<const DexFile*>* to)
    REQUIRES_SHARED(Locks::mutator_lock_) {
  ClassLinker* linker = Runtime::Current()->GetClassLinker();
  if (loader == nullptr) {
    for (const DexFile* dex_file : linker->GetBootClassPath()) {
      AddOnce(dex_file, to);
    }
    return;
  }
  for (const DexFile* dex_file : Searched(self, loader)) {
    if (linker->RegisterDexFile(*dex_file, loader.Get()) != nullptr) {
      AddOnce(dex_file, to);
    } else {
      self->ClearException();
    }
  }
}

// Finds the class loaders that have loaded a class, and the dex files that their classes are from.
class LoaderFinder final : public ClassVisitor {
 public:
  struct Found {
    MutableHandle<mirror::ClassLoader> loader;
    LoadedDexFiles loaded;
  };

  explicit LoaderFinder(VariableSizedHandleScope* loaders) : loaders_(loaders) {}

  bool operator()(ObjPtr<mirror::Class> klass) override REQUIRES_SHARED(Locks::mutator_lock_) {
    if (!klass->IsResolved() || klass->IsArrayClass() || klass->IsPrimitive() || klass->IsProxyClass() ||
        klass->GetDexCache() == nullptr || !seen_.insert(&klass->GetDexFile()).second) {
      return true;
    }
    ObjPtr<mirror::ClassLoader> loader = klass->GetClassLoader();
    auto is_same = [&](const Found& one) REQUIRES_SHARED(Locks::mutator_lock_) {
      return one.loader.Get() == loader;
    };
    auto it = std::find_if(found.begin(), found.end(), is_same);
    if (it == found.end()) {
      it = found.insert(found.end(), Found{loaders_->NewHandle(loader), {OwnerOf(loader), {}}});
    }
    it->loaded.dex_files.push_back(&klass->GetDexFile());
    return true;
  }

  std::vector<Found> found;

 private:
  VariableSizedHandleScope* const loaders_;
  std::unordered_set<const DexFile*> seen_;

  DISALLOW_COPY_AND_ASSIGN(LoaderFinder);
};

}  // namespace

LoadedDexFiles DexFilesWith(Thread* self, Handle<mirror::Class> klass) {
  StackHandleScope<1> handles(self);
  Handle<mirror::ClassLoader> loader = handles.NewHandle(klass->GetClassLoader());
  LoadedDexFiles loaded{OwnerOf(loader.Get()), {&klass->GetDexFile()}};
  AddDexFilesOf(self, loader, &loaded.dex_files);
  return loaded;
}

std::vector<LoadedDexFiles> AllDexFiles(Thread* self, VariableSizedHandleScope* loaders) {
  LoaderFinder finder(loaders);
  {
    // As for names of methods (method_names.cc), no collection may run meanwhile.
    gc::ScopedGCCriticalSection no_gc(self, gc::kGcCauseClassLinker, gc::kCollectorTypeClassLinker);
    Runtime::Current()->GetClassLinker()->VisitClasses(&finder);
  }
  std::vector<LoadedDexFiles> all;
  for (LoaderFinder::Found& found : finder.found) {
    AddDexFilesOf(self, found.loader, &found.loaded.dex_files);
    all.push_back(std::move(found.loaded));
  }
  return all;
}

}  // namespace hindsight
}  // namespace art
