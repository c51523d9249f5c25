// SPDX-License-Identifier: Apache-2.0
//
// The methods and fields that rules name, for the threads that record their events.

#ifndef HINDSIGHT_ART_HOOKS_CC_RUNTIME_RULE_TABLE_H_
#define HINDSIGHT_ART_HOOKS_CC_RUNTIME_RULE_TABLE_H_

#include <stddef.h>
#include <stdint.h>

#include <vector>

#include "base/macros.h"

namespace art {

class ArtField;
class ArtMethod;

namespace hindsight {

// A method that a rule names.
struct RuleMethod {
  ArtMethod* method;
  // The rule's name, as a number.
  uint32_t name;
  // The register of the object whose identity the events have, when the method is entered: its distance from the end of
  // the frame, where the arguments are. So it stays true if the class is redefined. 0: none.
  uint32_t object_from_end;
  // The same for `this`, if the identity is of both. 0: it is not.
  uint32_t this_from_end;
  // The object is what the method returns.
  bool result;
  // Its branches are events.
  bool branches;
};

// A field that a rule names.
struct RuleField {
  ArtField* field;
  uint32_t name;
  bool reads;
  bool writes;
  // The events have the field's value.
  bool value;
};

// An unchangeable table. Runnable threads read the one that is published.
class RuleTable {
 public:
  RuleTable(std::vector<RuleMethod> methods, std::vector<RuleField> fields);

  // The rule's method at this address, or null.
  const RuleMethod* Find(const ArtMethod* method) const {
    size_t i = Hash(method) & mask_;
    while (slots_[i].method != nullptr && slots_[i].method != method) {
      i = (i + 1u) & mask_;
    }
    return slots_[i].method != nullptr ? &slots_[i] : nullptr;
  }

  const RuleField* Find(const ArtField* field) const;

 private:
  static size_t Hash(const ArtMethod* method) {
    const size_t address = reinterpret_cast<uintptr_t>(method);
    return (address >> 3) ^ (address >> 11);
  }

  // Open addressing: at most half of the slots are used.
  std::vector<RuleMethod> slots_;
  size_t mask_;
  std::vector<RuleField> fields_;

  DISALLOW_COPY_AND_ASSIGN(RuleTable);
};

// The table that threads look into; null: no rule is on. It stays valid for a thread until that thread is suspended.
const RuleTable* PublishedRules();

// Publishes another table. The caller frees the one before, once every thread has been suspended.
void PublishRules(const RuleTable* table);

}  // namespace hindsight
}  // namespace art

#endif  // HINDSIGHT_ART_HOOKS_CC_RUNTIME_RULE_TABLE_H_
