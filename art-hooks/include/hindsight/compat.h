// SPDX-License-Identifier: Apache-2.0
//
// The differences between the releases of ART that Hindsight is compiled into. All other code is the same in each
// release; a file that only one release needs is empty in the others.

#ifndef HINDSIGHT_COMPAT_H_
#define HINDSIGHT_COMPAT_H_

#include <jni.h>

#include <type_traits>

#include "read_barrier_option.h"

// The release: 10, 11 or 14. Each is recognized by a header that the one before does not have.
#if __has_include("base/gc_visited_arena_pool.h")
#define HINDSIGHT_ART 14
#elif __has_include("nterp_helpers.h")
#define HINDSIGHT_ART 11
#else
#define HINDSIGHT_ART 10
#endif

#include "jni/jni_internal.h"

namespace art {
namespace hindsight {

// The release, as it is written into traces.
constexpr const char* kArtRelease = HINDSIGHT_ART >= 14 ? "14" : HINDSIGHT_ART >= 11 ? "11" : "10";

// Whether OSR code records the exit of the interpreter frame that it replaces. Nterp's frame is gone when OSR code
// takes over. In earlier releases the interpreter's frame stays, and OSR code has no trace points.
constexpr bool kOsrCodeRecordsExit = HINDSIGHT_ART >= 14;

// Whether the method that `codegen` compiles has a suspend check at its entry. Valid after the locations of its
// instructions are built.
template <typename CodeGenerator>
bool HasEntrySuspendCheck(const CodeGenerator* codegen) {
#if HINDSIGHT_ART >= 14
  // Methods that call on slow paths only have none.
  return codegen->NeedsSuspendCheckEntry();
#else
  return !codegen->IsLeafMethod();
#endif
}

// Whether frames of the code behind `header` record their entry and their exit (see kOsrCodeRecordsExit). Code
// without trace points does not run in a process that is traced: see TracingGate.
template <typename OatQuickMethodHeader>
bool HasTracedFrames(const OatQuickMethodHeader* header) {
#if HINDSIGHT_ART >= 14
  return header->IsOptimized() || header->IsNterpMethodHeader();
#else
  return header->IsOptimized();
#endif
}

// Calls `visit`, which returns whether to go on, with each class in `table`.
template <typename ClassTable, typename Visitor>
void VisitClassesWithoutReadBarrier(ClassTable* table, Visitor& visit) NO_THREAD_SAFETY_ANALYSIS {
#if HINDSIGHT_ART >= 14
  table->template Visit<kWithoutReadBarrier>(visit);
#else
  table->template Visit<Visitor, kWithoutReadBarrier>(visit);
#endif
}

// The method of one in WellKnownClasses.
template <typename ArtMethod, typename Method>
ArtMethod* MethodOf(Method method) {
#if HINDSIGHT_ART >= 14
  return method;
#else
  return jni::DecodeArtMethod(method);
#endif
}

// JNI's id of a field in WellKnownClasses.
template <typename Field>
jfieldID FieldId(Field field) {
#if HINDSIGHT_ART >= 14
  return jni::EncodeArtField(field);
#else
  return field;
#endif
}

// Sets an entrypoint's member of QuickEntryPoints.
#if HINDSIGHT_ART >= 14
#define HINDSIGHT_SET_ENTRYPOINT(entrypoints, name, value) (entrypoints)->Set##name(value)
#else
#define HINDSIGHT_SET_ENTRYPOINT(entrypoints, name, value) (entrypoints)->p##name = (value)
#endif

}  // namespace hindsight
}  // namespace art

#endif  // HINDSIGHT_COMPAT_H_
