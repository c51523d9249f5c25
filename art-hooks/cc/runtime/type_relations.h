// SPDX-License-Identifier: Apache-2.0
//
// Which classes and interfaces of dex files have a subtype in common.

#ifndef HINDSIGHT_ART_HOOKS_CC_RUNTIME_TYPE_RELATIONS_H_
#define HINDSIGHT_ART_HOOKS_CC_RUNTIME_TYPE_RELATIONS_H_

#include <stddef.h>

#include <string_view>
#include <unordered_set>
#include <vector>

#include "base/macros.h"

namespace art {

class DexFile;

namespace hindsight {

// Types are known by hashes of their descriptors, so that a dex file with 10,000 classes takes less than 1 MiB. Two types
// with the same hash have each other's relations, too.
class TypeRelations {
 public:
  using Types = std::unordered_set<size_t>;

  TypeRelations() {}

  static size_t Hash(std::string_view descriptor) { return std::hash<std::string_view>()(descriptor); }

  // Adds the classes of dex files, which all have the same class loader. `owner` stands for it.
  void Add(const void* owner, const std::vector<const DexFile*>& dex_files);

  // Forgets the dex files with this owner.
  void Forget(const void* owner);

  // The types that share a subtype with this one, or are one of its sub- or supertypes: a call of a method of one of
  // them may call a method of this one.
  Types RelatedTo(std::string_view descriptor) const;

 private:
  struct Pair {
    size_t from;
    size_t to;

    bool operator<(const Pair& other) const { return from < other.from; }
  };

  struct Group {
    const void* owner;
    // From each type to its direct supertypes, and back. Sorted.
    std::vector<Pair> up;
    std::vector<Pair> down;
  };

  // Adds all that can be reached from `types`.
  void Reach(std::vector<Pair> Group::*pairs, Types* types) const;

  std::vector<Group> groups_;

  DISALLOW_COPY_AND_ASSIGN(TypeRelations);
};

}  // namespace hindsight
}  // namespace art

#endif  // HINDSIGHT_ART_HOOKS_CC_RUNTIME_TYPE_RELATIONS_H_
