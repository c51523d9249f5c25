// SPDX-License-Identifier: Apache-2.0

#ifndef HINDSIGHT_RUNTIME_RING_GUARD_H_
#define HINDSIGHT_RUNTIME_RING_GUARD_H_

#include <signal.h>

namespace art {
namespace hindsight {

// If a trace point has run onto the guard page behind the calling thread's ring, moves its cursor register to the
// ring's start, so that the store runs again there, and returns true.
//
// FaultManager calls this before it looks for the faulting method. It cannot walk a stub's frame, and could take the
// word on top of the stack for a method.
bool HandleRingGuardFault(int sig, siginfo_t* info, void* context);

}  // namespace hindsight
}  // namespace art

#endif  // HINDSIGHT_RUNTIME_RING_GUARD_H_
