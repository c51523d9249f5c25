// SPDX-License-Identifier: Apache-2.0
//
// All that the code generators include of Hindsight.

#ifndef HINDSIGHT_COMPILER_CODE_GENERATOR_HOOKS_H_
#define HINDSIGHT_COMPILER_CODE_GENERATOR_HOOKS_H_

#include "hindsight/compiler/trace_point_insertion.h"
#include "hindsight/runtime/thread_offsets.h"
#include "optimizing/code_generator.h"
#include "optimizing/nodes.h"

namespace art {
namespace hindsight {

// What the code generators call where they would return from a method. If its trace points have the
// shared form, emits the exit's, and says whether that returns, too; if not, emits nothing.
//
// On arm it is called before the epilogue, elsewhere in place of the return instruction.
bool EmitTracedReturn(CodeGenerator* codegen);

// What `check` tests, 16 bits that are zero if there is nothing to do: the thread's flags, or the poll
// word if it is also the trace point of the method's entry.
template <PointerSize pointer_size>
ThreadOffset<pointer_size> CheckOffset(const HSuspendCheck* check) {
  return IsTraceEntry(check) ? PollOffset<pointer_size>()
                             : Thread::ThreadFlagsOffset<pointer_size>();
}

}  // namespace hindsight

// One for each instruction set that has trace points; `start` has the shared form, or is null in OSR code.
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
