// SPDX-License-Identifier: Apache-2.0
//
// Requests to threads to take their stacks. Rust calls them through the bridge in art-hooks/src/bridge.rs, on the control
// thread only.

#ifndef HINDSIGHT_RUNTIME_STACK_REQUESTS_H_
#define HINDSIGHT_RUNTIME_STACK_REQUESTS_H_

#include <stdint.h>

#include "rust/cxx.h"

namespace art {
namespace hindsight {

// Asks each thread with one of these kernel ids, which are sorted, to take its stack at its next safepoint, if it runs
// managed code now. Sets the elements of `are_running` that belong to such threads to 1. Waits for none of them.
void RequestStacks(rust::Slice<const uint32_t> tids, rust::Slice<uint8_t> are_running);

}  // namespace hindsight
}  // namespace art

#endif  // HINDSIGHT_RUNTIME_STACK_REQUESTS_H_
