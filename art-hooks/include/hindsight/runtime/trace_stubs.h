// SPDX-License-Identifier: Apache-2.0

#ifndef HINDSIGHT_RUNTIME_TRACE_STUBS_H_
#define HINDSIGHT_RUNTIME_TRACE_STUBS_H_

#include <stdint.h>

namespace art {

struct QuickEntryPoints;

namespace hindsight {

// Sets the entrypoint that suspend checks at method entries call: art_quick_trace_entry.
void InitTraceEntryPoints(QuickEntryPoints* qpoints);

// Addresses of the three stubs in cc/runtime/arch/: for method exits, for entries of methods without a suspend check,
// and for entries of methods with one. ThreadWords::exit_stub and leaf_stub hold the first two.
struct TraceStubs {
  uintptr_t exit;
  uintptr_t leaf_entry;
  uintptr_t entry;
};

// The stubs that record.
TraceStubs RecordingStubs();

// The slow-path stubs, which call hindsight_trace_point. Only protocol=lock-free uses them, in the lab's build; in
// other builds their addresses are 0.
TraceStubs SlowPathStubs();

// Whether `pc` is in a stub that records.
bool IsTraceStub(uintptr_t pc);

}  // namespace hindsight
}  // namespace art

#endif  // HINDSIGHT_RUNTIME_TRACE_STUBS_H_
