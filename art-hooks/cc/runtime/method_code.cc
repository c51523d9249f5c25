// SPDX-License-Identifier: Apache-2.0

#include "method_code.h"

#include "art_method-inl.h"
#include "class_linker-inl.h"
#include "entrypoints/runtime_asm_entrypoints.h"
#include "hindsight/compat.h"
#include "instrumentation.h"
#include "jit/jit.h"
#include "jit/jit_code_cache.h"
#include "jit/profiling_info.h"
#include "mirror/class-inl.h"
#include "oat_quick_method_header.h"
#include "runtime.h"

namespace art {
namespace hindsight {

namespace {

void DropJitCode(ArtMethod* method) REQUIRES(Locks::mutator_lock_) {
  jit::Jit* jit = Runtime::Current()->GetJit();
  if (jit == nullptr) {
    return;
  }
  jit::JitCodeCache* cache = jit->GetCodeCache();
  const void* entry_point = method->GetEntryPointFromQuickCompiledCode();
  if (cache->ContainsPc(entry_point)) {
    cache->InvalidateCompiledCodeFor(method, OatQuickMethodHeader::FromEntryPoint(entry_point));
  }
#if HINDSIGHT_ART < 14
  // The entry point that the method gets back when the interpreter executes it.
  ProfilingInfo* info = method->GetProfilingInfo(kRuntimePointerSize);
  if (info != nullptr && info->GetSavedEntryPoint() != nullptr) {
    const void* saved = info->GetSavedEntryPoint();
    cache->InvalidateCompiledCodeFor(method, OatQuickMethodHeader::FromEntryPoint(const_cast<void*>(saved)));
  }
#endif
  OatQuickMethodHeader* osr = cache->LookupOsrMethodHeader(method);
  if (osr != nullptr) {
    cache->InvalidateCompiledCodeFor(method, osr);
  }
}

}  // namespace

void UseInterpreter(ArtMethod* method) {
  DropJitCode(method);
  method->SetEntryPointFromQuickCompiledCode(GetQuickToInterpreterBridge());
}

void UseInterpreterAfterLinking(ArtMethod* method) {
  method->SetEntryPointFromQuickCompiledCode(GetQuickToInterpreterBridge());
}

void UseLinkedCode(ArtMethod* method) {
  DropJitCode(method);
#if HINDSIGHT_ART >= 14
  const void* compiled = method->GetOatMethodQuickCode(kRuntimePointerSize);
  Runtime::Current()->GetInstrumentation()->InitializeMethodsCode(method, compiled);
#else
  if (method->IsStatic() && !method->IsConstructor() && !method->GetDeclaringClass()->IsInitialized()) {
    method->SetEntryPointFromQuickCompiledCode(GetQuickResolutionStub());
    return;
  }
  const void* code = method->GetOatMethodQuickCode(kRuntimePointerSize);
  if (ClassLinker::ShouldUseInterpreterEntrypoint(method, code)) {
    code = GetQuickToInterpreterBridge();
  }
  Runtime::Current()->GetInstrumentation()->UpdateMethodsCode(method, code);
#endif
}

bool IsInterpreted(ArtMethod* method) {
  ClassLinker* linker = Runtime::Current()->GetClassLinker();
  const void* code = method->GetEntryPointFromQuickCompiledCode();
  return linker->IsQuickToInterpreterBridge(code) || linker->IsQuickResolutionStub(code);
}

bool ForbidCompilation(ArtMethod* method) {
  if (!method->IsCompilable()) {
    return false;
  }
  method->SetDontCompile();
  return true;
}

void AllowCompilation(ArtMethod* method, bool was_verified) {
  // If the class was verified meanwhile, the verifier may have found, too, that the method cannot be compiled, and the flag does
  // not tell. It has not if the method needs no access checks. Otherwise the method stays in the interpreter.
  if (was_verified || method->SkipAccessChecks()) {
    method->SetAccessFlags(method->GetAccessFlags() & ~kAccCompileDontBother);
  }
}

}  // namespace hindsight
}  // namespace art
