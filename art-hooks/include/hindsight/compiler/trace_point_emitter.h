// SPDX-License-Identifier: Apache-2.0

#ifndef HINDSIGHT_COMPILER_TRACE_POINT_EMITTER_H_
#define HINDSIGHT_COMPILER_TRACE_POINT_EMITTER_H_

#include <stdint.h>

#include <vector>

#include "arch/instruction_set.h"

namespace art {
namespace hindsight {

// What a trace point in one method looks like. Registers are numbered as in the instruction set.
struct TracePointRequest {
  // Entry (with the method's register) or exit.
  bool is_entry;
  uint32_t method_register;
  // Byte offset of the cursor from the thread register.
  int32_t cursor_offset;
  // Exit only: the core return register holds the value that is about to be returned.
  bool returns_core_value;
};

// The position-independent code of a trace point for `isa`, from the emitters in codegen-*. Aborts if
// the request cannot be encoded: wrong code must not leave the compiler.
std::vector<uint8_t> EmitTracePoint(InstructionSet isa, const TracePointRequest& request);

}  // namespace hindsight
}  // namespace art

#endif  // HINDSIGHT_COMPILER_TRACE_POINT_EMITTER_H_
