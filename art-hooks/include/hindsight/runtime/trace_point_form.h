// SPDX-License-Identifier: Apache-2.0

#ifndef HINDSIGHT_RUNTIME_TRACE_POINT_FORM_H_
#define HINDSIGHT_RUNTIME_TRACE_POINT_FORM_H_

#include "arch/instruction_set.h"

namespace art {
namespace hindsight {

// How the compiler lays out trace points. A process runs code of both forms mixed; code without trace points
// excludes tracing (see TracingGate).
enum class TracePointForm {
  // The entry shares the method's suspend check, and exits return through a stub: the least code.
  kShared,
  // The method records in place: the fewest instructions while tracing is on.
  kInline,
  // No trace points.
  kNone,
};

// Whether the compiler can insert trace points for `isa`.
bool HasTracePoints(InstructionSet isa);

// The form that this process compiles for `isa`: kShared, or in the lab's build the value of the environment variable
// HINDSIGHT_TRACE_POINTS ("shared", "inline" or "none").
TracePointForm GetTracePointForm(InstructionSet isa);

// Whether trivial methods (trivial_methods.h) have no trace points in this process, neither in the code that it compiles
// nor in the interpreters: HINDSIGHT_LEAVES_OUT_TRIVIAL_METHODS (trivial_methods_default.h), or in the lab's build the value
// of the environment variable HINDSIGHT_TRIVIAL_METHODS ("traced" or "left-out"). A process refuses code that was compiled with the other value.
bool LeavesOutTrivialMethods();

}  // namespace hindsight
}  // namespace art

#endif  // HINDSIGHT_RUNTIME_TRACE_POINT_FORM_H_
