// SPDX-License-Identifier: Apache-2.0

#include "hindsight/compat.h"

#if HINDSIGHT_ART >= 14

#ifdef ART_ENABLE_CODEGEN_arm
#include "optimizing/code_generator_arm_vixl.h"
#endif
#ifdef ART_ENABLE_CODEGEN_arm64
#include "optimizing/code_generator_arm64.h"
#endif
#ifdef ART_ENABLE_CODEGEN_x86_64
#include "optimizing/code_generator_x86_64.h"
#endif

#include "hindsight/compiler/trace_entry_test.h"

namespace art {
namespace hindsight {

#ifdef ART_ENABLE_CODEGEN_arm
bool EmitTraceEntryTest(arm::CodeGeneratorARMVIXL* codegen,
                        const HSuspendCheck* check,
                        vixl::aarch32::Label* slow_path) {
  if (!IsTraceEntry(check)) {
    return false;
  }
  arm::ArmVIXLAssembler* assembler = codegen->GetAssembler();
  vixl::aarch32::UseScratchRegisterScope temps(assembler->GetVIXLAssembler());
  vixl::aarch32::Register temp = temps.Acquire();
  assembler->LoadFromOffset(
      arm::kLoadWord, temp, arm::tr, PollOffset<kArmPointerSize>().Int32Value());
  assembler->GetVIXLAssembler()->CompareAndBranchIfNonZero(temp, slow_path);
  return true;
}
#endif

#ifdef ART_ENABLE_CODEGEN_arm64
bool EmitTraceEntryTest(arm64::CodeGeneratorARM64* codegen,
                        const HSuspendCheck* check,
                        vixl::aarch64::Label* slow_path) {
  if (!IsTraceEntry(check)) {
    return false;
  }
  vixl::aarch64::MacroAssembler* masm = codegen->GetVIXLAssembler();
  vixl::aarch64::UseScratchRegisterScope temps(masm);
  vixl::aarch64::Register temp = temps.AcquireW();
  masm->Ldr(temp, vixl::aarch64::MemOperand(arm64::tr, PollOffset<kArm64PointerSize>().SizeValue()));
  masm->Cbnz(temp, slow_path);
  return true;
}
#endif

#ifdef ART_ENABLE_CODEGEN_x86_64
bool EmitTraceEntryTest(x86_64::CodeGeneratorX86_64* codegen,
                        const HSuspendCheck* check,
                        Label* slow_path) {
  if (!IsTraceEntry(check)) {
    return false;
  }
  x86_64::X86_64Assembler* assembler = codegen->GetAssembler();
  assembler->gs()->cmpl(
      x86_64::Address::Absolute(PollOffset<kX86_64PointerSize>(), /* no_rip= */ true),
      x86_64::Immediate(0));
  assembler->j(x86_64::kNotEqual, slow_path);
  return true;
}
#endif

}  // namespace hindsight
}  // namespace art

#endif  // HINDSIGHT_ART >= 14
