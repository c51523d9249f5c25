// SPDX-License-Identifier: Apache-2.0

#ifndef HINDSIGHT_COMPILER_TRACE_POINT_INSERTION_H_
#define HINDSIGHT_COMPILER_TRACE_POINT_INSERTION_H_

#include "entrypoints/quick/quick_entrypoints_enum.h"
#include "optimizing/nodes.h"
#include "optimizing/optimization.h"

namespace art {
namespace hindsight {

// Inserts HTraceStart and HTraceEnd, in the bodies of intrinsics, too. Runs once, after inlining and every optimization and before
// register allocation, so that inlined callees have no trace points and nothing can move, merge or
// remove one.
//
// On-stack-replacement code gets no HTraceStart: the interpreter frame it replaces has recorded the entry.
// Who records the exit depends on the release, see kOsrCodeRecordsExit.
class TracePointInsertion final : public HOptimization {
 public:
  explicit TracePointInsertion(HGraph* graph) : HOptimization(graph, kPassName) {}

  bool Run() override;

  static constexpr const char* kPassName = "trace_point_insertion";

 private:
  DISALLOW_COPY_AND_ASSIGN(TracePointInsertion);
};

// The entry's trace point of `graph`, or null if it has none.
HTraceStart* FindTraceStart(const HGraph* graph);

// Whether `graph` is of OSR code (which has no entry) whose exit has the shared form.
bool IsOsrCodeWithSharedExit(const HGraph* graph);

// Whether the method's trace points, of which `exit` is one, have the shared form.
bool HasSharedForm(const HTraceEnd* exit);

// Whether `check`, a suspend check, is also the trace point of the method's entry: tests the thread's
// poll word instead of its flags, and calls SuspendEntrypoint() on its slow path.
bool IsTraceEntry(const HSuspendCheck* check);
QuickEntrypointEnum SuspendEntrypoint(const HInstruction* check);

// Whether `instruction` is the current method and only a trace point uses it. Such a method keeps
// needing no stack slot for it, so that leaf methods stay frameless.
bool IsUsedByTracePointOnly(HInstruction* instruction);

}  // namespace hindsight
}  // namespace art

#endif  // HINDSIGHT_COMPILER_TRACE_POINT_INSERTION_H_
