// SPDX-License-Identifier: Apache-2.0
//
// Names of methods for snapshots. The control thread is Runnable meanwhile, so every suspension of all threads, and with it a
// garbage collection, waits for its next suspend check: it passes one after each slice of work.

#include "naming_check.h"

#include <algorithm>
#include <vector>

#include "art_field-inl.h"
#include "art_method-inl.h"
#include "base/mutex.h"
#include "bridge_bytes.h"
#include "class_linker.h"
#if __has_include("class_root-inl.h")
#include "class_root-inl.h"
#else
#include "class_root.h"
#endif
#include "class_table-inl.h"
#include "dex/dex_file-inl.h"
#include "dex/descriptors_names.h"
#include "gc/heap-inl.h"
#include "gc/scoped_gc_critical_section.h"
#include "handle_scope-inl.h"
#include "hindsight/compat.h"
#include "hindsight/runtime/art_services.h"
#include "hindsight/runtime/method_word.h"
#include "linear_alloc.h"
#include "mirror/array-inl.h"
#include "mirror/class-inl.h"
#include "mirror/class_ext-inl.h"
#include "mirror/dex_cache-inl.h"
#include "mirror/string-inl.h"
#include "runtime.h"
#include "runtime_callbacks.h"
#include "scoped_thread_state_change-inl.h"
#include "thread-current-inl.h"
#include "thread-inl.h"
#include "thread_list.h"

#include "hindsight-art-hooks/src/bridge.rs.h"

namespace art {
namespace hindsight {

namespace {

// The most that the thread does between two suspend checks.
constexpr size_t kClassesPerSlice = 256u;
constexpr size_t kMethodsPerSlice = 32u;

// Passes a suspend check after each slice of so many steps.
class Slices {
 public:
  Slices(Thread* self, NamingStep step, size_t steps) : self_(self), step_(step), steps_(steps) {}

  ~Slices() { CountNaming(step_, done_, watch_); }

  // One step is done. No ObjPtr is valid afterwards.
  void Next() REQUIRES_SHARED(Locks::mutator_lock_) {
    if (++done_ == steps_) {
      CountNaming(step_, done_, watch_);
      self_->CheckSuspend();
      done_ = 0u;
      watch_ = NamingWatch();
    }
  }

 private:
  Thread* const self_;
  const NamingStep step_;
  const size_t steps_;
  size_t done_ = 0u;
  NamingWatch watch_;

  DISALLOW_COPY_AND_ASSIGN(Slices);
};

enum class ClassesOf { kAll, kBootImage, kOthers };

// Lists classes. The handles keep them alive, and with them their methods.
class ClassLister final : public ClassVisitor {
 public:
  ClassLister(VariableSizedHandleScope* handles, ClassesOf wanted)
      : handles_(handles), wanted_(wanted), heap_(Runtime::Current()->GetHeap()) {}

  bool operator()(ObjPtr<mirror::Class> klass) override REQUIRES_SHARED(Locks::mutator_lock_) {
    const bool is_wanted = wanted_ == ClassesOf::kAll ||
        heap_->ObjectIsInBootImageSpace(klass) == (wanted_ == ClassesOf::kBootImage);
    if (is_wanted) {
      classes.push_back(handles_->NewHandle(klass));
    }
    return true;
  }

  std::vector<Handle<mirror::Class>> classes;

 private:
  VariableSizedHandleScope* const handles_;
  const ClassesOf wanted_;
  gc::Heap* const heap_;

  DISALLOW_COPY_AND_ASSIGN(ClassLister);
};

// Finds the methods with given numbers in classes. An address alone proves nothing, even within a LinearAlloc: the memory
// of an unloaded class loader is reused.
class MethodFinder {
 public:
  // `wanted` is sorted.
  explicit MethodFinder(rust::Slice<const uint64_t> wanted)
      : begin_(wanted.data()), end_(wanted.data() + wanted.size()) {}

  void LookAt(ObjPtr<mirror::Class> klass) REQUIRES_SHARED(Locks::mutator_lock_) {
    // The methods of a class that is being loaded are not complete. None of them has run, but their memory may be that of
    // methods that have, of a loader that is unloaded.
    if (!klass->IsResolved()) {
      return;
    }
    for (; klass != nullptr; klass = ReplacedBy(klass)) {
      FindIn(klass);
    }
  }

  // The methods found, each once, although several loaders may know a class.
  const std::vector<ArtMethod*>& Found() {
    std::sort(found_.begin(), found_.end());
    found_.erase(std::unique(found_.begin(), found_.end()), found_.end());
    return found_;
  }

 private:
  void FindIn(ObjPtr<mirror::Class> klass) REQUIRES_SHARED(Locks::mutator_lock_) {
    LengthPrefixedArray<ArtMethod>* methods = klass->GetMethodsPtr();
    if (methods != nullptr && methods->size() != 0u) {
      const size_t size = ArtMethod::Size(kRuntimePointerSize);
      ArtMethod* first_method = &methods->At(0u, size, ArtMethod::Alignment(kRuntimePointerSize));
      const uint64_t first = MethodWord(first_method);
      const uint64_t end = first + methods->size() * size;
      for (auto it = std::lower_bound(begin_, end_, first); it != end_ && *it < end; ++it) {
        if ((*it - first) % size == 0u) {
          const uintptr_t address = reinterpret_cast<uintptr_t>(first_method) + (*it - first);
          found_.push_back(reinterpret_cast<ArtMethod*>(address));
        }
      }
    }
    FindObsolete(klass);
  }

