// SPDX-License-Identifier: Apache-2.0
//
// The entry of an OAT file's header that identifies its trace points.

#ifndef HINDSIGHT_RUNTIME_OAT_KEY_H_
#define HINDSIGHT_RUNTIME_OAT_KEY_H_

#include <string>

#include "arch/instruction_set.h"

namespace art {

class OatHeader;

namespace hindsight {

// Key in the OAT header's key-value store.
static constexpr const char* kOatHeaderKey = "hindsight-trace-points";

// The value of that key for code that this process compiles for `isa`: all that code and runtime must agree on, which
// is the form of the trace points, the offsets in Thread that they use, and whether trivial methods have none. "none" if no
// method gets trace points.
std::string TracePointsId(InstructionSet isa);

// Whether the code described by `header` may run in this process: its trace points are those that this runtime
// expects, or it has none and the process is not traced (see TracingGate). Otherwise false, and `*error_msg` says
// what differs and what to do.
bool HasMatchingTracePoints(const OatHeader& header,
                            const std::string& location,
                            std::string* error_msg);

// Whether this process compiles code with trace points of the inline form, or has opened an OAT file with such code.
bool HasInlineTracePoints();

}  // namespace hindsight
}  // namespace art

#endif  // HINDSIGHT_RUNTIME_OAT_KEY_H_
