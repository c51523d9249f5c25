// SPDX-License-Identifier: Apache-2.0

#ifndef HINDSIGHT_RUNTIME_RING_GUARD_HANDLER_H_
#define HINDSIGHT_RUNTIME_RING_GUARD_HANDLER_H_

#include "fault_handler.h"

namespace art {
namespace hindsight {

// Wraps a ring buffer: a trace point that stores to the guard page after its ring faults, and goes on
// at the ring's start.
//
// Registered for faults anywhere, not only in generated code: at a method's entry the frame may still
// be the caller's, so that FaultManager cannot tell where it is.
class RingGuardHandler final : public FaultHandler {
 public:
  // `manager` owns the handler.
  explicit RingGuardHandler(FaultManager* manager);

  bool Action(int sig, siginfo_t* info, void* context) override;

 private:
  DISALLOW_COPY_AND_ASSIGN(RingGuardHandler);
};

}  // namespace hindsight
}  // namespace art

#endif  // HINDSIGHT_RUNTIME_RING_GUARD_HANDLER_H_
