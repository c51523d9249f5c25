// SPDX-License-Identifier: Apache-2.0

#include "hindsight/compiler/trace_point_insertion.h"

#include "hindsight/compat.h"
#include "hindsight/runtime/trace_point_form.h"
#include "hindsight/runtime/trivial_methods.h"

namespace art {
namespace hindsight {

bool TracePointInsertion::Run() {
  const TracePointForm form = GetTracePointForm(graph_->GetInstructionSet());
  if (form == TracePointForm::kNone || (graph_->IsCompilingOsr() && !kOsrCodeRecordsExit) ||
      IsLeftOut(graph_->GetDexFile(), graph_->GetMethodIdx())) {
    return false;
  }
  const bool shared = form == TracePointForm::kShared;
  ArenaAllocator* allocator = graph_->GetAllocator();

  // The entry goes into the entry block, where the method is still in its argument register (the first block of the
  // body may be a loop header), and before the suspend check, which the code generator expects next to the goto.
  HBasicBlock* entry = graph_->GetEntryBlock();
  HCurrentMethod* method = graph_->GetCurrentMethod();
  HInstruction* cursor = entry->GetLastInstruction();
  while (cursor->GetPrevious() != nullptr && cursor->GetPrevious()->IsSuspendCheck()) {
    cursor = cursor->GetPrevious();
  }
  if (!graph_->IsCompilingOsr()) {
    entry->InsertInstructionBefore(
        new (allocator) HTraceStart(method, shared, entry->GetDexPc()), cursor);
  }

  for (HBasicBlock* block : graph_->GetReversePostOrder()) {
    HInstruction* last = block->GetLastInstruction();
    if (last == nullptr || !(last->IsReturn() || last->IsReturnVoid())) {
      continue;
    }
    HInstruction* returned = nullptr;
    if (!shared && graph_->GetInstructionSet() == InstructionSet::kX86_64 && last->IsReturn()) {
      HInstruction* value = last->InputAt(0);
      // A constant is loaded after the trace point, and a floating-point value is in none of its registers.
      if (!value->IsConstant() && !DataType::IsFloatingPointType(value->GetType())) {
        returned = value;
      }
    }
    block->InsertInstructionBefore(
        new (allocator) HTraceEnd(allocator, returned, last->GetDexPc()), last);
  }
  return true;
}

HTraceStart* FindTraceStart(const HGraph* graph) {
  for (HInstructionIterator it(graph->GetEntryBlock()->GetInstructions()); !it.Done(); it.Advance()) {
    if (it.Current()->IsTraceStart()) {
      return it.Current()->AsTraceStart();
    }
  }
  return nullptr;
}

bool IsOsrCodeWithSharedExit(const HGraph* graph) {
  return kOsrCodeRecordsExit &&
         graph->IsCompilingOsr() &&
         GetTracePointForm(graph->GetInstructionSet()) == TracePointForm::kShared;
}

bool HasSharedForm(const HTraceEnd* exit) {
  const HGraph* graph = exit->GetBlock()->GetGraph();
  const HTraceStart* start = FindTraceStart(graph);
  return start != nullptr ? start->SharesSuspendCheck() : IsOsrCodeWithSharedExit(graph);
}

bool IsTraceEntry(const HSuspendCheck* check) {
  if (!check->IsSuspendCheckEntry()) {
    return false;
  }
  const HTraceStart* start = FindTraceStart(check->GetBlock()->GetGraph());
  return start != nullptr && start->SharesSuspendCheck();
}

QuickEntrypointEnum SuspendEntrypoint(const HInstruction* check) {
  return IsTraceEntry(check->AsSuspendCheck()) ? kQuickTraceEntry : kQuickTestSuspend;
}

bool IsUsedByTracePointOnly(HInstruction* instruction) {
  return instruction->IsCurrentMethod() &&
         instruction->HasOnlyOneNonEnvironmentUse() &&
         instruction->GetUses().front().GetUser()->IsTraceStart();
}

}  // namespace hindsight
}  // namespace art
