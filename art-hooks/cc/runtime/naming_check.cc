// SPDX-License-Identifier: Apache-2.0

#include "naming_check.h"

#if defined(HINDSIGHT_LAB)

#include <stdio.h>
#include <stdlib.h>

#include <algorithm>
#include <iterator>

#include "base/time_utils.h"

namespace art {
namespace hindsight {

namespace {

struct Counts {
  const char* name;
  uint64_t slices;
  uint64_t most_items;
  uint64_t longest_ns;
};

// Written by the control thread, and read after its end.
Counts counts[] = {{"list", 0u, 0u, 0u}, {"find", 0u, 0u, 0u}, {"name", 0u, 0u, 0u}};

}  // namespace

NamingWatch::NamingWatch() : start_(ThreadCpuNanoTime()) {}

uint64_t NamingWatch::ElapsedNs() const { return ThreadCpuNanoTime() - start_; }

void CountNaming(NamingStep step, size_t items, const NamingWatch& watch) {
  Counts& of_step = counts[static_cast<size_t>(step)];
  ++of_step.slices;
  of_step.most_items = std::max<uint64_t>(of_step.most_items, items);
  of_step.longest_ns = std::max(of_step.longest_ns, watch.ElapsedNs());
}

void ReportNaming() {
  if (getenv("HINDSIGHT_CHECK_NAMES") == nullptr) {
    return;
  }
  for (const Counts& of_step : counts) {
    fprintf(stderr,
            "hindsight: names: %s: %llu slices, at most %llu items, at most %llu us of CPU time\n",
            of_step.name,
            static_cast<unsigned long long>(of_step.slices),
            static_cast<unsigned long long>(of_step.most_items),
            static_cast<unsigned long long>(of_step.longest_ns / 1000u));
  }
}

}  // namespace hindsight
}  // namespace art

#endif  // HINDSIGHT_LAB
