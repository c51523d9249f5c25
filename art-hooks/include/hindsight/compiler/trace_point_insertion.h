// SPDX-License-Identifier: Apache-2.0

#ifndef HINDSIGHT_COMPILER_TRACE_POINT_INSERTION_H_
#define HINDSIGHT_COMPILER_TRACE_POINT_INSERTION_H_

#include "optimizing/nodes.h"
#include "optimizing/optimization.h"

namespace art {
namespace hindsight {

// Whether methods compiled for `isa` get trace points.
bool HasTracePoints(InstructionSet isa);

// Inserts HTraceStart and HTraceEnd. Runs once, after inlining and every optimization and before
// register allocation, so that inlined callees have no trace points and nothing can move, merge or
// remove one.
//
// On-stack-replacement code gets none: the interpreter frame it replaces has recorded the entry and
// will record the exit.
class TracePointInsertion final : public HOptimization {
 public:
  explicit TracePointInsertion(HGraph* graph) : HOptimization(graph, kPassName) {}

  bool Run() override;

  static constexpr const char* kPassName = "trace_point_insertion";

 private:
  DISALLOW_COPY_AND_ASSIGN(TracePointInsertion);
};

// Whether `instruction` is the current method and only a trace point uses it. Such a method keeps
// needing no stack slot for it, so that leaf methods stay frameless.
bool IsUsedByTracePointOnly(HInstruction* instruction);

}  // namespace hindsight
}  // namespace art

#endif  // HINDSIGHT_COMPILER_TRACE_POINT_INSERTION_H_
