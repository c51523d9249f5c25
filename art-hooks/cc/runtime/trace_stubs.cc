// SPDX-License-Identifier: Apache-2.0

#include "hindsight/runtime/trace_stubs.h"

#include "base/macros.h"
#include "entrypoints/quick/quick_entrypoints.h"
#include "hindsight/compat.h"
#include "hindsight/runtime/event_numbers.h"
#include "hindsight/runtime/lab_build.h"
#include "hindsight/runtime/slot_words.h"
#include "hindsight/runtime/thread_words.h"

#if defined(__x86_64__) || defined(__aarch64__) || defined(__arm__)
#define HINDSIGHT_HAS_TRACE_STUBS

extern "C" void art_quick_trace_entry();
extern "C" void art_quick_trace_entry_leaf();
extern "C" void art_quick_trace_exit();
extern "C" void art_quick_trace_end();
#if defined(HINDSIGHT_LAB)
#define HINDSIGHT_HAS_SLOW_PATH_STUBS

extern "C" void art_quick_trace_entry_slow_path();
extern "C" void art_quick_trace_entry_leaf_slow_path();
extern "C" void art_quick_trace_exit_slow_path();
#endif
#endif

namespace art {
namespace hindsight {

static_assert(HINDSIGHT_FULL_TIME == kFullTime);
static_assert(HINDSIGHT_EPOCH == offsetof(ThreadWords, epoch));
static_assert(HINDSIGHT_REWIND_BELOW == offsetof(ThreadWords, rewind_below));
static_assert(HINDSIGHT_TAKEN_BACK_COUNT == offsetof(ThreadWords, taken_back));
static_assert(HINDSIGHT_REWIND_LOG == offsetof(ThreadWords, rewind_log));

void InitTraceEntryPoints(QuickEntryPoints* qpoints) {
#if defined(HINDSIGHT_HAS_TRACE_STUBS)
  HINDSIGHT_SET_ENTRYPOINT(qpoints, TraceEntry, art_quick_trace_entry);
#else
  HINDSIGHT_SET_ENTRYPOINT(qpoints, TraceEntry, nullptr);
#endif
}

TraceStubs RecordingStubs() {
#if defined(HINDSIGHT_HAS_TRACE_STUBS)
  return {reinterpret_cast<uintptr_t>(&art_quick_trace_exit),
          reinterpret_cast<uintptr_t>(&art_quick_trace_entry_leaf),
          reinterpret_cast<uintptr_t>(&art_quick_trace_entry)};
#else
  return {0u, 0u, 0u};
#endif
}

TraceStubs SlowPathStubs() {
#if defined(HINDSIGHT_HAS_SLOW_PATH_STUBS)
  return {reinterpret_cast<uintptr_t>(&art_quick_trace_exit_slow_path),
          reinterpret_cast<uintptr_t>(&art_quick_trace_entry_leaf_slow_path),
          reinterpret_cast<uintptr_t>(&art_quick_trace_entry_slow_path)};
#else
  return {0u, 0u, 0u};
#endif
}

bool IsTraceStub(uintptr_t pc) {
#if defined(HINDSIGHT_HAS_TRACE_STUBS)
  return pc >= reinterpret_cast<uintptr_t>(&art_quick_trace_entry) &&
         pc < reinterpret_cast<uintptr_t>(&art_quick_trace_end);
#else
  UNUSED(pc);
  return false;
#endif
}

}  // namespace hindsight
}  // namespace art
