// SPDX-License-Identifier: Apache-2.0

#ifndef HINDSIGHT_COMPILER_TRACE_POINT_EMITTER_H_
#define HINDSIGHT_COMPILER_TRACE_POINT_EMITTER_H_

#include <stdint.h>

#include <vector>

#include "arch/instruction_set.h"

namespace art {
namespace hindsight {

// Where in a method a trace point stands, and whether it does its work there or calls a stub for it.
// docs/trace-points.md has the code of each.
enum class TraceSite : uint8_t {
  kInlineEntry,
  kInlineExit,
  // Calls art_quick_trace_entry_leaf.
  kLeafEntry,
  // In place of a return: jumps to art_quick_trace_exit.
  kTailExit,
  // In place of a later return of the same method: branches to the first one's jump. Not on arm.
  kLaterExit,
  // On arm, before the epilogue of a method that has saved lr.
  kFramedExit,
};

// What a trace point in one method looks like. Registers are numbered as in the instruction set, offsets
// are in bytes from the thread register.
struct TracePointRequest {
  TraceSite site;
  // kInlineEntry: the method's register.
  uint32_t method_register;
  int32_t cursor_offset;
  int32_t stub_offset;
  // kInlineExit on x86-64: rax holds the value that is about to be returned.
  bool returns_core_value;
  // kLaterExit: bytes from here to the shared exit of the first one, negative.
  int32_t shared_exit;
};

struct EmittedTracePoint {
  std::vector<uint8_t> bytes;
  // kTailExit: where in `bytes` later exits may branch to, or -1.
  int32_t shared_exit;
};

// The position-independent code of a trace point for `isa`, from the emitters in codegen-*. Aborts if
// the request cannot be encoded: wrong code must not leave the compiler.
EmittedTracePoint EmitTracePoint(InstructionSet isa, const TracePointRequest& request);

}  // namespace hindsight
}  // namespace art

#endif  // HINDSIGHT_COMPILER_TRACE_POINT_EMITTER_H_
