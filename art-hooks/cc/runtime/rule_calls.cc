// SPDX-License-Identifier: Apache-2.0

#include "hindsight/runtime/rule_calls.h"

#include <atomic>

#include "art_method-inl.h"
#include "branch_trace.h"
#include "dex/code_item_accessors-inl.h"
#include "dex/dex_instruction-inl.h"
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

// A number of an object and the queue that it is in: 0 if one of them has none.
uint32_t Both(uint32_t queue, uint32_t object) {
  if (queue == 0u || object == 0u) {
    return 0u;
  }
  // The finalizer of MurmurHash3 (A. Appleby, public domain) changes half of the bits.
  uint64_t mixed = (static_cast<uint64_t>(queue) << 32) | object;
  mixed = (mixed ^ (mixed >> 33)) * UINT64_C(0xff51afd7ed558ccd);
  mixed = (mixed ^ (mixed >> 33)) * UINT64_C(0xc4ceb9fe1a85ec53);
  const uint32_t number = static_cast<uint32_t>(mixed ^ (mixed >> 33));
  return number != 0u ? number : 1u;
}

// The identity of the object in a register of a frame, by the register's distance from the frame's end; 0 if it is none.
uint32_t IdentityIn(Thread* self, ShadowFrame* frame, uint32_t from_end) REQUIRES_SHARED(Locks::mutator_lock_) {
  const size_t registers = frame->NumberOfVRegs();
  return from_end != 0u && from_end <= registers
      ? IdentityOfLocked(self, frame->GetVRegReference(registers - from_end))
      : 0u;
}

// The identity of what a frame returns. 0 if it is null, and if an exception leaves the frame.
uint32_t IdentityOfResult(Thread* self, ShadowFrame* frame) REQUIRES_SHARED(Locks::mutator_lock_) {
  const CodeItemInstructionAccessor code = frame->GetMethod()->DexInstructions();
  const uint32_t dex_pc = frame->GetDexPC();
  if (self->IsExceptionPending() || dex_pc >= code.InsnsSizeInCodeUnits()) {
    return 0u;
  }
  const Instruction& instruction = code.InstructionAt(dex_pc);
  if (instruction.Opcode() != Instruction::RETURN_OBJECT) {
    return 0u;
  }
  return IdentityOfLocked(self, frame->GetVRegReference(instruction.VRegA_11x()));
}

// The identity for the event at the end of a call. `object` is the identity that the event at its beginning had. Called in the
// frame of the call.
uint32_t ObjectAtEnd(Thread* self, uint32_t name, uint32_t object) REQUIRES_SHARED(Locks::mutator_lock_) {
  ShadowFrame* frame = self->GetManagedStack()->GetTopShadowFrame();
  const RuleTable* table = PublishedRules();
  const RuleMethod* rule = table != nullptr && frame != nullptr ? table->Find(frame->GetMethod()) : nullptr;
  if (rule == nullptr || rule->name != name || !rule->result) {
    return object;
  }
  const uint32_t result = IdentityOfResult(self, frame);
  return rule->this_from_end != 0u ? Both(object, result) : result;
}

}  // namespace

RuleTable::RuleTable(std::vector<RuleMethod> methods, std::vector<RuleField> fields)
    : fields_(std::move(fields)) {
  size_t size = 2u;
  while (size < 2u * (methods.size() + 1u)) {
    size *= 2u;
  }
  mask_ = size - 1u;
  slots_.resize(size, RuleMethod{nullptr, 0u, 0u, 0u, false, false});
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
  ShadowFrame* frame = self->GetManagedStack()->GetTopShadowFrame();
  if (frame != nullptr && frame->GetMethod() == method) {
    object_ = IdentityIn(self, frame, rule->object_from_end);
    if (rule->this_from_end != 0u) {
      // Of what is returned, the other part comes at the end: the method may use the register of `this` meanwhile.
      const uint32_t of_this = IdentityIn(self, frame, rule->this_from_end);
      object_ = rule->result ? of_this : Both(of_this, object_);
    }
  }
  name_ = rule->name;
  began_ = true;
  Record(self, kRuleBegin, PackRuleBegin(name_, object_));
  RecordResources(self);
}

void RuleCall::End(Thread* self) {
  if (Records(self, kCategoryRules)) {
    Locks::mutator_lock_->AssertSharedHeld(self);
    RecordResources(self);
    RecordBranches(self);
    Record(self, kRuleEnd, PackRuleEnd(name_, ObjectAtEnd(self, name_, object_)));
  }
}

}  // namespace hindsight
}  // namespace art
