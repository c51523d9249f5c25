// SPDX-License-Identifier: Apache-2.0

#ifndef HINDSIGHT_COMPILER_TRACE_POINT_EMITTER_H_
#define HINDSIGHT_COMPILER_TRACE_POINT_EMITTER_H_

#include <stdint.h>

#include <vector>

#include "arch/instruction_set.h"

namespace art {
namespace hindsight {

// Where in a method a trace point stands, and whether it records in place or calls a stub. docs/trace-points.md has
// the code of each.
enum class TraceSite : uint8_t {
  kInlineEntry,
  kInlineExit,
  // Calls art_quick_trace_entry_leaf.
  kLeafEntry,
  // In place of a return: jumps to art_quick_trace_exit.
  kTailExit,
  // In place of a later return of the same method: branches to the jump of its kTailExit. Not on arm.
  kLaterExit,
  // Before the epilogue of a method that has saved its return address: calls art_quick_trace_exit. In methods of the
  // compiler on arm only.
  kFramedExit,
};

// A trace point in a method. Registers have the instruction set's numbers, offsets are in bytes from the thread
// register.
struct TracePointRequest {
  TraceSite site;
  // kInlineEntry: the method's register.
  uint32_t method_register;
  int32_t cursor_offset;
  int32_t stub_offset;
  // kInlineExit on x86-64: rax holds the value that is about to be returned.
  bool returns_core_value;
  // kLaterExit: distance in bytes from this trace point to the shared exit of the kTailExit, negative.
  int32_t shared_exit;
};

struct EmittedTracePoint {
  std::vector<uint8_t> bytes;
  // kTailExit: offset in `bytes` to which later exits may branch. Otherwise -1.
  int32_t shared_exit;
};

// The position-independent code of a trace point for `isa`, from the encoders in codegen-*. Aborts if the request has
// no encoding: the compiler must not emit wrong code.
EmittedTracePoint EmitTracePoint(InstructionSet isa, const TracePointRequest& request);

}  // namespace hindsight
}  // namespace art

#endif  // HINDSIGHT_COMPILER_TRACE_POINT_EMITTER_H_
