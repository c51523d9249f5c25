// SPDX-License-Identifier: Apache-2.0

#ifndef HINDSIGHT_COMPILER_TRACE_POINT_INSERTION_H_
#define HINDSIGHT_COMPILER_TRACE_POINT_INSERTION_H_

#include "entrypoints/quick/quick_entrypoints_enum.h"
#include "optimizing/nodes.h"
#include "optimizing/optimization.h"

namespace art {
namespace hindsight {

// Inserts HTraceStart and HTraceEnd, also into the bodies of intrinsics. Runs once, after inlining and all other
// optimizations and before register allocation, so that inlined callees have no trace points, and nothing moves, merges
// or removes one.
//
// Methods that IsLeftOut() names get none. They have no loops, so there is no OSR code of them.
//
// OSR code gets no HTraceStart: the interpreter frame that it replaces has recorded the entry. Whether it gets
// HTraceEnd depends on the release, see kOsrCodeRecordsExit.
class TracePointInsertion final : public HOptimization {
 public:
  explicit TracePointInsertion(HGraph* graph) : HOptimization(graph, kPassName) {}

  bool Run() override;

  static constexpr const char* kPassName = "trace_point_insertion";

 private:
  DISALLOW_COPY_AND_ASSIGN(TracePointInsertion);
};

// The HTraceStart of `graph`, or null if it has none.
HTraceStart* FindTraceStart(const HGraph* graph);

// Whether `graph` is OSR code, which has no HTraceStart, with exits of the shared form.
bool IsOsrCodeWithSharedExit(const HGraph* graph);

// Whether the method's trace points, of which `exit` is one, have the shared form.
bool HasSharedForm(const HTraceEnd* exit);

// Whether `check` is also the trace point of the method's entry: it then tests the thread's poll word in place of its
// flags.
bool IsTraceEntry(const HSuspendCheck* check);

// The entrypoint that the slow path of `check`, a suspend check, calls.
QuickEntrypointEnum SuspendEntrypoint(const HInstruction* check);

// Whether `instruction` is the current method and only a trace point uses it. It then gets no stack slot, so that leaf
// methods stay frameless.
bool IsUsedByTracePointOnly(HInstruction* instruction);

}  // namespace hindsight
}  // namespace art

#endif  // HINDSIGHT_COMPILER_TRACE_POINT_INSERTION_H_
