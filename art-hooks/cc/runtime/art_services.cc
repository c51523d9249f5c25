// SPDX-License-Identifier: Apache-2.0

#include "hindsight/runtime/art_services.h"

#include <algorithm>
#include <vector>

#include "android-base/file.h"
#include "android-base/logging.h"
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
#include "gc/scoped_gc_critical_section.h"
#include "hindsight/compat.h"
#include "hindsight/runtime/lab_build.h"
#include "hindsight/runtime/oat_key.h"
#include "hindsight/runtime/thread_offsets.h"
#include "linear_alloc.h"
#include "mirror/array-inl.h"
#include "mirror/class-inl.h"
#include "mirror/class_ext-inl.h"
#include "mirror/dex_cache-inl.h"
#include "mirror/string-inl.h"
#include "runtime.h"
#include "scoped_thread_state_change-inl.h"
#include "thread-current-inl.h"
#include "thread_list.h"

#include "hindsight-art-hooks/src/bridge.rs.h"

namespace art {
namespace hindsight {

namespace {

thread_local bool is_control_thread = false;

class RequestClosure final : public Closure {
 public:
  explicit RequestClosure(bridge::SafepointRequest& request) : request_(request) {}

  void Run(Thread* thread ATTRIBUTE_UNUSED) override { request_.run(); }

 private:
  bridge::SafepointRequest& request_;
};

// Finds the methods at given addresses by looking through all classes. An address alone proves nothing, even within a
// LinearAlloc: the memory of an unloaded class loader is reused.
class MethodFinder final : public ClassVisitor {
 public:
  MethodFinder(const uint64_t* begin, const uint64_t* end) : wanted_(begin, end) {
    std::sort(wanted_.begin(), wanted_.end());
  }

  bool operator()(ObjPtr<mirror::Class> klass) override REQUIRES_SHARED(Locks::mutator_lock_) {
    // The methods of a class that is being loaded are not complete. None of them has run, but their memory may be that of
    // methods that have, of a loader that is unloaded.
    if (!klass->IsResolved()) {
      return true;
    }
    for (; klass != nullptr; klass = ReplacedBy(klass)) {
      FindIn(klass);
    }
    return true;
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
      const uint64_t first = reinterpret_cast<uintptr_t>(
          &methods->At(0u, size, ArtMethod::Alignment(kRuntimePointerSize)));
      const uint64_t end = first + methods->size() * size;
      auto it = std::lower_bound(wanted_.begin(), wanted_.end(), first);
      for (; it != wanted_.end() && *it < end; ++it) {
        if ((*it - first) % size == 0u) {
          found_.push_back(reinterpret_cast<ArtMethod*>(static_cast<uintptr_t>(*it)));
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
      if (std::binary_search(wanted_.begin(), wanted_.end(), reinterpret_cast<uintptr_t>(method))) {
        found_.push_back(method);
      }
    }
  }

  std::vector<uint64_t> wanted_;
  std::vector<ArtMethod*> found_;

  DISALLOW_COPY_AND_ASSIGN(MethodFinder);
};

void AddSymbol(ArtMethod* method, bridge::SymbolSink& sink) REQUIRES_SHARED(Locks::mutator_lock_) {
  const uint64_t address = reinterpret_cast<uintptr_t>(method);
  // A proxy's method has the name of the interface's method, but a class of its own.
  ArtMethod* named = method->GetInterfaceMethodIfProxy(kRuntimePointerSize);
  std::string storage;
  const std::string class_name =
      PrettyDescriptor(method->GetDeclaringClass()->GetDescriptor(&storage));
  const std::string signature = named->GetSignature().ToString();
  const char* source_file = named->GetDeclaringClassSourceFile();
  sink.add({address,
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

}  // namespace

bool AttachControlThread() {
  is_control_thread = true;
  return Runtime::Current()->AttachCurrentThread("hindsight",
                                                 /* as_daemon= */ true,
                                                 /* thread_group= */ nullptr,
                                                 /* create_peer= */ false);
}

void DetachControlThread() {
  Runtime::Current()->DetachCurrentThread();
}

bool IsControlThread() {
  return is_control_thread;
}

// RequestSynchronousCheckpoint releases the thread list's lock, which the static analysis cannot follow through the
// loop.
bool RunAtSafepoint(uint32_t tid, bridge::SafepointRequest& request) NO_THREAD_SAFETY_ANALYSIS {
  Thread* self = Thread::Current();
  ScopedObjectAccess soa(self);
  Locks::thread_list_lock_->ExclusiveLock(self);
  for (Thread* thread : Runtime::Current()->GetThreadList()->GetList()) {
    if (static_cast<uint32_t>(thread->GetTid()) == tid) {
      RequestClosure closure(request);
      return thread->RequestSynchronousCheckpoint(&closure);
    }
  }
  Locks::thread_list_lock_->ExclusiveUnlock(self);
  return false;
}

#if defined(HINDSIGHT_LAB)

bool RunsManagedCode(size_t words) {
  const size_t thread = words - CursorOffset<kRuntimePointerSize>().SizeValue();
  return reinterpret_cast<Thread*>(thread)->GetState() == ThreadState::kRunnable;
}

rust::Str ObstacleToLockFree() {
#if HINDSIGHT_ART >= 14
  return "JNI stubs of this release have trace points of the inline form";
#else
  return HasInlineTracePoints() ? "there is code with trace points of the inline form" : "";
#endif
}

#endif  // HINDSIGHT_LAB

void Symbolize(rust::Slice<const uint64_t> addresses, bridge::SymbolSink& sink) {
  Thread* self = Thread::Current();
  // In parts, so that a garbage collection does not wait for long.
  constexpr size_t kPart = 4096u;
  for (size_t start = 0u; start < addresses.size(); start += kPart) {
    ScopedObjectAccess soa(self);
    const size_t end = std::min(start + kPart, addresses.size());
    MethodFinder finder(addresses.data() + start, addresses.data() + end);
    {
      // No collection may run meanwhile. First, VisitClasses would wait for it at the loaders' weak references, while
      // it holds a lock that a runnable thread may wait for, and the collection would wait for that thread. Second,
      // VisitClasses does not find a loader that the collection has found dead, and the loader's methods are named only
      // near the collection's end.
      gc::ScopedGCCriticalSection no_gc(self, gc::kGcCauseClassLinker, gc::kCollectorTypeClassLinker);
      Runtime::Current()->GetClassLinker()->VisitClasses(&finder);
    }
    // The methods stay alive as long as this thread is runnable.
    for (ArtMethod* method : finder.Found()) {
      AddSymbol(method, sink);
    }
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
      sink.add({reinterpret_cast<uintptr_t>(&method),
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

void Log(uint8_t severity, rust::Str message) {
  const std::string text(message.data(), message.size());
  switch (severity) {
    case 0u: LOG(DEBUG) << "hindsight: " << text; break;
    case 1u: LOG(INFO) << "hindsight: " << text; break;
    case 2u: LOG(WARNING) << "hindsight: " << text; break;
    default: LOG(ERROR) << "hindsight: " << text; break;
  }
}

rust::String ProcessName() {
  const std::string package = Runtime::Current()->GetProcessPackageName();
  if (!package.empty()) {
    return rust::String::lossy(package);
  }
  std::string name;
  if (!android::base::ReadFileToString("/proc/self/cmdline", &name)) {
    return "unknown";
  }
  name.resize(strlen(name.c_str()));
  return rust::String::lossy(name.substr(name.rfind('/') + 1));
}

rust::String ArtRelease() {
  return kArtRelease;
}

}  // namespace hindsight
}  // namespace art
