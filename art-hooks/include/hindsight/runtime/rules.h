// SPDX-License-Identifier: Apache-2.0
//
// Rules: methods whose calls, and fields whose accesses, are events (runtime/src/rules in Rust).
//
// A method of a rule is executed by the interpreter while the rule is on, and is not inlined; callers whose compiled code
// may contain it get new code. When the rules end, all of them are as before.

#ifndef HINDSIGHT_RUNTIME_RULES_H_
#define HINDSIGHT_RUNTIME_RULES_H_

#include "rust/cxx.h"

namespace art {

class LinearAlloc;

namespace hindsight {

namespace bridge {
struct RuleReport;
struct RuleSpec;
}  // namespace bridge

// Ends the rules before, and follows these. Called on the control thread.
void SetRules(rust::Slice<const bridge::RuleSpec> rules);

// How each rule is followed now, in their order. Called on the control thread.
rust::Vec<bridge::RuleReport> RuleReports();

// The methods in `methods` are about to be freed. Called while a collection runs.
void ForgetMethodsOf(LinearAlloc* methods);

}  // namespace hindsight
}  // namespace art

#endif  // HINDSIGHT_RUNTIME_RULES_H_
