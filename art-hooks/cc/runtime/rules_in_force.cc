// SPDX-License-Identifier: Apache-2.0

#include "rules_in_force.h"

#include <algorithm>
#include <iterator>

#include "art_method-inl.h"
#include "gc/heap.h"
#include "linear_alloc.h"
#include "method_code.h"
#include "mirror/class-inl.h"
#include "runtime.h"

namespace art {
namespace hindsight {

InForce::InForce(std::vector<Rule> all)
    : rules(std::move(all)), copies(std::make_shared<InlinedCopies>(rules)), outcomes(rules.size()) {
  for (size_t i = 0u; i != rules.size(); ++i) {
    by_class[rules[i].klass].push_back(i);
  }
}

std::vector<ArtMethod*> InForce::Add(size_t rule, Resolved resolved) {
  Outcome& outcome = outcomes[rule];
  if (!resolved.error.empty()) {
    outcome.error = std::move(resolved.error);
    return {};
  }
  auto note = [&](void* member) {
    if (std::find(outcome.members.begin(), outcome.members.end(), member) == outcome.members.end()) {
      outcome.members.push_back(member);
    }
  };
  std::vector<ArtMethod*> added;
  for (const RuleMethod& method : resolved.methods) {
    note(method.method);
    auto is_same = [&](const RuleMethod& other) { return other.method == method.method; };
    if (std::none_of(methods.begin(), methods.end(), is_same)) {
      methods.push_back(method);
      added.push_back(method.method);
    }
  }
  for (const RuleField& field : resolved.fields) {
    note(field.field);
    auto is_same = [&](const RuleField& other) { return other.field == field.field; };
    if (std::none_of(fields.begin(), fields.end(), is_same)) {
      fields.push_back(field);
    }
  }
  return added;
}

void InForce::Publish() {
  const uint64_t collections = Runtime::Current()->GetHeap()->GetGcCount();
  if (!tables_.empty()) {
    tables_.back().collections = collections;
  }
  // One collection, at least, began and ended after the table had been replaced: it suspended all threads.
  auto is_unused = [&](const Table& table) { return table.collections + 2u <= collections; };
  tables_.erase(std::remove_if(tables_.begin(), tables_.end(), is_unused), tables_.end());
  tables_.push_back({std::make_unique<RuleTable>(methods, fields), collections});
  PublishRules(tables_.back().table.get());
}

void InForce::FreeOldTables() {
  if (tables_.size() > 1u) {
    tables_.erase(tables_.begin(), tables_.end() - 1);
  }
}

void InForce::Forget(LinearAlloc* freed) {
  copies->Forget(freed);
  auto forget = [&](auto* of, auto member) {
    auto is_freed = [&](const auto& entry) { return freed->Contains(entry.*member); };
    of->erase(std::remove_if(of->begin(), of->end(), is_freed), of->end());
  };
  std::lock_guard<std::mutex> lock(mutex);
  for (auto it = changes.begin(); it != changes.end();) {
    it = freed->Contains(it->first) ? changes.erase(it) : std::next(it);
  }
  for (auto& [rule, resolved] : found) {
    forget(&resolved.methods, &RuleMethod::method);
    forget(&resolved.fields, &RuleField::field);
  }
  forget(&found_copies, &Changed::method);
  for (Outcome& outcome : outcomes) {
    auto is_freed = [&](void* member) { return freed->Contains(member); };
    std::vector<void*>& members = outcome.members;
    members.erase(std::remove_if(members.begin(), members.end(), is_freed), members.end());
  }
  const size_t before = methods.size() + fields.size();
  forget(&methods, &RuleMethod::method);
  forget(&fields, &RuleField::field);
  if (before != methods.size() + fields.size()) {
    Publish();
  }
}

const std::vector<size_t>* InForce::Naming(ObjPtr<mirror::Class> klass) const {
  std::string storage;
  auto it = by_class.find(klass->GetDescriptor(&storage));
  return it != by_class.end() ? &it->second : nullptr;
}

void InForce::FindCopies(ObjPtr<mirror::Class> klass, std::vector<Changed>* found_here) const {
  const DexFile* dex_file = nullptr;
  std::shared_ptr<const InlinedCopies::Methods> with_contents;
  for (ArtMethod& method : klass->GetMethods(kRuntimePointerSize)) {
    if (method.IsNative() || method.IsAbstract() || !method.IsInvokable()) {
      continue;
    }
    // All but copies of interfaces' default methods are from the same dex file.
    if (method.GetDexFile() != dex_file) {
      dex_file = method.GetDexFile();
      with_contents = copies->Find(*dex_file);
    }
    if (with_contents == nullptr || with_contents->empty()) {
      continue;
    }
    auto it = with_contents->find(method.GetDexMethodIndex());
    if (it != with_contents->end()) {
      found_here->push_back({&method, it->second.rule, it->second.is_access});
    }
  }
}

bool InForce::Note(const Changed& changed) {
  auto [it, is_new] = changes.insert({changed.method, {changed.rule, false, false, false}});
  Change& change = it->second;
  if (changed.is_interpreted && !change.is_interpreted) {
    change.is_interpreted = true;
    change.was_verified = changed.method->GetDeclaringClass()->IsVerified();
    change.forbidden = ForbidCompilation(changed.method);
  }
  return is_new || changed.is_interpreted;
}

bool InForce::HasFields() const {
  return std::any_of(rules.begin(), rules.end(), [](const Rule& rule) { return !rule.is_method; });
}

bool InForce::HasBranches() const {
  return std::any_of(rules.begin(), rules.end(), [](const Rule& rule) { return rule.branches; });
}

bool InForce::HasResults() const {
  auto asks = [](const Rule& rule) { return rule.is_method && rule.argument == Rule::kResult; };
  return std::any_of(rules.begin(), rules.end(), asks);
}

}  // namespace hindsight
}  // namespace art
