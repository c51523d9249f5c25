// SPDX-License-Identifier: Apache-2.0

#include "optimizing/code_generator_x86_64.h"

#include "hindsight/compiler/trace_point_emitter.h"
#include "thread.h"

namespace art {
namespace x86_64 {

static void EmitTracePoint(X86_64Assembler* assembler, bool is_entry, Register method, bool returns) {
  const hindsight::TracePointRequest request = {
      is_entry,
      static_cast<uint32_t>(method),
      Thread::HindsightCursorOffset<kX86_64PointerSize>().Int32Value(),
      returns,
  };
  AssemblerBuffer* buffer = assembler->GetBuffer();
  for (uint8_t byte : hindsight::EmitTracePoint(InstructionSet::kX86_64, request)) {
    AssemblerBuffer::EnsureCapacity ensured(buffer);
    buffer->Emit<uint8_t>(byte);
  }
}

void LocationsBuilderX86_64::VisitTraceStart(HTraceStart* instruction) {
  LocationSummary* locations = new (GetGraph()->GetAllocator()) LocationSummary(instruction);
  locations->SetInAt(0, Location::RequiresRegister());
  // The counter is read into RAX and RDX, and RDX may hold a parameter, so it is kept in R10. Neither
  // RAX nor R10 is a parameter register, so asking for them costs nothing while tracing is off.
  locations->AddTemp(Location::RegisterLocation(RAX));
  locations->AddTemp(Location::RegisterLocation(R10));
}

void InstructionCodeGeneratorX86_64::VisitTraceStart(HTraceStart* instruction) {
  CpuRegister method = instruction->GetLocations()->InAt(0).AsRegister<CpuRegister>();
  EmitTracePoint(codegen_->GetAssembler(), /* is_entry= */ true, method.AsRegister(), false);
}

void LocationsBuilderX86_64::VisitTraceEnd(HTraceEnd* instruction) {
  LocationSummary* locations = new (GetGraph()->GetAllocator()) LocationSummary(instruction);
  // Nothing but the value to be returned is alive here, so these temporaries are free; but that value
  // could be in one of them until the return moves it, so they have to be asked for.
  locations->AddTemp(Location::RegisterLocation(RDX));
  locations->AddTemp(Location::RegisterLocation(R10));
  if (instruction->ReturnsValueInCoreRegister()) {
    locations->SetInAt(0, Location::RegisterLocation(RAX));  // Where the return will want it.
  } else {
    locations->AddTemp(Location::RegisterLocation(RAX));
  }
}

void InstructionCodeGeneratorX86_64::VisitTraceEnd(HTraceEnd* instruction) {
  EmitTracePoint(codegen_->GetAssembler(),
                 /* is_entry= */ false,
                 RDI,
                 instruction->ReturnsValueInCoreRegister());
}

}  // namespace x86_64
}  // namespace art
