// SPDX-License-Identifier: Apache-2.0

#include "hindsight/runtime/trace_point_form.h"

#include <stdlib.h>
#include <string.h>

#include "android-base/logging.h"
#include "hindsight/runtime/lab_build.h"
#include "hindsight/runtime/trivial_methods_default.h"

namespace art {
namespace hindsight {

namespace {

// Only the lab compiles other forms. On a device, an app's environment does not choose the code of its process.
#if defined(HINDSIGHT_LAB)
TracePointForm RequestedForm() {
  const char* name = getenv("HINDSIGHT_TRACE_POINTS");
  if (name == nullptr || strcmp(name, "shared") == 0) {
    return TracePointForm::kShared;
  }
  if (strcmp(name, "inline") == 0) {
    return TracePointForm::kInline;
  }
  if (strcmp(name, "none") == 0) {
    return TracePointForm::kNone;
  }
  LOG(ERROR) << "HINDSIGHT_TRACE_POINTS is \"" << name
             << "\"; known values are shared, inline and none; using shared";
  return TracePointForm::kShared;
}

bool RequestedTrivialMethods() {
  const char* name = getenv("HINDSIGHT_TRIVIAL_METHODS");
  if (name == nullptr) {
    return HINDSIGHT_LEAVES_OUT_TRIVIAL_METHODS != 0;
  }
  if (strcmp(name, "left-out") == 0) {
    return true;
  }
  if (strcmp(name, "traced") != 0) {
    LOG(ERROR) << "HINDSIGHT_TRIVIAL_METHODS is \"" << name
               << "\"; known values are traced and left-out; using traced";
  }
  return false;
}
#else
TracePointForm RequestedForm() {
  return TracePointForm::kShared;
}

bool RequestedTrivialMethods() {
  return HINDSIGHT_LEAVES_OUT_TRIVIAL_METHODS != 0;
}
#endif

}  // namespace

bool HasTracePoints(InstructionSet isa) {
  return isa == InstructionSet::kX86_64 ||
         isa == InstructionSet::kArm64 ||
         isa == InstructionSet::kArm ||
         isa == InstructionSet::kThumb2;
}

TracePointForm GetTracePointForm(InstructionSet isa) {
  static const TracePointForm requested = RequestedForm();
  return HasTracePoints(isa) ? requested : TracePointForm::kNone;
}

bool LeavesOutTrivialMethods() {
  static const bool requested = RequestedTrivialMethods();
  return requested;
}

}  // namespace hindsight
}  // namespace art
