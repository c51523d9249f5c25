// SPDX-License-Identifier: Apache-2.0
//
// Hindsight's hooks for the code generators.

#ifndef HINDSIGHT_COMPILER_CODE_GENERATOR_HOOKS_H_
#define HINDSIGHT_COMPILER_CODE_GENERATOR_HOOKS_H_

#include "hindsight/compiler/trace_point_insertion.h"
#include "hindsight/runtime/thread_offsets.h"
#include "optimizing/code_generator.h"
#include "optimizing/nodes.h"

namespace art {
namespace hindsight {

// Code generators call this in place of a return instruction; on arm, before the epilogue. If the method's trace points
// have the shared form, emits the exit, and returns whether that code also returns from the method. Otherwise emits
// nothing and returns false.
bool EmitTracedReturn(CodeGenerator* codegen);

// The offset of the 16 bits that `check` tests, which are 0 if there is nothing to do: the thread's flags, or the poll
// word if `check` is also the trace point of the method's entry.
template <PointerSize pointer_size>
ThreadOffset<pointer_size> CheckOffset(const HSuspendCheck* check) {
  return IsTraceEntry(check) ? PollOffset<pointer_size>()
                             : Thread::ThreadFlagsOffset<pointer_size>();
}

}  // namespace hindsight

// For each instruction set with trace points. `start` has the shared form, or is null in OSR code.
namespace arm {
bool EmitTracedReturn(CodeGenerator* codegen, HTraceStart* start);
}
namespace arm64 {
bool EmitTracedReturn(CodeGenerator* codegen, HTraceStart* start);
}
namespace x86_64 {
bool EmitTracedReturn(CodeGenerator* codegen, HTraceStart* start);
}

}  // namespace art

#endif  // HINDSIGHT_COMPILER_CODE_GENERATOR_HOOKS_H_
