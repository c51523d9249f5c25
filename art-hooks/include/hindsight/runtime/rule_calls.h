// SPDX-License-Identifier: Apache-2.0
//
// Calls of the methods that rules name, as events. Such a method is executed by the interpreter while its rule is on
// (rules.h), so only the interpreter's frames look for it.

#ifndef HINDSIGHT_RUNTIME_RULE_CALLS_H_
#define HINDSIGHT_RUNTIME_RULE_CALLS_H_

#include <stdint.h>

#include "base/locks.h"
#include "base/macros.h"
#include "hindsight/runtime/events.h"
#include "thread.h"

namespace art {

class ArtMethod;

namespace hindsight {

// The events of a call, if a rule names its method. Each begin has an end, however the call ends, unless events were
// switched off in between.
class RuleCall {
 public:
  RuleCall() : began_(false), name_(0u), object_(0u) {}

  // `self`, the calling thread, enters `method`; its frame is the top shadow frame.
  ALWAYS_INLINE void Enter(Thread* self, ArtMethod* method) REQUIRES_SHARED(Locks::mutator_lock_) {
    if (Records(self, kCategoryRules)) {
      Begin(self, method);
    }
  }

  // It leaves the method.
  ALWAYS_INLINE void Leave(Thread* self) {
    if (UNLIKELY(began_)) {
      End(self);
    }
  }

 private:
  void Begin(Thread* self, ArtMethod* method) REQUIRES_SHARED(Locks::mutator_lock_);
  void End(Thread* self);

  bool began_;
  uint32_t name_;
  uint32_t object_;

  DISALLOW_COPY_AND_ASSIGN(RuleCall);
};

}  // namespace hindsight
}  // namespace art

#endif  // HINDSIGHT_RUNTIME_RULE_CALLS_H_
