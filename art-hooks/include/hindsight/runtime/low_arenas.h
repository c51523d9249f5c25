// SPDX-License-Identifier: Apache-2.0
//
// Memory for methods. The overlay takes it from below 4 GiB, because a trace point records 32 bits of an ArtMethod*. That
// range has other users: the Java heap, large objects, images. When it is full, arenas are mapped above, in windows:
//
//   0        heap                4 GiB      window              8 GiB
//   |--------[++++====]----------|----------[++++]--------------|---- ...
//
// A window is a range whose addresses have the low halves of addresses in the first part of the heap (+). No method below
// 4 GiB lies there, so the low half of an address in a window stands for no other method, as long as one window is enough.
// When it is full as well, the next one is used, and the low halves are ambiguous from then on: methods in windows then
// have no names in traces. Nothing else changes: events are recorded, and the process goes on.

#ifndef HINDSIGHT_RUNTIME_LOW_ARENAS_H_
#define HINDSIGHT_RUNTIME_LOW_ARENAS_H_

#include <stddef.h>
#include <stdint.h>

#include <string>

#include "base/mem_map.h"

namespace art {
namespace hindsight {

// Maps memory for an arena of ART's: `size` bytes, readable and writable, at a multiple of `alignment`. With `low_4gb` below
// 4 GiB, or, once that has failed in a process that is not a compiler, in a window. Thread-safe.
MemMap MapArena(
    const char* name, size_t size, bool low_4gb, size_t alignment, std::string* error_msg);

}  // namespace hindsight
}  // namespace art

#endif  // HINDSIGHT_RUNTIME_LOW_ARENAS_H_
