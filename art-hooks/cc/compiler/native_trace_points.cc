// SPDX-License-Identifier: Apache-2.0

#include "hindsight/compat.h"

#if HINDSIGHT_ART >= 14

#include "hindsight/compiler/native_trace_points.h"

#ifdef ART_ENABLE_CODEGEN_arm
#include "utils/arm/jni_macro_assembler_arm_vixl.h"
#endif
#ifdef ART_ENABLE_CODEGEN_arm64
#include "utils/arm64/jni_macro_assembler_arm64.h"
#endif
#ifdef ART_ENABLE_CODEGEN_x86_64
#include "utils/x86_64/jni_macro_assembler_x86_64.h"
#endif

#include "hindsight/compiler/trace_point_emitter.h"
#include "hindsight/runtime/thread_offsets.h"
#include "hindsight/runtime/trace_point_form.h"

namespace art {
namespace hindsight {

namespace {

// The stubs keep the registers that a JNI stub has in use at these places: the arguments, and the result.
template <PointerSize kPointerSize>
std::vector<uint8_t> NativeTracePoint(InstructionSet isa, bool is_entry, uint32_t method_register) {
  const bool is_inline = GetTracePointForm(isa) == TracePointForm::kInline;
  const TraceSite site = is_entry ? (is_inline ? TraceSite::kInlineEntry : TraceSite::kLeafEntry)
                                  : (is_inline ? TraceSite::kInlineExit : TraceSite::kFramedExit);
  const TracePointRequest request = {
      site,
      method_register,
      CursorOffset<kPointerSize>().Int32Value(),
      (is_entry ? LeafStubOffset<kPointerSize>() : ExitStubOffset<kPointerSize>()).Int32Value(),
      // Also where the method returns void or a floating-point number; keeping the register then does no harm.
      /* returns_core_value= */ true,
      /* shared_exit= */ 0,
  };
  return EmitTracePoint(isa, request).bytes;
}

#if defined(ART_ENABLE_CODEGEN_arm) || defined(ART_ENABLE_CODEGEN_arm64)
template <typename MacroAssembler>
void EmitBytes(MacroAssembler* masm, const std::vector<uint8_t>& bytes) {
  // The macro assembler must not emit a pool in the middle of the code.
  vixl::ExactAssemblyScope scope(masm, bytes.size(), vixl::CodeBufferCheckScope::kExactSize);
  masm->GetBuffer()->EmitData(bytes.data(), bytes.size());
}
#endif

void Emit(JNIMacroAssembler<PointerSize::k32>* assembler, InstructionSet isa, bool is_entry) {
  if (GetTracePointForm(isa) == TracePointForm::kNone) {
    return;
  }
#ifdef ART_ENABLE_CODEGEN_arm
  if (isa == InstructionSet::kArm || isa == InstructionSet::kThumb2) {
    EmitBytes(down_cast<arm::ArmVIXLJNIMacroAssembler*>(assembler)->GetAssembler()->GetVIXLAssembler(),
              NativeTracePoint<kArmPointerSize>(InstructionSet::kThumb2, is_entry, arm::R0));
    return;
  }
#endif
  LOG(FATAL) << "Unreachable: trace points on " << isa << ", " << assembler;
}

void Emit(JNIMacroAssembler<PointerSize::k64>* assembler, InstructionSet isa, bool is_entry) {
  if (GetTracePointForm(isa) == TracePointForm::kNone) {
    return;
  }
  switch (isa) {
#ifdef ART_ENABLE_CODEGEN_arm64
    case InstructionSet::kArm64:
      EmitBytes(down_cast<arm64::Arm64JNIMacroAssembler*>(assembler)->GetAssembler()->GetVIXLAssembler(),
                NativeTracePoint<kArm64PointerSize>(isa, is_entry, arm64::X0));
      return;
#endif
#ifdef ART_ENABLE_CODEGEN_x86_64
    case InstructionSet::kX86_64: {
      AssemblerBuffer* buffer =
          down_cast<x86_64::X86_64JNIMacroAssembler*>(assembler)->GetAssembler()->GetBuffer();
      for (uint8_t byte : NativeTracePoint<kX86_64PointerSize>(isa, is_entry, x86_64::RDI)) {
        AssemblerBuffer::EnsureCapacity ensured(buffer);
        buffer->Emit<uint8_t>(byte);
      }
      return;
    }
#endif
    default:
      LOG(FATAL) << "Unreachable: trace points on " << isa << ", " << assembler;
  }
}

}  // namespace

void EmitNativeMethodEntry(JNIMacroAssembler<PointerSize::k32>* assembler, InstructionSet isa) {
  Emit(assembler, isa, /* is_entry= */ true);
}

void EmitNativeMethodEntry(JNIMacroAssembler<PointerSize::k64>* assembler, InstructionSet isa) {
  Emit(assembler, isa, /* is_entry= */ true);
}

void EmitNativeMethodExit(JNIMacroAssembler<PointerSize::k32>* assembler,
                          InstructionSet isa,
                          bool is_critical_native) {
  if (!is_critical_native) {
    Emit(assembler, isa, /* is_entry= */ false);
  }
}

void EmitNativeMethodExit(JNIMacroAssembler<PointerSize::k64>* assembler,
                          InstructionSet isa,
                          bool is_critical_native) {
  if (!is_critical_native) {
    Emit(assembler, isa, /* is_entry= */ false);
  }
}

}  // namespace hindsight
}  // namespace art

#endif  // HINDSIGHT_ART >= 14
