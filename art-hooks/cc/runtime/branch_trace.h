// SPDX-License-Identifier: Apache-2.0
//
// The branches that methods of rules take, as events (BranchTaken). Such a method is executed by the interpreter while its
// rule is on; ART's switch interpreter calls a listener at each branch.

#ifndef HINDSIGHT_ART_HOOKS_CC_RUNTIME_BRANCH_TRACE_H_
#define HINDSIGHT_ART_HOOKS_CC_RUNTIME_BRANCH_TRACE_H_

#include "base/locks.h"

namespace art {

class Thread;

namespace hindsight {

// From now on, branches of the methods in the published table that ask for it are recorded. All interpreted code is slower
// meanwhile. All threads are suspended.
void StartBranchTrace() REQUIRES(Locks::mutator_lock_, !Locks::thread_list_lock_, !Locks::classlinker_classes_lock_);
void StopBranchTrace() REQUIRES(Locks::mutator_lock_, !Locks::thread_list_lock_, !Locks::classlinker_classes_lock_);

// Methods are about to be freed: threads forget the branches that they have not recorded yet.
void ForgetBranches();

// `self`, the calling thread, leaves a method of a rule, and records events of rules: it records the branches that it has
// counted since the last time, so that the counts of a call are exact.
void RecordBranches(Thread* self);

}  // namespace hindsight
}  // namespace art

#endif  // HINDSIGHT_ART_HOOKS_CC_RUNTIME_BRANCH_TRACE_H_
