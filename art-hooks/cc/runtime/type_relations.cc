// SPDX-License-Identifier: Apache-2.0

#include "type_relations.h"

#include <algorithm>

#include "dex/class_accessor-inl.h"
#include "dex/dex_file-inl.h"

namespace art {
namespace hindsight {

void TypeRelations::Add(const void* owner, const std::vector<const DexFile*>& dex_files) {
  Group group{owner, {}, {}};
  for (const DexFile* dex_file : dex_files) {
    for (ClassAccessor accessor : dex_file->GetClasses()) {
      const dex::ClassDef& definition = accessor.GetClassDef();
      const size_t type = Hash(accessor.GetDescriptor());
      auto add = [&](dex::TypeIndex supertype) {
        const size_t above = Hash(dex_file->StringByTypeIdx(supertype));
        group.up.push_back({type, above});
        group.down.push_back({above, type});
      };
      if (definition.superclass_idx_.IsValid()) {
        add(definition.superclass_idx_);
      }
      const dex::TypeList* interfaces = dex_file->GetInterfacesList(definition);
      for (size_t i = 0u; interfaces != nullptr && i != interfaces->Size(); ++i) {
        add(interfaces->GetTypeItem(i).type_idx_);
      }
    }
  }
  std::sort(group.up.begin(), group.up.end());
  std::sort(group.down.begin(), group.down.end());
  group.up.shrink_to_fit();
  group.down.shrink_to_fit();
  groups_.push_back(std::move(group));
}

void TypeRelations::Forget(const void* owner) {
  auto is_owned = [&](const Group& group) { return group.owner == owner; };
  groups_.erase(std::remove_if(groups_.begin(), groups_.end(), is_owned), groups_.end());
}

void TypeRelations::Reach(std::vector<Pair> Group::*pairs, Types* types) const {
  // A damaged dex file may have a class that is its own ancestor.
  std::vector<size_t> open(types->begin(), types->end());
  while (!open.empty()) {
    const size_t type = open.back();
    open.pop_back();
    for (const Group& group : groups_) {
      auto [begin, end] =
          std::equal_range((group.*pairs).begin(), (group.*pairs).end(), Pair{type, 0u});
      for (auto it = begin; it != end; ++it) {
        if (types->insert(it->to).second) {
          open.push_back(it->to);
        }
      }
    }
  }
}

TypeRelations::Types TypeRelations::RelatedTo(std::string_view descriptor) const {
  Types types = {Hash(descriptor)};
  Reach(&Group::down, &types);
  Reach(&Group::up, &types);
  return types;
}

}  // namespace hindsight
}  // namespace art
