// SPDX-License-Identifier: Apache-2.0
//
// Trace points of compiled JNI stubs in Android 12 and later, where the stubs themselves change between Runnable and
// Native. They have the inline form, also where methods have the shared form.

#ifndef HINDSIGHT_COMPILER_NATIVE_TRACE_POINTS_H_
#define HINDSIGHT_COMPILER_NATIVE_TRACE_POINTS_H_

#include "arch/instruction_set.h"
#include "base/enums.h"

namespace art {

template <PointerSize kPointerSize>
class JNIMacroAssembler;

namespace hindsight {

// Emits the entry. The frame is built, and the method and the arguments are still in the caller's places.
void EmitNativeMethodEntry(JNIMacroAssembler<PointerSize::k32>* assembler, InstructionSet isa);
void EmitNativeMethodEntry(JNIMacroAssembler<PointerSize::k64>* assembler, InstructionSet isa);

// Emits the exit. The thread is Runnable again, and the result is in the place where the caller expects it. Emits
// nothing for a @CriticalNative method.
void EmitNativeMethodExit(JNIMacroAssembler<PointerSize::k32>* assembler,
                          InstructionSet isa,
                          bool is_critical_native);
void EmitNativeMethodExit(JNIMacroAssembler<PointerSize::k64>* assembler,
                          InstructionSet isa,
                          bool is_critical_native);

}  // namespace hindsight
}  // namespace art

#endif  // HINDSIGHT_COMPILER_NATIVE_TRACE_POINTS_H_
