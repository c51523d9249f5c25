// SPDX-License-Identifier: Apache-2.0

#include "optimizing/code_generator_arm_vixl.h"

#include "hindsight/compat.h"
#include "hindsight/compiler/code_generator_hooks.h"
#include "hindsight/compiler/trace_point_emitter.h"

namespace art {
namespace arm {

using hindsight::TracePointRequest;
using hindsight::TraceSite;

namespace {

TracePointRequest Request(TraceSite site) {
  const auto stub = site == TraceSite::kLeafEntry ? hindsight::LeafStubOffset<kArmPointerSize>()
                                                  : hindsight::ExitStubOffset<kArmPointerSize>();
  return {
      site,
      /* method_register= */ static_cast<uint32_t>(R0),
      hindsight::CursorOffset<kArmPointerSize>().Int32Value(),
      stub.Int32Value(),
      /* returns_core_value= */ false,
      /* shared_exit= */ 0,
  };
}

void Emit(ArmVIXLAssembler* assembler, const TracePointRequest& request) {
  const hindsight::EmittedTracePoint emitted =
      hindsight::EmitTracePoint(InstructionSet::kThumb2, request);
  ArmVIXLMacroAssembler* masm = assembler->GetVIXLAssembler();
  // The macro assembler must not emit a pool in the middle of the code.
  vixl::ExactAssemblyScope scope(
      masm, emitted.bytes.size(), vixl::CodeBufferCheckScope::kExactSize);
  masm->GetBuffer()->EmitData(emitted.bytes.data(), emitted.bytes.size());
}

}  // namespace

void LocationsBuilderARMVIXL::VisitTraceStart(HTraceStart* instruction) {
  LocationSummary* locations = new (GetGraph()->GetAllocator()) LocationSummary(instruction);
  locations->SetInAt(0, Location::RegisterLocation(R0));
  // R4 is neither a parameter register nor saved by callees, so asking for it costs nothing.
  locations->AddTemp(Location::RegisterLocation(R4));
}

void InstructionCodeGeneratorARMVIXL::VisitTraceStart(HTraceStart* instruction) {
  if (instruction->SharesSuspendCheck() ? !hindsight::HasEntrySuspendCheck(codegen_)
                                        : codegen_->IsLeafMethod()) {
    // The link register may not have been saved.
    Emit(codegen_->GetAssembler(), Request(TraceSite::kLeafEntry));
  } else if (!instruction->SharesSuspendCheck()) {
    Emit(codegen_->GetAssembler(), Request(TraceSite::kInlineEntry));
  }
}

void LocationsBuilderARMVIXL::VisitTraceEnd(HTraceEnd* instruction) {
  if (hindsight::HasSharedForm(instruction)) {
    instruction->SetLocations(nullptr);
    return;
  }
  LocationSummary* locations = new (GetGraph()->GetAllocator()) LocationSummary(instruction);
  // The allocator could keep the value to be returned in one of them until the return moves it.
  locations->AddTemp(Location::RegisterLocation(R2));
  locations->AddTemp(Location::RegisterLocation(R3));
}

void InstructionCodeGeneratorARMVIXL::VisitTraceEnd(HTraceEnd* instruction) {
  if (!hindsight::HasSharedForm(instruction)) {
    Emit(codegen_->GetAssembler(), Request(TraceSite::kInlineExit));
  }
}

bool EmitTracedReturn(CodeGenerator* codegen, HTraceStart* start ATTRIBUTE_UNUSED) {
  CodeGeneratorARMVIXL* arm_codegen = down_cast<CodeGeneratorARMVIXL*>(codegen);
  const bool has_frame = !arm_codegen->HasEmptyFrame();
  Emit(arm_codegen->GetAssembler(),
       Request(has_frame ? TraceSite::kFramedExit : TraceSite::kTailExit));
  return !has_frame;
}

}  // namespace arm
}  // namespace art
