// SPDX-License-Identifier: Apache-2.0
//
// In libart, though only the compiler calls it: one library holds all of Hindsight's Rust code.

#include "hindsight/compiler/trace_point_emitter.h"

#include "android-base/logging.h"

#include "hindsight-art-hooks/src/bridge.rs.h"

namespace art {
namespace hindsight {

std::vector<uint8_t> EmitTracePoint(InstructionSet isa, const TracePointRequest& request) {
  CHECK_EQ(isa, InstructionSet::kX86_64) << "no trace points for this instruction set";
  const bridge::TracePointSpec spec = {
      request.is_entry,
      static_cast<uint8_t>(request.method_register),
      request.cursor_offset,
      request.returns_core_value,
  };
  rust::Vec<uint8_t> code;
  const rust::String error = bridge::emit_x86_64(spec, code);
  CHECK(error.empty()) << "hindsight: " << std::string(error);
  return std::vector<uint8_t>(code.begin(), code.end());
}

}  // namespace hindsight
}  // namespace art
