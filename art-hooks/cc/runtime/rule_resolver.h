// SPDX-License-Identifier: Apache-2.0
//
// Finds the methods and fields that rules name.

#ifndef HINDSIGHT_ART_HOOKS_CC_RUNTIME_RULE_RESOLVER_H_
#define HINDSIGHT_ART_HOOKS_CC_RUNTIME_RULE_RESOLVER_H_

#include <stdint.h>

#include <string>
#include <vector>

#include "base/locks.h"
#include "obj_ptr.h"
#include "rule_table.h"

namespace art {

namespace mirror {
class Class;
}  // namespace mirror

namespace hindsight {

// A rule, as in runtime/src/rules/parse.rs.
struct Rule {
  static constexpr int32_t kResult = -2;

  bool is_method;
  // Descriptor of the class.
  std::string klass;
  // Name of the method or field.
  std::string member;
  // Descriptors of the parameters, "(I)"; empty: methods with any parameters.
  std::string parameters;
  // The argument whose identity the events have, from 1 on; 0: `this`; -1: none; kResult: what the method returns.
  int32_t argument;
  // The identity is made of the argument's and of `this`.
  bool with_this;
  bool reads;
  bool writes;
  // The events of the field have its value.
  bool value;
  // The branches of the method are events.
  bool branches;
  // The number of the rule's name.
  uint32_t name;
};

// What a rule names in one class.
struct Resolved {
  std::vector<RuleMethod> methods;
  std::vector<RuleField> fields;
  // Why the rule cannot be followed, or empty.
  std::string error;
};

// Resolves a rule in a class with the rule's descriptor, which is resolved.
Resolved Resolve(const Rule& rule, ObjPtr<mirror::Class> klass) REQUIRES_SHARED(Locks::mutator_lock_);

}  // namespace hindsight
}  // namespace art

#endif  // HINDSIGHT_ART_HOOKS_CC_RUNTIME_RULE_RESOLVER_H_
