// SPDX-License-Identifier: Apache-2.0

#include "walk_check.h"

#if defined(HINDSIGHT_LAB)

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <algorithm>
#include <atomic>

namespace art {
namespace hindsight {

namespace {

std::atomic<uint64_t> known_walks(0u);
std::atomic<uint64_t> art_walks(0u);
std::atomic<uint64_t> different(0u);

}  // namespace

bool ChecksWalks() {
  static const bool checks = getenv("HINDSIGHT_CHECK_STACKS") != nullptr;
  return checks;
}

bool WalksWithArtOnly() {
  static const bool with_art = []() {
    const char* value = getenv("HINDSIGHT_CHECK_STACKS");
    return value != nullptr && strcmp(value, "art") == 0;
  }();
  return with_art;
}

void CountWalk(bool with_art) {
  (with_art ? art_walks : known_walks).fetch_add(1u, std::memory_order_relaxed);
}

void CompareWalks(const FrameList& known, const FrameList& arts) {
  const auto same = [](const HindsightFrame& a, const HindsightFrame& b) {
    return a.method == b.method && a.dex_pc == b.dex_pc;
  };
  if (known.count != arts.count || known.is_cut != arts.is_cut ||
      !std::equal(known.frames, known.frames + known.count, arts.frames, same)) {
    different.fetch_add(1u, std::memory_order_relaxed);
  }
}

void ReportWalks() {
  if (ChecksWalks()) {
    fprintf(stderr,
            "hindsight: stacks: %llu walks over known frames, %llu with ART, %llu different\n",
            static_cast<unsigned long long>(known_walks.load()),
            static_cast<unsigned long long>(art_walks.load()),
            static_cast<unsigned long long>(different.load()));
  }
}

}  // namespace hindsight
}  // namespace art

#endif  // HINDSIGHT_LAB
