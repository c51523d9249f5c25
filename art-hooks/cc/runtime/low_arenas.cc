// SPDX-License-Identifier: Apache-2.0

#include "hindsight/runtime/low_arenas.h"

#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <mutex>

#include "android-base/logging.h"
#include "base/bit_utils.h"
#include "base/globals.h"
#include "base/utils.h"
#include "gc/heap.h"
#include "gc/space/bump_pointer_space.h"
#include "gc/space/malloc_space.h"
#include "gc/space/region_space.h"
#include "hindsight/compat.h"
#include "hindsight/runtime/method_word.h"
#include "runtime.h"

namespace art {
namespace hindsight {

namespace {

constexpr uint64_t kWindowDistance = UINT64_C(1) << 32;

// The most that a window holds. A space of the heap may give up its upper part, but keeps at least as much as this:
// Heap::ClampGrowthLimit().
constexpr size_t kMaxWindowSize = 64 * MB;

// The windows that are tried, which is also below 512 GiB, the smallest range of addresses on arm64.
constexpr uint64_t kMaxWindows = 64u;

// Where windows are. Written before the first arena in one is handed out; empty until then.
std::atomic<uint32_t> range_begin(0u);
std::atomic<uint32_t> range_end(0u);

std::atomic<uint64_t> high_bytes(0u);

// Whether there are arenas in more than one window.
std::atomic<bool> is_ambiguous(false);

bool IsInRange(uint64_t address) {
  const uint32_t low = static_cast<uint32_t>(address);
  return low >= range_begin.load(std::memory_order_acquire) &&
         low < range_end.load(std::memory_order_acquire);
}

// A space in which objects lie from the process's start to its end, and never methods.
const gc::space::ContinuousSpace* SpaceOfObjects(const gc::Heap* heap) {
  if (heap->GetRegionSpace() != nullptr) {
    return heap->GetRegionSpace();
  }
#if HINDSIGHT_ART >= 14
  if (heap->GetBumpPointerSpace() != nullptr) {
    return heap->GetBumpPointerSpace();
  }
#endif
  return heap->GetNonMovingSpace();
}

class Windows {
 public:
  MemMap Map(const char* name, size_t size, size_t alignment, std::string* error_msg) {
    // A std::mutex, as in ART's pools of arenas: any lock may be held here.
    std::lock_guard<std::mutex> lock(lock_);
    if (begin_ == 0u && !Find(error_msg)) {
      return MemMap::Invalid();
    }
    while (window_ <= kMaxWindows) {
      const uint64_t start = RoundUp(window_ * kWindowDistance + begin_ + used_, alignment);
      const uint64_t used = start + size - window_ * kWindowDistance - begin_;
      if (used <= size_) {
        MemMap map = MemMap::MapAnonymous(name,
                                          reinterpret_cast<uint8_t*>(static_cast<uintptr_t>(start)),
                                          size,
                                          PROT_READ | PROT_WRITE,
                                          /*low_4gb=*/ false,
                                          /*reuse=*/ false,
                                          /*reservation=*/ nullptr,
                                          error_msg);
        if (map.IsValid()) {
          used_ = used;
          NoteArena(size);
          return map;
        }
      } else if (used_ == 0u) {
        *error_msg = "The arena is larger than a window above 4 GiB.";
        return MemMap::Invalid();
      }
      // Full, or not free.
      ++window_;
      used_ = 0u;
    }
    return MemMap::Invalid();
  }

 private:
  // Finds the range.
  bool Find(std::string* error_msg) {
    const gc::Heap* heap = Runtime::Current()->GetHeap();
    if (heap == nullptr) {
      *error_msg = "There is no room below 4 GiB, and no heap yet.";
      return false;
    }
    const gc::space::ContinuousSpace* space = SpaceOfObjects(heap);
    begin_ = reinterpret_cast<uintptr_t>(space->Begin());
    size_ = RoundDown(std::min<uint64_t>((space->Limit() - space->Begin()) / 2u, kMaxWindowSize), kPageSize);
    range_begin.store(static_cast<uint32_t>(begin_), std::memory_order_release);
    range_end.store(static_cast<uint32_t>(begin_ + size_), std::memory_order_release);
    LOG(WARNING) << "hindsight: no room is left below 4 GiB; methods are placed above it from now on";
    return true;
  }

  // An arena in the current window will be handed out.
  void NoteArena(size_t size) {
    if (last_used_ != 0u && last_used_ != window_ && !is_ambiguous.exchange(true)) {
      LOG(WARNING) << "hindsight: methods above 4 GiB need more than " << PrettySize(size_)
                   << "; they are recorded without names";
    }
    last_used_ = window_;
    high_bytes.fetch_add(size, std::memory_order_relaxed);
  }

  std::mutex lock_;
  // The addresses of the windows, less a multiple of 4 GiB. 0 until they are known.
  uint64_t begin_ = 0u;
  uint64_t size_ = 0u;
  // The window from which arenas are taken, its bytes that are taken or were skipped, and the last one with an arena, or 0.
  uint64_t window_ = 1u;
  uint64_t used_ = 0u;
  uint64_t last_used_ = 0u;
};

// Never destroyed: threads may run until the process ends.
Windows* TheWindows() {
  static Windows* const windows = new Windows();
  return windows;
}

MemMap MapAnywhere(
    const char* name, size_t size, bool low_4gb, size_t alignment, std::string* error_msg) {
#if HINDSIGHT_ART >= 14
  if (alignment > kPageSize) {
    return MemMap::MapAnonymousAligned(
        name, size, PROT_READ | PROT_WRITE, low_4gb, alignment, error_msg);
  }
#endif
  DCHECK_EQ(alignment, kPageSize);
  return MemMap::MapAnonymous(name, size, PROT_READ | PROT_WRITE, low_4gb, error_msg);
}

}  // namespace

MemMap MapArena(
    const char* name, size_t size, bool low_4gb, size_t alignment, std::string* error_msg) {
  // Looking for room in a full range is slow on arm64, so it is not tried again.
  static std::atomic<bool> is_full(false);
  if (!low_4gb || Runtime::Current()->IsAotCompiler()) {
    return MapAnywhere(name, size, low_4gb, alignment, error_msg);
  }
  if (!is_full.load(std::memory_order_relaxed)) {
    MemMap map = MapAnywhere(name, size, low_4gb, alignment, error_msg);
    if (map.IsValid()) {
      return map;
    }
    is_full.store(true, std::memory_order_relaxed);
  }
  return TheWindows()->Map(name, size, alignment, error_msg);
}

uint64_t BytesOfHighArenas() { return high_bytes.load(std::memory_order_relaxed); }

uint64_t WordOfHighMethod(uint64_t address) {
  return IsInRange(address) ? static_cast<uint32_t>(address) : address;
}

bool IsAmbiguousMethodWord(uint64_t word) {
  return is_ambiguous.load(std::memory_order_acquire) && IsInRange(word);
}

}  // namespace hindsight
}  // namespace art
