// SPDX-License-Identifier: Apache-2.0
//
// The offsets of ThreadWords in Thread, for compiled code. Not in thread_words.h, because thread.h includes that.

#ifndef HINDSIGHT_RUNTIME_THREAD_OFFSETS_H_
#define HINDSIGHT_RUNTIME_THREAD_OFFSETS_H_

#include "thread.h"

namespace art {
namespace hindsight {

template <PointerSize pointer_size>
constexpr ThreadOffset<pointer_size> CursorOffset() {
  return Thread::HindsightOffset<pointer_size>();
}

// The offset of the word number `index` of ThreadWords, counted from 0.
template <PointerSize pointer_size>
constexpr ThreadOffset<pointer_size> WordOffset(size_t index) {
  return ThreadOffset<pointer_size>(Thread::HindsightOffset<pointer_size>().SizeValue() +
                                    index * static_cast<size_t>(pointer_size));
}

// The stub for method exits, 0 while the thread is not traced.
template <PointerSize pointer_size>
constexpr ThreadOffset<pointer_size> ExitStubOffset() {
  return WordOffset<pointer_size>(3u);
}

// The stub for entries of methods without a suspend check, 0 while the thread is not traced.
template <PointerSize pointer_size>
constexpr ThreadOffset<pointer_size> LeafStubOffset() {
  return WordOffset<pointer_size>(4u);
}

// The 32-bit word that is 0 if an entry has nothing to do. Its byte 0 says whether the thread is traced.
template <PointerSize pointer_size>
constexpr ThreadOffset<pointer_size> PollOffset() {
  return WordOffset<pointer_size>(2u);
}

// Byte 1 of the poll word: the thread's flags may ask it to suspend.
template <PointerSize pointer_size>
constexpr ThreadOffset<pointer_size> SuspendOffset() {
  return ThreadOffset<pointer_size>(PollOffset<pointer_size>().SizeValue() + 1u);
}

}  // namespace hindsight
}  // namespace art

#endif  // HINDSIGHT_RUNTIME_THREAD_OFFSETS_H_
