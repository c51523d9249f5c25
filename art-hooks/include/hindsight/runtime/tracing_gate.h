// SPDX-License-Identifier: Apache-2.0

#ifndef HINDSIGHT_RUNTIME_TRACING_GATE_H_
#define HINDSIGHT_RUNTIME_TRACING_GATE_H_

#include <stdint.h>

#include <atomic>
#include <string>

#include "arch/instruction_set.h"
#include "base/macros.h"
#include "hindsight/runtime/trace_point_form.h"

namespace art {
namespace hindsight {

// Keeps tracing and code without trace points apart: a process has one or the other, whichever comes first.
//
// FramesUnwound and DeoptimizedFrame take every frame of optimized code for one that has recorded its entry. A
// frame of code without trace points has not, so an exception that leaves it would close its caller's call.
class TracingGate {
 public:
  TracingGate() : state_(State::kOpen) {}

  // Code without trace points is about to be loaded. Returns false, and the code must not run, if the process is
  // traced.
  bool AdmitUntracedCode();

  // The process is about to be traced. Returns false if it may have code without trace points.
  bool AdmitTracing();

  // Undoes AdmitTracing: the recorder has not started.
  void WithdrawTracing();

 private:
  enum class State : uint8_t { kOpen, kHasUntracedCode, kTraced };

  std::atomic<State> state_;

  DISALLOW_COPY_AND_ASSIGN(TracingGate);
};

// The process's gate.
TracingGate* GetTracingGate();

// Why a process of `isa`, whose own compiler inserts trace points of `form`, cannot be traced; empty if it can:
// then `gate` admits no code without trace points any more.
std::string ObstacleToTracing(InstructionSet isa, TracePointForm form, TracingGate* gate);

}  // namespace hindsight
}  // namespace art

#endif  // HINDSIGHT_RUNTIME_TRACING_GATE_H_
