// SPDX-License-Identifier: Apache-2.0

#include "hindsight/runtime/oat_key.h"

#include "android-base/stringprintf.h"
#include "oat.h"
#include "thread.h"

namespace art {
namespace hindsight {

using android::base::StringPrintf;

std::string TracePointsId(InstructionSet isa) {
  // Keep in step with HasTracePoints() in the compiler.
  if (isa != InstructionSet::kX86_64) {
    return "none";
  }
  return StringPrintf("guard-1/cursor@%d",
                      Thread::HindsightCursorOffset<PointerSize::k64>().Int32Value());
}

bool HasMatchingTracePoints(const OatHeader& header,
                            const std::string& location,
                            std::string* error_msg) {
  if (header.GetKeyValueStoreSize() == 0u) {
    // Of a boot image in several files, only the first, which is checked, has keys.
    return true;
  }
  const std::string expected = TracePointsId(header.GetInstructionSet());
  const char* found = header.GetStoreValueByKey(kOatHeaderKey);
  if (found != nullptr && expected == found) {
    return true;
  }
  *error_msg = StringPrintf("Oat file '%s' has other trace points than this runtime: '%s' instead of "
                                "'%s'. Compile it again with this build's dex2oat.",
                            location.c_str(),
                            found != nullptr ? found : "(not compiled by Hindsight)",
                            expected.c_str());
  return false;
}

}  // namespace hindsight
}  // namespace art