  // The class that a structural redefinition has replaced by `klass`; no class table has it any more.
  static ObjPtr<mirror::Class> ReplacedBy(ObjPtr<mirror::Class> klass) REQUIRES_SHARED(Locks::mutator_lock_) {
#if HINDSIGHT_ART >= 11
    ObjPtr<mirror::ClassExt> ext = klass->GetExtData();
    return ext != nullptr ? ext->GetObsoleteClass() : nullptr;
#else
    UNUSED(klass);
    return nullptr;
#endif
  }

  // The methods that a redefined class had before.
  void FindObsolete(ObjPtr<mirror::Class> klass) REQUIRES_SHARED(Locks::mutator_lock_) {
    ObjPtr<mirror::ClassExt> ext = klass->GetExtData();
    ObjPtr<mirror::PointerArray> obsolete = ext != nullptr ? ext->GetObsoleteMethods() : nullptr;
    for (int32_t i = 0; obsolete != nullptr && i < obsolete->GetLength(); ++i) {
      ArtMethod* method = obsolete->GetElementPtrSize<ArtMethod*>(i, kRuntimePointerSize);
      if (std::binary_search(begin_, end_, MethodWord(method))) {
        found_.push_back(method);
      }
    }
  }

  const uint64_t* const begin_;
  const uint64_t* const end_;
  std::vector<ArtMethod*> found_;

  DISALLOW_COPY_AND_ASSIGN(MethodFinder);
};

void AddSymbol(ArtMethod* method, bridge::SymbolSink& sink) REQUIRES_SHARED(Locks::mutator_lock_) {
  // A proxy's method has the name of the interface's method, but a class of its own.
  ArtMethod* named = method->GetInterfaceMethodIfProxy(kRuntimePointerSize);
  std::string storage;
  const std::string class_name =
      PrettyDescriptor(method->GetDeclaringClass()->GetDescriptor(&storage));
  const std::string signature = named->GetSignature().ToString();
  const char* source_file = named->GetDeclaringClassSourceFile();
  sink.add({MethodWord(method),
            ToBridge(class_name),
            ToBridge(named->GetName()),
            ToBridge(signature),
            ToBridge(source_file != nullptr ? source_file : ""),
            named->GetDexFile()->GetHeader().checksum_,
            named->GetDexMethodIndex()});
}

// The name of a proxy class, which has no descriptor in a dex file. Without read barriers.
std::string ProxyName(ObjPtr<mirror::Class> klass) REQUIRES_SHARED(Locks::mutator_lock_) {
  static const MemberOffset name_offset =
      GetClassRoot<mirror::Class>()->FindDeclaredInstanceField("name", "Ljava/lang/String;")->GetOffset();
  ObjPtr<mirror::String> name =
      klass->GetFieldObject<mirror::String, kVerifyNone, kWithoutReadBarrier>(name_offset);
  return name == nullptr ? "" : name->ToModifiedUtf8();
}

// The source file of the method's class, or an empty string. Without read barriers.
const char* SourceFile(ArtMethod* method) REQUIRES_SHARED(Locks::mutator_lock_) {
  ObjPtr<mirror::Class> klass = method->GetDeclaringClass<kWithoutReadBarrier>();
  if (klass->GetDexClassDefIndex() == DexFile::kDexNoIndex16) {
    return "";
  }
  const DexFile* dex_file = method->GetDexFile();
  const char* file = dex_file->GetSourceFile(dex_file->GetClassDef(klass->GetDexClassDefIndex()));
  return file != nullptr ? file : "";
}

// Lists the classes that the lister wants.
void ListClasses(Thread* self, ClassLister* lister) REQUIRES_SHARED(Locks::mutator_lock_) {
  {
    // No collection may run meanwhile. First, VisitClasses would wait for it at the loaders' weak references, while it
    // holds a lock that a runnable thread may wait for, and the collection would wait for that thread. Second,
    // VisitClasses does not find a loader that the collection has found dead, and the loader's methods are named only
    // near the collection's end. Loaders that it finds live until all is named.
    gc::ScopedGCCriticalSection no_gc(self, gc::kGcCauseClassLinker, gc::kCollectorTypeClassLinker);
    NamingWatch watch;
    Runtime::Current()->GetClassLinker()->VisitClasses(lister);
    CountNaming(NamingStep::kList, lister->classes.size(), watch);
  }
  self->CheckSuspend();
}

// Tells the recorder of classes that are linked from now on.
class LinkedClasses final : public ClassLoadCallback {
 public:
  void ClassLoad(Handle<mirror::Class> klass ATTRIBUTE_UNUSED) override {}

