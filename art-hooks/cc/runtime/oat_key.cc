// SPDX-License-Identifier: Apache-2.0

#include "hindsight/runtime/oat_key.h"

#include <atomic>

#include "android-base/stringprintf.h"
#include "entrypoints/quick/quick_entrypoints_enum.h"
#include "hindsight/runtime/recorder_abi.h"
#include "hindsight/runtime/thread_offsets.h"
#include "hindsight/runtime/trace_point_form.h"
#include "hindsight/runtime/tracing_gate.h"
#include "hindsight/runtime/trivial_methods.h"
#include "oat.h"

namespace art {
namespace hindsight {

using android::base::StringPrintf;

namespace {

std::atomic<bool> inline_form_seen(false);

// The rest of the value, behind the form: the offsets in Thread that compiled code contains, and, if trivial methods have no
// trace points, the rule by which a method is one.
template <PointerSize pointer_size>
std::string Layout() {
  std::string trivial;
  if (LeavesOutTrivialMethods()) {
    trivial = StringPrintf(",trivial-left-out@%d", kTrivialRuleVersion);
  }
  return StringPrintf("cursor@%d,poll@%d,exit@%d,leaf@%d,entry@%d",
                      CursorOffset<pointer_size>().Int32Value(),
                      PollOffset<pointer_size>().Int32Value(),
                      ExitStubOffset<pointer_size>().Int32Value(),
                      LeafStubOffset<pointer_size>().Int32Value(),
                      GetThreadOffset<pointer_size>(kQuickTraceEntry).Int32Value()) +
         trivial;
}

std::string Layout(InstructionSet isa) {
  return Is64BitInstructionSet(isa) ? Layout<PointerSize::k64>() : Layout<PointerSize::k32>();
}

}  // namespace

std::string TracePointsId(InstructionSet isa) {
  switch (GetTracePointForm(isa)) {
    case TracePointForm::kShared:
      return "shared-1/" + Layout(isa);
    case TracePointForm::kInline:
      return "inline-1/" + Layout(isa);
    case TracePointForm::kNone:
      return "none";
  }
}

bool HasMatchingTracePoints(const OatHeader& header,
                            const std::string& location,
                            std::string* error_msg) {
  if (header.GetKeyValueStoreSize() == 0u) {
    // Only the first file of a boot image in several files has keys, and it is checked.
    return true;
  }
  // Either form of trace point will do, but the code must look for its thread's words where this runtime has them, and both
  // must agree on the methods that have trace points: FramesUnwound counts frames.
  const std::string layout = Layout(header.GetInstructionSet());
  const char* found = header.GetStoreValueByKey(kOatHeaderKey);
  if (found != nullptr && "inline-1/" + layout == found) {
    inline_form_seen.store(true, std::memory_order_relaxed);
    hindsight_has_unmarked_code();
    return true;
  }
  if (found != nullptr && "shared-1/" + layout == found) {
    return true;
  }
  if (found != nullptr && strcmp(found, "none") == 0) {
    // Processes of an instruction set without trace points are never traced.
    if (!HasTracePoints(header.GetInstructionSet()) || GetTracingGate()->AdmitUntracedCode()) {
      return true;
    }
    *error_msg = StringPrintf("Oat file '%s' has no trace points, and this process is traced. Compile it again "
                                  "with HINDSIGHT_TRACE_POINTS unset.",
                              location.c_str());
    return false;
  }
  *error_msg = StringPrintf("Oat file '%s' has other trace points than this runtime: '%s' instead of "
                                "'shared-1/%s'. Compile it again with this build's dex2oat.",
                            location.c_str(),
                            found != nullptr ? found : "(not compiled by Hindsight)",
                            layout.c_str());
  return false;
}

bool HasInlineTracePoints() {
  return inline_form_seen.load(std::memory_order_relaxed) ||
         GetTracePointForm(kRuntimeISA) == TracePointForm::kInline;
}

}  // namespace hindsight
}  // namespace art
