// SPDX-License-Identifier: Apache-2.0

#include "branch_trace.h"

#include <stddef.h>
#include <stdint.h>

#include <atomic>
#include <limits>

#include "base/time_utils.h"
#include "hindsight/runtime/events.h"
#include "no_listener.h"
#include "rule_table.h"
#include "runtime.h"
#include "thread-current-inl.h"

namespace art {
namespace hindsight {

namespace {

// The least time between two events of a branch. Its first event is recorded at once.
constexpr uint64_t kInterval = MsToNs(10);
// The branches that a thread tells apart. Of further ones it only counts how many there were: what a thread records in an
// interval is bounded.
constexpr size_t kBranches = 32u;
constexpr uint32_t kNoDexPc = 0xffffffffu;

// How often a thread took a branch since it recorded that last.
struct BranchCount {
  ArtMethod* method;
  uint32_t name;
  uint32_t from;
  uint32_t to;
  uint32_t times;
};

// Increased when branches that threads have counted, but not recorded, must be forgotten.
std::atomic<uint32_t> generation(1u);

// The branches of the calling thread. All zeros at its start: of no generation.
struct BranchCounts {
  uint32_t generation;
  // The elements of `branches` in use.
  uint32_t used;
  // Branches that were not told apart; of the rule and method of the last one.
  BranchCount others;
  // When counts were recorded last, ns.
  uint64_t recorded_at;
  BranchCount branches[kBranches];
};

thread_local BranchCounts counts;

void RecordCount(Thread* self, BranchCount* count) {
  if (count->times != 0u) {
    Record(self,
           kBranchTaken,
           PackBranchTaken(count->name,
                           count->times,
                           count->from,
                           count->to,
                           reinterpret_cast<uintptr_t>(count->method)));
    count->times = 0u;
  }
}

void RecordAll(Thread* self, BranchCounts* all) {
  for (uint32_t i = 0u; i != all->used; ++i) {
    RecordCount(self, &all->branches[i]);
  }
  RecordCount(self, &all->others);
}

void RecordIfDue(Thread* self, BranchCounts* all) {
  const uint64_t now = NanoTime();
  if (now - all->recorded_at < kInterval) {
    return;
  }
  all->recorded_at = now;
  RecordAll(self, all);
  if (all->used == kBranches) {
    // Others have their turn.
    all->used = 0u;
  }
}

BranchCounts* CountsOfThisThread() {
  const uint32_t now = generation.load(std::memory_order_acquire);
  if (counts.generation != now) {
    counts.generation = now;
    counts.used = 0u;
    counts.others.times = 0u;
    counts.recorded_at = NanoTime();
  }
  return &counts;
}

void Count(Thread* self, const RuleMethod& rule, uint32_t from, uint32_t to) {
  BranchCounts* all = CountsOfThisThread();
  BranchCount* found = nullptr;
  for (uint32_t i = 0u; i != all->used && found == nullptr; ++i) {
    BranchCount* count = &all->branches[i];
    if (count->from == from && count->to == to && count->method == rule.method) {
      found = count;
    }
  }
  if (found != nullptr) {
    ++found->times;
  } else if (all->used != kBranches) {
    found = &all->branches[all->used++];
    *found = {rule.method, rule.name, from, to, 1u};
    RecordCount(self, found);
  } else {
    found = &all->others;
    *found = {rule.method, rule.name, kNoDexPc, kNoDexPc, found->times + 1u};
  }
  if (found->times == std::numeric_limits<uint32_t>::max()) {
    RecordCount(self, found);
  }
  RecordIfDue(self, all);
}

class BranchTrace final : public NoListener {
 public:
  static constexpr uint32_t kEvents = instrumentation::Instrumentation::kBranch;

  void Branch(Thread* self, ArtMethod* method, uint32_t dex_pc, int32_t offset) override
      REQUIRES_SHARED(Locks::mutator_lock_) {
    const RuleTable* table = Records(self, kCategoryRules) ? PublishedRules() : nullptr;
    const RuleMethod* rule = table != nullptr ? table->Find(method) : nullptr;
    if (rule != nullptr && rule->branches) {
      Count(self, *rule, dex_pc, dex_pc + static_cast<uint32_t>(offset));
    }
  }
};

BranchTrace* GetBranchTrace() {
  static BranchTrace trace;
  return &trace;
}

}  // namespace

void StartBranchTrace() {
  ForgetBranches();
  Runtime::Current()->GetInstrumentation()->AddListener(GetBranchTrace(), BranchTrace::kEvents);
}

void StopBranchTrace() {
  Runtime::Current()->GetInstrumentation()->RemoveListener(GetBranchTrace(), BranchTrace::kEvents);
  ForgetBranches();
}

void ForgetBranches() { generation.fetch_add(1u, std::memory_order_release); }

void RecordBranches(Thread* self) {
  if (counts.used != 0u) {
    BranchCounts* all = CountsOfThisThread();
    RecordAll(self, all);
    all->used = 0u;
  }
}

}  // namespace hindsight
}  // namespace art