  // No method of the class has run. The methods stay where they are.
  void ClassPrepare(Handle<mirror::Class> temporary ATTRIBUTE_UNUSED, Handle<mirror::Class> klass) override
      REQUIRES_SHARED(Locks::mutator_lock_) {
    bridge::class_linked(reinterpret_cast<size_t>(&klass));
  }
};

LinkedClasses* GetLinkedClasses() {
  static LinkedClasses* linked_classes = new LinkedClasses();
  return linked_classes;
}

}  // namespace

void NameMethodsOfClass(size_t klass, bridge::SymbolSink& sink) NO_THREAD_SAFETY_ANALYSIS {
  const Handle<mirror::Class>& handle = *reinterpret_cast<Handle<mirror::Class>*>(klass);
  for (ArtMethod& method : handle->GetMethods(kRuntimePointerSize)) {
    AddSymbol(&method, sink);
  }
}

void NameLinkedClasses(bool of_boot_image, bridge::SymbolSink& sink) {
  Thread* self = Thread::Current();
  // Only the control thread comes here.
  static bool is_told = false;
  if (!is_told) {
    ScopedSuspendAll no_thread_runs(__FUNCTION__);
    Runtime::Current()->GetRuntimeCallbacks()->AddClassLoadCallback(GetLinkedClasses());
    is_told = true;
  }
  ScopedObjectAccess soa(self);
  VariableSizedHandleScope handles(self);
  ClassLister lister(&handles, of_boot_image ? ClassesOf::kBootImage : ClassesOf::kOthers);
  ListClasses(self, &lister);
  Slices slices(self, NamingStep::kName, kMethodsPerSlice);
  for (Handle<mirror::Class> klass : lister.classes) {
    // A class that is being linked is told of when it is.
    if (!klass->IsResolved()) {
      continue;
    }
    const size_t count = klass->NumMethods();
    for (size_t i = 0u; i != count; ++i) {
      AddSymbol(&klass->GetMethodsPtr()->At(i, ArtMethod::Size(kRuntimePointerSize), ArtMethod::Alignment(kRuntimePointerSize)), sink);
      slices.Next();
    }
  }
}

void Symbolize(rust::Slice<const uint64_t> addresses, bridge::SymbolSink& sink) {
  Thread* self = Thread::Current();
  ScopedObjectAccess soa(self);
  VariableSizedHandleScope handles(self);
  ClassLister lister(&handles, ClassesOf::kAll);
  ListClasses(self, &lister);
  MethodFinder finder(addresses);
  {
    Slices slices(self, NamingStep::kFind, kClassesPerSlice);
    for (Handle<mirror::Class> klass : lister.classes) {
      finder.LookAt(klass.Get());
      slices.Next();
    }
  }
  self->CheckSuspend();
  Slices slices(self, NamingStep::kName, kMethodsPerSlice);
  for (ArtMethod* method : finder.Found()) {
    AddSymbol(method, sink);
    slices.Next();
  }
}

// As in ClassLinker::DeleteClassLoader, the classes may be read, but a read barrier would revive them. All objects that
// they refer to still exist, because the methods of all dead loaders are named before any loader is freed.
void NameMethodsOfLoader(size_t loader, bridge::SymbolSink& sink) NO_THREAD_SAFETY_ANALYSIS {
  UnloadingLoader* unloading = reinterpret_cast<UnloadingLoader*>(loader);
  auto name_methods = [&](ObjPtr<mirror::Class> klass) NO_THREAD_SAFETY_ANALYSIS {
    // The table also has classes that other loaders have defined.
    LengthPrefixedArray<ArtMethod>* methods = klass->GetMethodsPtr();
    if (methods == nullptr || !unloading->methods->Contains(methods)) {
      return true;
    }
    const bool is_proxy = klass->IsProxyClass();
    const std::string proxy_name = is_proxy ? ProxyName(klass) : "";
    for (ArtMethod& method : klass->GetMethods(kRuntimePointerSize)) {
      // A proxy's method has the name of the interface's method, but a class of its own. A method that was copied from
      // an interface is still named after the interface.
      ArtMethod* named = is_proxy
          ? reinterpret_cast<ArtMethod*>(method.GetDataPtrSize(kRuntimePointerSize))
          : &method;
      const DexFile* dex_file = named->GetDexFile();
      const uint32_t index = named->GetDexMethodIndex();
      if (index >= dex_file->NumMethodIds()) {
        continue;
      }
      const dex::MethodId& id = dex_file->GetMethodId(index);
      const std::string class_name = is_proxy
          ? proxy_name
          : PrettyDescriptor(dex_file->GetMethodDeclaringClassDescriptor(id));
      const std::string signature = dex_file->GetMethodSignature(id).ToString();
      sink.add({MethodWord(&method),
                ToBridge(class_name),
                ToBridge(dex_file->GetMethodName(id)),
                ToBridge(signature),
                ToBridge(SourceFile(named)),
                dex_file->GetHeader().checksum_,
                index});
    }
    return true;
  };
  VisitClassesWithoutReadBarrier(unloading->classes, name_methods);
}

}  // namespace hindsight
}  // namespace art
