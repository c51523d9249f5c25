// SPDX-License-Identifier: Apache-2.0
//
// Where compiled code finds ThreadWords. Apart from thread_words.h because thread.h includes that.

#ifndef HINDSIGHT_RUNTIME_THREAD_OFFSETS_H_
#define HINDSIGHT_RUNTIME_THREAD_OFFSETS_H_

#include "thread.h"

namespace art {
namespace hindsight {

template <PointerSize pointer_size>
constexpr ThreadOffset<pointer_size> CursorOffset() {
  return Thread::HindsightOffset<pointer_size>();
}

// One of the words of a pointer's size in ThreadWords.
template <PointerSize pointer_size>
constexpr ThreadOffset<pointer_size> WordOffset(size_t index) {
  return ThreadOffset<pointer_size>(Thread::HindsightOffset<pointer_size>().SizeValue() +
                                    index * static_cast<size_t>(pointer_size));
}

// The address of what exits call, 0 while the thread is not traced.
template <PointerSize pointer_size>
constexpr ThreadOffset<pointer_size> ExitStubOffset() {
  return WordOffset<pointer_size>(3u);
}

// The same for entries of methods that have no suspend check.
template <PointerSize pointer_size>
constexpr ThreadOffset<pointer_size> LeafStubOffset() {
  return WordOffset<pointer_size>(4u);
}

// The 32-bit word that says whether there is anything to do; its first byte says whether the thread is
// traced.
template <PointerSize pointer_size>
constexpr ThreadOffset<pointer_size> PollOffset() {
  return WordOffset<pointer_size>(2u);
}

// The byte of the poll word that says that the thread's flags may ask it to suspend.
template <PointerSize pointer_size>
constexpr ThreadOffset<pointer_size> SuspendOffset() {
  return ThreadOffset<pointer_size>(PollOffset<pointer_size>().SizeValue() + 1u);
}

}  // namespace hindsight
}  // namespace art

#endif  // HINDSIGHT_RUNTIME_THREAD_OFFSETS_H_
