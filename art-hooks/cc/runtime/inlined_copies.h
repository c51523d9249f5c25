// SPDX-License-Identifier: Apache-2.0
//
// Which methods' compiled code may contain what rules name: a copy of an inlined method, or an access to a field.
//
// Compiled code does not say this itself: code of an inlined method without a call or a check leaves no trace in the stack
// maps. So this looks through the dex code that the compilers had. What it finds may be too much. It may be too little where a
// method's callers are in a dex file that was looked through before the method's own (docs/events.md, Rules).

#ifndef HINDSIGHT_ART_HOOKS_CC_RUNTIME_INLINED_COPIES_H_
#define HINDSIGHT_ART_HOOKS_CC_RUNTIME_INLINED_COPIES_H_

#include <stddef.h>
#include <stdint.h>

#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/macros.h"
#include "rule_resolver.h"

namespace art {

class DexFile;

namespace hindsight {

class InlinedCopies {
 public:
  // What a method's code contains.
  struct Contents {
    // An access to the rule's field: the method must not be compiled. Otherwise a call that may have been inlined: the
    // method must be compiled again.
    bool is_access;
    // Index of the rule.
    size_t rule;
  };

  explicit InlinedCopies(const std::vector<Rule>& rules);

  // Looks through a dex file. It stays mapped during the call.
  void Add(const DexFile& dex_file);

  // Whether the dex file was looked through.
  bool Knows(const DexFile& dex_file) const;

  // What the code of a method contains; null: nothing of interest.
  const Contents* Find(const DexFile& dex_file, uint32_t method_index) const;

 private:
  // Calls of these methods, or accesses to this field, are looked for.
  struct Sought {
    size_t rule;
    std::string klass;
    std::string name;
    // The beginning of the signature.
    std::string parameters;
    bool is_method;
    bool reads;
    bool writes;
  };

  // The methods with contents in a dex file.
  struct Looked {
    uint32_t checksum;
    std::unordered_map<uint32_t, Contents> methods;
  };

  // For each member that a dex file names, by its index: what it is sought as, or null.
  using Named = std::vector<const Sought*>;

  void AddHierarchy(const DexFile& dex_file);
  bool IsRelated(const std::string& a, const std::string& b) const;
  bool HasAncestor(const std::string& klass, const std::string& ancestor) const;
  // Whether the dex file has this method, and it is too large to be inlined.
  static bool IsNeverInlined(const Sought& method, const DexFile& dex_file);
  // The part of `sought` that the dex file names.
  Named NamedMethods(const std::vector<Sought>& sought, const DexFile& dex_file) const;
  Named NamedFields(const std::vector<Sought>& sought, const DexFile& dex_file) const;
  // Looks through all methods. Returns those found whose callers must be looked for, too.
  std::vector<Sought> Look(const std::vector<Sought>& sought, const DexFile& dex_file, Looked* looked) const;

  std::vector<Sought> sought_;
  // The direct supertypes of each class, by descriptors.
  std::unordered_map<std::string, std::vector<std::string>> supertypes_;
  std::unordered_map<const DexFile*, Looked> looked_;

  DISALLOW_COPY_AND_ASSIGN(InlinedCopies);
};

}  // namespace hindsight
}  // namespace art

#endif  // HINDSIGHT_ART_HOOKS_CC_RUNTIME_INLINED_COPIES_H_
