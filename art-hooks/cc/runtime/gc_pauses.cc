// SPDX-License-Identifier: Apache-2.0

#include "gc_pauses.h"

#include <array>

#include "gc/gc_pause_listener.h"
#include "gc/heap.h"
#include "hindsight/runtime/events.h"
#include "runtime.h"
#include "thread-current-inl.h"

namespace art {
namespace hindsight {

namespace {

// Called by the thread that runs the collection, which is not Runnable.
class GcPauses final : public gc::GcPauseListener {
 public:
  void StartPause() override { RecordPause(kGcPauseBegin); }
  void EndPause() override { RecordPause(kGcPauseEnd); }

 private:
  static void RecordPause(uint32_t event) {
    Thread* self = Thread::Current();
    if (self != nullptr && Records(self, kCategoryRuntime)) {
      RecordInAnyState(self, event, std::array<uint64_t, 0>());
    }
  }
};

}  // namespace

void RecordGcPauses() {
  static GcPauses pauses;
  gc::Heap* heap = Runtime::Current()->GetHeap();
  if (heap->GetGcPauseListener() == nullptr) {
    heap->SetGcPauseListener(&pauses);
  }
}

}  // namespace hindsight
}  // namespace art
