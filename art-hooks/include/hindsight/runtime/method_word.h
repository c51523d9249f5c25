// SPDX-License-Identifier: Apache-2.0

#ifndef HINDSIGHT_RUNTIME_METHOD_WORD_H_
#define HINDSIGHT_RUNTIME_METHOD_WORD_H_

#include <stdint.h>

namespace art {
namespace hindsight {

// As MethodWord(), for an address of 4 GiB or more: the low half, if the method is in one of MapArena()'s windows.
uint64_t WordOfHighMethod(uint64_t address);

// The number of the ArtMethod at this address in traces. Compiled code records the low half of its address, so all other
// events have that, too. It is the whole address unless the range below 4 GiB is full: see low_arenas.h.
inline uint64_t MethodWord(const void* method) {
  const uint64_t address = reinterpret_cast<uintptr_t>(method);
  return address <= UINT32_MAX ? address : WordOfHighMethod(address);
}

// Whether methods at several addresses may have this number. Then nobody knows which of them an event is about.
bool IsAmbiguousMethodWord(uint64_t word);

// Bytes of memory for methods above 4 GiB: 0 unless the range below is full.
uint64_t BytesOfHighArenas();

}  // namespace hindsight
}  // namespace art

#endif  // HINDSIGHT_RUNTIME_METHOD_WORD_H_
