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

}  // namespace hindsight
}  // namespace art

#endif  // HINDSIGHT_RUNTIME_TRACE_POINT_FORM_H_
