// SPDX-License-Identifier: Apache-2.0

#ifndef HINDSIGHT_RUNTIME_TRACE_STUBS_H_
#define HINDSIGHT_RUNTIME_TRACE_STUBS_H_

#include <stdint.h>

namespace art {

struct QuickEntryPoints;

namespace hindsight {

// Sets the entrypoint that suspend checks at the entry of methods call: art_quick_trace_entry.
void InitTraceEntryPoints(QuickEntryPoints* qpoints);

// What ThreadWords::exit_stub and leaf_stub hold while a thread is traced.
uintptr_t ExitStub();
uintptr_t LeafStub();

// Whether `pc` is in one of the three, in cc/runtime/arch/.
bool IsTraceStub(uintptr_t pc);

}  // namespace hindsight
}  // namespace art

#endif  // HINDSIGHT_RUNTIME_TRACE_STUBS_H_
