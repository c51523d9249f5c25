// SPDX-License-Identifier: Apache-2.0

#include "optimizing/code_generator_arm64.h"

#include "hindsight/compat.h"
#include "hindsight/compiler/code_generator_hooks.h"
#include "hindsight/compiler/trace_point_emitter.h"

namespace art {
namespace arm64 {

using hindsight::TracePointRequest;
using hindsight::TraceSite;

namespace {

// A distance in bytes that the branch of a later exit reaches for certain.
constexpr int32_t kMaxSharedExitDistance = MB - 4 * KB;

TracePointRequest Request(TraceSite site) {
  const auto stub = site == TraceSite::kLeafEntry ? hindsight::LeafStubOffset<kArm64PointerSize>()
                                                  : hindsight::ExitStubOffset<kArm64PointerSize>();
  return {
      site,
      /* method_register= */ 0u,
      hindsight::CursorOffset<kArm64PointerSize>().Int32Value(),
      stub.Int32Value(),
      /* returns_core_value= */ false,
      /* shared_exit= */ 0,
  };
}

// The code uses only x16 and x17, the macro assembler's scratch registers.
int32_t Emit(vixl::aarch64::MacroAssembler* masm, const TracePointRequest& request) {
  const hindsight::EmittedTracePoint emitted =
      hindsight::EmitTracePoint(InstructionSet::kArm64, request);
  // The macro assembler must not emit a pool in the middle of the code.
  vixl::ExactAssemblyScope scope(
      masm, emitted.bytes.size(), vixl::CodeBufferCheckScope::kExactSize);
  masm->GetBuffer()->EmitData(emitted.bytes.data(), emitted.bytes.size());
  return emitted.shared_exit;
}

}  // namespace

void LocationsBuilderARM64::VisitTraceStart(HTraceStart* instruction) {
  LocationSummary* locations = new (GetGraph()->GetAllocator()) LocationSummary(instruction);
  locations->SetInAt(0, instruction->SharesSuspendCheck()
                            ? Location::RegisterLocation(X0)  // The stub expects the method there.
                            : Location::RequiresRegister());
}

void InstructionCodeGeneratorARM64::VisitTraceStart(HTraceStart* instruction) {
  if (instruction->SharesSuspendCheck()) {
    if (!hindsight::HasEntrySuspendCheck(codegen_)) {
      Emit(codegen_->GetVIXLAssembler(), Request(TraceSite::kLeafEntry));
    }
    return;
  }
  TracePointRequest request = Request(TraceSite::kInlineEntry);
  request.method_register = instruction->GetLocations()->InAt(0).reg();
  Emit(codegen_->GetVIXLAssembler(), request);
}

void LocationsBuilderARM64::VisitTraceEnd(HTraceEnd* instruction) {
  instruction->SetLocations(nullptr);
}

void InstructionCodeGeneratorARM64::VisitTraceEnd(HTraceEnd* instruction) {
  if (!hindsight::HasSharedForm(instruction)) {
    Emit(codegen_->GetVIXLAssembler(), Request(TraceSite::kInlineExit));
  }
}

bool EmitTracedReturn(CodeGenerator* codegen, HTraceStart* start) {
  vixl::aarch64::MacroAssembler* masm =
      down_cast<CodeGeneratorARM64*>(codegen)->GetVIXLAssembler();
  const int32_t here = dchecked_integral_cast<int32_t>(masm->GetCursorOffset());
  if (start != nullptr && start->GetSharedExit() >= 0 && here - start->GetSharedExit() < kMaxSharedExitDistance) {
    TracePointRequest request = Request(TraceSite::kLaterExit);
    request.shared_exit = start->GetSharedExit() - here;
    Emit(masm, request);
    return true;
  }
  const int32_t shared_exit = here + Emit(masm, Request(TraceSite::kTailExit));
  if (start != nullptr) {
    start->SetSharedExit(shared_exit);
  }
  return true;
}

}  // namespace arm64
}  // namespace art
