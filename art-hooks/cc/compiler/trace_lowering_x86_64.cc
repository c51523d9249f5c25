// SPDX-License-Identifier: Apache-2.0

#include "optimizing/code_generator_x86_64.h"

#include "hindsight/compat.h"
#include "hindsight/compiler/code_generator_hooks.h"
#include "hindsight/compiler/trace_point_emitter.h"

namespace art {
namespace x86_64 {

using hindsight::TracePointRequest;
using hindsight::TraceSite;

namespace {

TracePointRequest Request(TraceSite site) {
  const auto stub = site == TraceSite::kLeafEntry ? hindsight::LeafStubOffset<kX86_64PointerSize>()
                                                  : hindsight::ExitStubOffset<kX86_64PointerSize>();
  return {
      site,
      static_cast<uint32_t>(RDI),
      hindsight::CursorOffset<kX86_64PointerSize>().Int32Value(),
      stub.Int32Value(),
      /* returns_core_value= */ false,
      /* shared_exit= */ 0,
  };
}

int32_t Emit(X86_64Assembler* assembler, const TracePointRequest& request) {
  AssemblerBuffer* buffer = assembler->GetBuffer();
  const hindsight::EmittedTracePoint emitted =
      hindsight::EmitTracePoint(InstructionSet::kX86_64, request);
  for (uint8_t byte : emitted.bytes) {
    AssemblerBuffer::EnsureCapacity ensured(buffer);
    buffer->Emit<uint8_t>(byte);
  }
  return emitted.shared_exit;
}

}  // namespace

void LocationsBuilderX86_64::VisitTraceStart(HTraceStart* instruction) {
  LocationSummary* locations = new (GetGraph()->GetAllocator()) LocationSummary(instruction);
  if (instruction->SharesSuspendCheck()) {
    locations->SetInAt(0, Location::RegisterLocation(RDI));  // The stub expects the method there.
    return;
  }
  locations->SetInAt(0, Location::RequiresRegister());
  // The counter is read into RAX and RDX. RDX may hold a parameter, so R10 keeps its value. Neither RAX nor R10 is a
  // parameter register, so asking for them costs nothing while tracing is off.
  locations->AddTemp(Location::RegisterLocation(RAX));
  locations->AddTemp(Location::RegisterLocation(R10));
}

void InstructionCodeGeneratorX86_64::VisitTraceStart(HTraceStart* instruction) {
  if (instruction->SharesSuspendCheck()) {
    if (!hindsight::HasEntrySuspendCheck(codegen_)) {
      Emit(codegen_->GetAssembler(), Request(TraceSite::kLeafEntry));
    }
    return;
  }
  TracePointRequest request = Request(TraceSite::kInlineEntry);
  request.method_register =
      instruction->GetLocations()->InAt(0).AsRegister<CpuRegister>().AsRegister();
  Emit(codegen_->GetAssembler(), request);
}

void LocationsBuilderX86_64::VisitTraceEnd(HTraceEnd* instruction) {
  if (hindsight::HasSharedForm(instruction)) {
    instruction->SetLocations(nullptr);
    return;
  }
  LocationSummary* locations = new (GetGraph()->GetAllocator()) LocationSummary(instruction);
  // Only the value to be returned is live here, so these temporaries cost nothing. They must be asked for: otherwise
  // the allocator could keep that value in one of them until the return moves it.
  locations->AddTemp(Location::RegisterLocation(RDX));
  locations->AddTemp(Location::RegisterLocation(R10));
  if (instruction->ReturnsValueInCoreRegister()) {
    locations->SetInAt(0, Location::RegisterLocation(RAX));  // The return expects the value there.
  } else {
    locations->AddTemp(Location::RegisterLocation(RAX));
  }
}

void InstructionCodeGeneratorX86_64::VisitTraceEnd(HTraceEnd* instruction) {
  if (hindsight::HasSharedForm(instruction)) {
    return;
  }
  TracePointRequest request = Request(TraceSite::kInlineExit);
  request.returns_core_value = instruction->ReturnsValueInCoreRegister();
  Emit(codegen_->GetAssembler(), request);
}

bool EmitTracedReturn(CodeGenerator* codegen, HTraceStart* start) {
  X86_64Assembler* assembler = down_cast<CodeGeneratorX86_64*>(codegen)->GetAssembler();
  const int32_t here = dchecked_integral_cast<int32_t>(assembler->CodeSize());
  if (start != nullptr && start->GetSharedExit() >= 0) {
    TracePointRequest request = Request(TraceSite::kLaterExit);
    request.shared_exit = start->GetSharedExit() - here;
    Emit(assembler, request);
    return true;
  }
  const int32_t shared_exit = here + Emit(assembler, Request(TraceSite::kTailExit));
  if (start != nullptr) {
    start->SetSharedExit(shared_exit);
  }
  return true;
}

}  // namespace x86_64
}  // namespace art
