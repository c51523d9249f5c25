// SPDX-License-Identifier: Apache-2.0

#ifndef HINDSIGHT_COMPILER_INSERT_TRACE_POINTS_H_
#define HINDSIGHT_COMPILER_INSERT_TRACE_POINTS_H_

#include "hindsight/compiler/trace_point_insertion.h"

namespace art {
namespace hindsight {

// Runs TracePointInsertion as a pass of the compiler. A template, because PassScope and PassObserver are local to
// optimizing_compiler.cc.
template <typename PassScope, typename PassObserver>
void InsertTracePoints(HGraph* graph, PassObserver* pass_observer) {
  PassScope scope(TracePointInsertion::kPassName, pass_observer);
  TracePointInsertion(graph).Run();
}

}  // namespace hindsight
}  // namespace art

#endif  // HINDSIGHT_COMPILER_INSERT_TRACE_POINTS_H_
