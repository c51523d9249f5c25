// SPDX-License-Identifier: Apache-2.0
//
// The rules that are in force, and what they have changed.

#ifndef HINDSIGHT_ART_HOOKS_CC_RUNTIME_RULES_IN_FORCE_H_
#define HINDSIGHT_ART_HOOKS_CC_RUNTIME_RULES_IN_FORCE_H_

#include <stddef.h>
#include <stdint.h>

#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/locks.h"
#include "inlined_copies.h"
#include "obj_ptr.h"
#include "rule_resolver.h"
#include "rule_table.h"

namespace art {

class LinearAlloc;

namespace hindsight {

// Why the code of a method was changed.
struct Change {
  // Index of a rule.
  size_t rule;
  // The method must not be compiled, because a rule names it or a field that it accesses. Otherwise its compiled code may
  // contain an inlined method of a rule; it may be compiled again.
  bool is_interpreted;
  // Its compilation was forbidden for the rule.
  bool forbidden;
  // Its class was verified before.
  bool was_verified;
};

// A method whose code must be changed.
struct Changed {
  ArtMethod* method;
  size_t rule;
  bool is_interpreted;
};

// How a rule is followed.
struct Outcome {
  // The methods and fields of classes that are not unloaded; the rule is on if there are any. Nothing is read there.
  std::vector<void*> members;
  std::string error;
  // Frames that execute compiled code in which the rule's method may have been inlined, and the method of one of them.
  size_t running = 0u;
  std::string example;
  // How often ART had given a method other code, so that calls may have had no events.
  size_t replaced = 0u;
};

// `rules`, `by_class` and `copies` do not change while it is published; the rest is protected by `mutex`. A thread that holds
// the mutex passes no safepoint, so that a thread may take it while all others are suspended.
struct InForce {
  explicit InForce(std::vector<Rule> rules);

  // Adds what a rule names in a class. Returns the methods that are new.
  std::vector<ArtMethod*> Add(size_t rule, Resolved resolved);

  // Has the threads look into a table of `methods` and `fields`.
  void Publish();

  // All threads are suspended: none looks into an earlier table.
  void FreeOldTables() REQUIRES(Locks::mutator_lock_);

  // The methods in `freed`, and fields, are about to be freed.
  void Forget(LinearAlloc* freed);

  // The rules that name this class, or null.
  const std::vector<size_t>* Naming(ObjPtr<mirror::Class> klass) const REQUIRES_SHARED(Locks::mutator_lock_);

  // Adds the methods of a class whose code contains what rules name.
  void FindCopies(ObjPtr<mirror::Class> klass, std::vector<Changed>* found) const
      REQUIRES_SHARED(Locks::mutator_lock_);

  // Notes that the code of a method is changed, and forbids to compile it if it must be interpreted. Returns whether the
  // method must get the interpreter's code now.
  bool Note(const Changed& changed) REQUIRES_SHARED(Locks::mutator_lock_);

  bool HasFields() const;

  bool HasBranches() const;

  bool HasResults() const;

  const std::vector<Rule> rules;
  // The rules of a class, by its descriptor.
  std::unordered_map<std::string, std::vector<size_t>> by_class;
  // A thread that looks through dex files keeps it, because rules may end meanwhile.
  const std::shared_ptr<InlinedCopies> copies;

  std::mutex mutex;
  std::vector<Outcome> outcomes;
  std::vector<RuleMethod> methods;
  std::vector<RuleField> fields;
  // The methods with other code than before the rules.
  std::unordered_map<ArtMethod*, Change> changes;
  // What the loaded classes have, until all threads are suspended.
  std::vector<std::pair<size_t, Resolved>> found;
  std::vector<Changed> found_copies;

 private:
  struct Table {
    std::unique_ptr<const RuleTable> table;
    // The number of collections that had run when another one took its place.
    uint64_t collections;
  };

  // The published table, and earlier ones that a thread may still look into.
  std::vector<Table> tables_;

  DISALLOW_COPY_AND_ASSIGN(InForce);
};

}  // namespace hindsight
}  // namespace art

#endif  // HINDSIGHT_ART_HOOKS_CC_RUNTIME_RULES_IN_FORCE_H_
