// SPDX-License-Identifier: Apache-2.0

#ifndef HINDSIGHT_ART_HOOKS_RUNTIME_BRIDGE_BYTES_H_
#define HINDSIGHT_ART_HOOKS_RUNTIME_BRIDGE_BYTES_H_

#include <stdint.h>
#include <string.h>

#include <string>

#include "hindsight-art-hooks/src/bridge.rs.h"

namespace art {
namespace hindsight {

// A string for the bridge. Names in ART are modified UTF-8, and a rust::Str of bytes that are not UTF-8 ends the process.
// The slice is valid as long as the string.
inline rust::Slice<const uint8_t> ToBridge(const char* text, size_t size) {
  return rust::Slice<const uint8_t>(reinterpret_cast<const uint8_t*>(text), size);
}

inline rust::Slice<const uint8_t> ToBridge(const char* text) {
  return ToBridge(text, strlen(text));
}

inline rust::Slice<const uint8_t> ToBridge(const std::string& text) {
  return ToBridge(text.data(), text.size());
}

}  // namespace hindsight
}  // namespace art

#endif  // HINDSIGHT_ART_HOOKS_RUNTIME_BRIDGE_BYTES_H_
