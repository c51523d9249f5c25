// SPDX-License-Identifier: Apache-2.0

#include "hindsight/compiler/code_generator_hooks.h"

namespace art {
namespace hindsight {

bool EmitTracedReturn(CodeGenerator* codegen) {
  HTraceStart* start = FindTraceStart(codegen->GetGraph());
  if (start == nullptr ? !IsOsrCodeWithSharedExit(codegen->GetGraph()) : !start->SharesSuspendCheck()) {
    return false;
  }
  switch (codegen->GetInstructionSet()) {
#ifdef ART_ENABLE_CODEGEN_arm
    case InstructionSet::kArm:
    case InstructionSet::kThumb2:
      return arm::EmitTracedReturn(codegen, start);
#endif
#ifdef ART_ENABLE_CODEGEN_arm64
    case InstructionSet::kArm64:
      return arm64::EmitTracedReturn(codegen, start);
#endif
#ifdef ART_ENABLE_CODEGEN_x86_64
    case InstructionSet::kX86_64:
      return x86_64::EmitTracedReturn(codegen, start);
#endif
    default:
      LOG(FATAL) << "Unreachable: trace points on " << codegen->GetInstructionSet();
      UNREACHABLE();
  }
}

}  // namespace hindsight
}  // namespace art
