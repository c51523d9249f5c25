// SPDX-License-Identifier: Apache-2.0

#ifndef HINDSIGHT_RUNTIME_TRACE_POINT_FORM_H_
#define HINDSIGHT_RUNTIME_TRACE_POINT_FORM_H_

#include "arch/instruction_set.h"

namespace art {
namespace hindsight {

// How the compiler lays out trace points. A process runs code of both forms mixed; code without trace points
// excludes tracing (see TracingGate).
enum class TracePointForm {
  // The entry shares the method's suspend check, and exits leave through a stub: the least code.
  kShared,
  // All of it in the method: the fewest instructions while tracing is on.
  kInline,
  // No trace points.
  kNone,
};

// Whether methods compiled for `isa` can have trace points.
bool HasTracePoints(InstructionSet isa);

// The form for `isa`: what the environment variable HINDSIGHT_TRACE_POINTS ("shared", "inline" or
// "none") of the compiling process says, or kShared.
TracePointForm GetTracePointForm(InstructionSet isa);

}  // namespace hindsight
}  // namespace art

#endif  // HINDSIGHT_RUNTIME_TRACE_POINT_FORM_H_
