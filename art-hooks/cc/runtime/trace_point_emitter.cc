// SPDX-License-Identifier: Apache-2.0
//
// Only the compiler calls this. It is in libart because all of Hindsight's Rust code is there.

#include "hindsight/compiler/trace_point_emitter.h"

#include "android-base/logging.h"

#include "hindsight-art-hooks/src/bridge.rs.h"

namespace art {
namespace hindsight {

namespace {

bridge::Isa ToBridge(InstructionSet isa) {
  switch (isa) {
    case InstructionSet::kX86_64:
      return bridge::Isa::X86_64;
    case InstructionSet::kArm64:
      return bridge::Isa::Aarch64;
    case InstructionSet::kArm:
    case InstructionSet::kThumb2:
      return bridge::Isa::Thumb2;
    default:
      LOG(FATAL) << "no trace points for " << isa;
      UNREACHABLE();
  }
}

bridge::Site ToBridge(TraceSite site) {
  switch (site) {
    case TraceSite::kInlineEntry:
      return bridge::Site::InlineEntry;
    case TraceSite::kInlineExit:
      return bridge::Site::InlineExit;
    case TraceSite::kLeafEntry:
      return bridge::Site::LeafEntry;
    case TraceSite::kTailExit:
      return bridge::Site::TailExit;
    case TraceSite::kLaterExit:
      return bridge::Site::LaterExit;
    case TraceSite::kFramedExit:
      return bridge::Site::FramedExit;
  }
}

}  // namespace

EmittedTracePoint EmitTracePoint(InstructionSet isa, const TracePointRequest& request) {
  const bridge::TracePointSpec spec = {
      ToBridge(isa),
      ToBridge(request.site),
      static_cast<uint8_t>(request.method_register),
      request.cursor_offset,
      request.stub_offset,
      request.returns_core_value,
      request.shared_exit,
  };
  const bridge::EmittedCode emitted = bridge::emit_trace_point(spec);
  CHECK(emitted.error.empty()) << "hindsight: " << std::string(emitted.error);
  return {std::vector<uint8_t>(emitted.bytes.begin(), emitted.bytes.end()), emitted.shared_exit};
}

}  // namespace hindsight
}  // namespace art
