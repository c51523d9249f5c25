// SPDX-License-Identifier: Apache-2.0

#include "hindsight/compiler/trace_point_insertion.h"

namespace art {
namespace hindsight {

bool HasTracePoints(InstructionSet isa) {
  return isa == InstructionSet::kX86_64;
}

bool TracePointInsertion::Run() {
  if (graph_->IsCompilingOsr() || !HasTracePoints(graph_->GetInstructionSet())) {
    return false;
  }
  ArenaAllocator* allocator = graph_->GetAllocator();

  // The entry goes to the entry block, where the method is still in its argument register (the first
  // block of the body may be a loop header), and before the suspend check, which the code generator
  // expects to stand next to the block's goto.
  HBasicBlock* entry = graph_->GetEntryBlock();
  HCurrentMethod* method = graph_->GetCurrentMethod();
  HInstruction* cursor = entry->GetLastInstruction();
  while (cursor->GetPrevious() != nullptr && cursor->GetPrevious()->IsSuspendCheck()) {
    cursor = cursor->GetPrevious();
  }
  entry->InsertInstructionBefore(new (allocator) HTraceStart(method, entry->GetDexPc()), cursor);

  for (HBasicBlock* block : graph_->GetReversePostOrder()) {
    HInstruction* last = block->GetLastInstruction();
    if (last == nullptr || !(last->IsReturn() || last->IsReturnVoid())) {
      continue;
    }
    HInstruction* returned = nullptr;
    if (last->IsReturn()) {
      HInstruction* value = last->InputAt(0);
      // A constant is loaded after the trace point, and a floating point value is out of its way.
      if (!value->IsConstant() && !DataType::IsFloatingPointType(value->GetType())) {
        returned = value;
      }
    }
    block->InsertInstructionBefore(
        new (allocator) HTraceEnd(allocator, returned, last->GetDexPc()), last);
  }
  return true;
}

bool IsUsedByTracePointOnly(HInstruction* instruction) {
  return instruction->IsCurrentMethod() &&
         instruction->HasOnlyOneNonEnvironmentUse() &&
         instruction->GetUses().front().GetUser()->IsTraceStart();
}

}  // namespace hindsight
}  // namespace art
