// SPDX-License-Identifier: Apache-2.0

#ifndef HINDSIGHT_COMPILER_INSERT_TRACE_POINTS_H_
#define HINDSIGHT_COMPILER_INSERT_TRACE_POINTS_H_

#include "hindsight/compiler/trace_point_insertion.h"

namespace art {
namespace hindsight {

// Runs TracePointInsertion as one of the compiler's passes: PassScope and PassObserver are classes of
// optimizing_compiler.cc only.
template <typename PassScope, typename PassObserver>
void InsertTracePoints(HGraph* graph, PassObserver* pass_observer) {
  PassScope scope(TracePointInsertion::kPassName, pass_observer);
  TracePointInsertion(graph).Run();
}

}  // namespace hindsight
}  // namespace art

#endif  // HINDSIGHT_COMPILER_INSERT_TRACE_POINTS_H_
