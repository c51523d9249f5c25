// SPDX-License-Identifier: Apache-2.0

#ifndef HINDSIGHT_RUNTIME_RING_GUARD_H_
#define HINDSIGHT_RUNTIME_RING_GUARD_H_

#include <signal.h>

namespace art {
namespace hindsight {

// If this fault was a trace point's that stored to the guard page behind the calling thread's ring, lets it
// go on at the ring's start, and returns true.
//
// FaultManager calls it before it looks for the faulting method: a stub's frame is none that it could
// understand, and what is on top of the stack may look like a method to it and not be one.
bool HandleRingGuardFault(int sig, siginfo_t* info, void* context);

}  // namespace hindsight
}  // namespace art

#endif  // HINDSIGHT_RUNTIME_RING_GUARD_H_
