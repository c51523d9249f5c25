// SPDX-License-Identifier: Apache-2.0

#include "hindsight/runtime/tracing_gate.h"

#include "android-base/stringprintf.h"

namespace art {
namespace hindsight {

bool TracingGate::AdmitUntracedCode() {
  State expected = State::kOpen;
  return state_.compare_exchange_strong(expected, State::kHasUntracedCode) ||
         expected == State::kHasUntracedCode;
}

bool TracingGate::AdmitTracing() {
  State expected = State::kOpen;
  return state_.compare_exchange_strong(expected, State::kTraced);
}

void TracingGate::WithdrawTracing() {
  State expected = State::kTraced;
  state_.compare_exchange_strong(expected, State::kOpen);
}

TracingGate* GetTracingGate() {
  static TracingGate gate;
  return &gate;
}

std::string ObstacleToTracing(InstructionSet isa, TracePointForm form, TracingGate* gate) {
  if (!HasTracePoints(isa)) {
    return android::base::StringPrintf("compiled code for %s has no trace points",
                                       GetInstructionSetString(isa));
  }
  if (form == TracePointForm::kNone) {
    return "HINDSIGHT_TRACE_POINTS=none makes this process compile code without trace points";
  }
  if (!gate->AdmitTracing()) {
    return "an OAT file without trace points is loaded; compile it again, with HINDSIGHT_TRACE_POINTS unset";
  }
  return "";
}

}  // namespace hindsight
}  // namespace art
