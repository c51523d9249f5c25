// SPDX-License-Identifier: Apache-2.0
//
// Trace points of compiled JNI stubs, in Android 12 and later, whose stubs do the transitions between
// Runnable and Native themselves. They have the inline form, unless there are none at all.

#ifndef HINDSIGHT_COMPILER_NATIVE_TRACE_POINTS_H_
#define HINDSIGHT_COMPILER_NATIVE_TRACE_POINTS_H_

#include "arch/instruction_set.h"
#include "base/enums.h"

namespace art {

template <PointerSize kPointerSize>
class JNIMacroAssembler;

namespace hindsight {

// The frame is built, and the method and the arguments are still where the caller has put them.
void EmitNativeMethodEntry(JNIMacroAssembler<PointerSize::k32>* assembler, InstructionSet isa);
void EmitNativeMethodEntry(JNIMacroAssembler<PointerSize::k64>* assembler, InstructionSet isa);

// The thread is Runnable again, and the result is where the caller will look for it. `is_critical_native`:
// the method is @CriticalNative, and has no trace points.
void EmitNativeMethodExit(JNIMacroAssembler<PointerSize::k32>* assembler,
                          InstructionSet isa,
                          bool is_critical_native);
void EmitNativeMethodExit(JNIMacroAssembler<PointerSize::k64>* assembler,
                          InstructionSet isa,
                          bool is_critical_native);

}  // namespace hindsight
}  // namespace art

#endif  // HINDSIGHT_COMPILER_NATIVE_TRACE_POINTS_H_
