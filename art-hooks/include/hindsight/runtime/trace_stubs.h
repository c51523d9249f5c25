// SPDX-License-Identifier: Apache-2.0

#ifndef HINDSIGHT_RUNTIME_TRACE_STUBS_H_
#define HINDSIGHT_RUNTIME_TRACE_STUBS_H_

#include <stdint.h>

namespace art {

struct QuickEntryPoints;

namespace hindsight {

// Sets the entrypoint that suspend checks at the entry of methods call: art_quick_trace_entry.
void InitTraceEntryPoints(QuickEntryPoints* qpoints);

// Addresses of the three stubs in cc/runtime/arch/, for exits, entries of methods without suspend check and
// those of methods with one. The first two are what ThreadWords::exit_stub and leaf_stub hold.
struct TraceStubs {
  uintptr_t exit;
  uintptr_t leaf_entry;
  uintptr_t entry;
};

// Those that record, and those that ask what to do (hindsight_trace_point).
TraceStubs RecordingStubs();
TraceStubs AskingStubs();

// Whether `pc` is in one that records.
bool IsTraceStub(uintptr_t pc);

}  // namespace hindsight
}  // namespace art

#endif  // HINDSIGHT_RUNTIME_TRACE_STUBS_H_
