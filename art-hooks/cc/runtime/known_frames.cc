// SPDX-License-Identifier: Apache-2.0
//
// A table that all threads share. Its memory is fixed, and is touched as it is used.

#include "known_frames.h"

#include <algorithm>
#include <atomic>

#include "hindsight/compat.h"
#include "jit/jit.h"
#include "jit/jit_code_cache.h"
#include "runtime.h"

namespace art {
namespace hindsight {

namespace {

// The frame's own method, and six that are inlined in it: more are rare.
constexpr size_t kMostFrames = 7u;
constexpr size_t kEntries = 2048u;

// Class loaders unloaded so far.
std::atomic<uint32_t> unloads(0u);

// Counters of the JIT's that it has no functions for. An explicit instantiation may name a private member.
template <typename Counter, size_t jit::JitCodeCache::*kMember>
struct CounterOfJit {
  friend size_t Read(Counter, const jit::JitCodeCache& cache) {
    // The JIT changes it under its lock, before anybody can run the new code.
    return __atomic_load_n(&(cache.*kMember), __ATOMIC_RELAXED);
  }
};

#if HINDSIGHT_ART >= 14
struct Baseline {
  friend size_t Read(Baseline, const jit::JitCodeCache& cache);
};
struct Optimized {
  friend size_t Read(Optimized, const jit::JitCodeCache& cache);
};
struct Osr {
  friend size_t Read(Osr, const jit::JitCodeCache& cache);
};
template struct CounterOfJit<Baseline, &jit::JitCodeCache::number_of_baseline_compilations_>;
template struct CounterOfJit<Optimized, &jit::JitCodeCache::number_of_optimized_compilations_>;
template struct CounterOfJit<Osr, &jit::JitCodeCache::number_of_osr_compilations_>;

size_t Compilations(const jit::JitCodeCache& cache) {
  return Read(Baseline(), cache) + Read(Optimized(), cache) + Read(Osr(), cache);
}
#else
struct All {
  friend size_t Read(All, const jit::JitCodeCache& cache);
};
template struct CounterOfJit<All, &jit::JitCodeCache::number_of_compilations_>;

size_t Compilations(const jit::JitCodeCache& cache) { return Read(All(), cache); }
#endif

// An entry is written as a sequence lock is: the sequence is odd meanwhile. All zeros: free.
struct Entry {
  std::atomic<uint64_t> sequence;
  std::atomic<uint64_t> method;
  std::atomic<uint64_t> pc;
  std::atomic<uint64_t> version;
  // The frame's size in the upper half, the number of managed frames in the lower one.
  std::atomic<uint64_t> shape;
  std::atomic<uint64_t> methods[kMostFrames];
  std::atomic<uint32_t> dex_pcs[kMostFrames + 1u];
};
static_assert(sizeof(Entry) == 128u, "two cache lines");

Entry entries[kEntries];

// An entry is in one of two places.
size_t PlaceOf(const FrameKey& key) {
  const uint64_t mixed =
      (static_cast<uint64_t>(key.pc) ^ (static_cast<uint64_t>(key.method) << 20)) * 0x9e3779b97f4a7c15u;
  return static_cast<size_t>(mixed >> 32) % kEntries;
}

Entry& EntryAt(size_t place, size_t which) { return entries[place ^ which]; }

bool Has(const Entry& entry, const FrameKey& key) {
  return entry.method.load(std::memory_order_relaxed) == key.method &&
         entry.pc.load(std::memory_order_relaxed) == key.pc &&
         entry.version.load(std::memory_order_relaxed) == key.version;
}

bool AddFrom(const Entry& entry, const FrameKey& key, FrameList* list, size_t* size) {
  const uint64_t sequence = entry.sequence.load(std::memory_order_acquire);
  if (sequence % 2u != 0u || !Has(entry, key)) {
    return false;
  }
  const uint64_t shape = entry.shape.load(std::memory_order_relaxed);
  const size_t count = std::min<size_t>(static_cast<uint32_t>(shape), kMostFrames);
  for (size_t i = 0; i < count; ++i) {
    if (!list->Add(entry.methods[i].load(std::memory_order_relaxed),
                   entry.dex_pcs[i].load(std::memory_order_relaxed))) {
      break;
    }
  }
  *size = shape >> 32;
  std::atomic_thread_fence(std::memory_order_acquire);
  return entry.sequence.load(std::memory_order_relaxed) == sequence;
}

}  // namespace

CodeVersions CurrentCode() {
  // Whoever runs new code sees the counter that was changed before.
  std::atomic_thread_fence(std::memory_order_acquire);
  const uint64_t ahead = static_cast<uint64_t>(unloads.load(std::memory_order_relaxed)) << 33;
  jit::Jit* jit = Runtime::Current()->GetJit();
  const size_t compilations = jit != nullptr ? Compilations(*jit->GetCodeCache()) : 0u;
  return {ahead, ahead | static_cast<uint64_t>(static_cast<uint32_t>(compilations)) << 1 | 1u};
}

void ForgetKnownFrames() { unloads.fetch_add(1u, std::memory_order_relaxed); }

bool AddKnownFrames(const FrameKey& key, FrameList* list, size_t* size) {
  const size_t place = PlaceOf(key);
  const uint32_t count = list->count;
  if (AddFrom(EntryAt(place, 0u), key, list, size)) {
    return true;
  }
  list->count = count;
  list->is_cut = false;
  return AddFrom(EntryAt(place, 1u), key, list, size);
}

void RememberFrames(const FrameKey& key, const HindsightFrame* frames, size_t count, size_t size) {
  if (count > kMostFrames) {
    return;
  }
  const size_t place = PlaceOf(key);
  if (Has(EntryAt(place, 0u), key) || Has(EntryAt(place, 1u), key)) {
    return;
  }
  // An entry whose code is gone, else the one that the program counter chooses.
  const bool is_old = EntryAt(place, 0u).version.load(std::memory_order_relaxed) != key.version;
  Entry& entry = EntryAt(place, is_old ? 0u : (key.pc >> 4) % 2u);
  uint64_t sequence = entry.sequence.load(std::memory_order_relaxed);
  if (sequence % 2u != 0u ||
      !entry.sequence.compare_exchange_strong(sequence, sequence + 1u, std::memory_order_acquire)) {
    return;
  }
  std::atomic_thread_fence(std::memory_order_release);
  entry.method.store(key.method, std::memory_order_relaxed);
  entry.pc.store(key.pc, std::memory_order_relaxed);
  entry.version.store(key.version, std::memory_order_relaxed);
  entry.shape.store(static_cast<uint64_t>(size) << 32 | count, std::memory_order_relaxed);
  for (size_t i = 0; i < count; ++i) {
    entry.methods[i].store(frames[i].method, std::memory_order_relaxed);
    entry.dex_pcs[i].store(frames[i].dex_pc, std::memory_order_relaxed);
  }
  entry.sequence.store(sequence + 2u, std::memory_order_release);
}

}  // namespace hindsight
}  // namespace art
