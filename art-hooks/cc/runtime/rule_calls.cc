// SPDX-License-Identifier: Apache-2.0

#include "hindsight/runtime/rule_calls.h"

#include <atomic>

#include "hindsight/compat.h"
#include "hindsight/runtime/object_identity.h"
#include "interpreter/shadow_frame-inl.h"
#include "managed_stack.h"
#include "rule_table.h"
#include "thread-current-inl.h"

namespace art {
namespace hindsight {

namespace {

std::atomic<const RuleTable*> published(nullptr);

}  // namespace

RuleTable::RuleTable(std::vector<RuleMethod> methods, std::vector<RuleField> fields)
    : fields_(std::move(fields)) {
  size_t size = 2u;
  while (size < 2u * (methods.size() + 1u)) {
    size *= 2u;
  }
  mask_ = size - 1u;
  slots_.resize(size, RuleMethod{nullptr, 0u, 0u});
  for (const RuleMethod& method : methods) {
    size_t i = Hash(method.method) & mask_;
    while (slots_[i].method != nullptr) {
      i = (i + 1u) & mask_;
    }
    slots_[i] = method;
  }
}

const RuleField* RuleTable::Find(const ArtField* field) const {
  for (const RuleField& rule : fields_) {
    if (rule.field == field) {
      return &rule;
    }
  }
  return nullptr;
}

const RuleTable* PublishedRules() { return published.load(std::memory_order_acquire); }

void PublishRules(const RuleTable* table) { published.store(table, std::memory_order_release); }

void RuleCall::Begin(Thread* self, ArtMethod* method) {
  const RuleTable* table = PublishedRules();
  const RuleMethod* rule = table != nullptr ? table->Find(method) : nullptr;
  if (rule == nullptr) {
    return;
  }
  const ShadowFrame* frame = self->GetManagedStack()->GetTopShadowFrame();
  if (frame != nullptr && frame->GetMethod() == method) {
    const size_t registers = frame->NumberOfVRegs();
    if (rule->object_from_end != 0u && rule->object_from_end <= registers) {
      object_ = IdentityOfLocked(self, frame->GetVRegReference(registers - rule->object_from_end));
    }
  }
  name_ = rule->name;
  began_ = true;
  Record(self, kRuleBegin, PackRuleBegin(name_, object_));
  RecordResources(self);
}

void RuleCall::End(Thread* self) {
  if (Records(self, kCategoryRules)) {
    RecordResources(self);
    Record(self, kRuleEnd, PackRuleEnd(name_, object_));
  }
}

}  // namespace hindsight
}  // namespace art
