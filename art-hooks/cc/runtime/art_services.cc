// SPDX-License-Identifier: Apache-2.0

#include "hindsight/runtime/art_services.h"

#include "android-base/file.h"
#include "android-base/logging.h"
#include "base/mutex.h"
#include "gc/heap.h"
#include "gc/space/image_space.h"
#include "hindsight/compat.h"
#include "hindsight/runtime/lab_build.h"
#include "hindsight/runtime/oat_key.h"
#include "hindsight/runtime/thread_offsets.h"
#include "hindsight/runtime/trace_point_form.h"
#include "runtime.h"
#include "scoped_thread_state_change-inl.h"
#include "thread-current-inl.h"
#include "thread_list.h"

#include "hindsight-art-hooks/src/bridge.rs.h"

namespace art {
namespace hindsight {

namespace {

thread_local bool is_control_thread = false;

class RequestClosure final : public Closure {
 public:
  explicit RequestClosure(bridge::SafepointRequest& request) : request_(request) {}

  void Run(Thread* thread ATTRIBUTE_UNUSED) override { request_.run(); }

 private:
  bridge::SafepointRequest& request_;
};

}  // namespace

bool AttachControlThread() {
  is_control_thread = true;
  return Runtime::Current()->AttachCurrentThread("hindsight",
                                                 /* as_daemon= */ true,
                                                 /* thread_group= */ nullptr,
                                                 /* create_peer= */ false);
}

void DetachControlThread() {
  Runtime::Current()->DetachCurrentThread();
}

bool IsControlThread() {
  return is_control_thread;
}

// RequestSynchronousCheckpoint releases the thread list's lock, which the static analysis cannot follow through the
// loop.
bool RunAtSafepoint(uint32_t tid, bridge::SafepointRequest& request) NO_THREAD_SAFETY_ANALYSIS {
  Thread* self = Thread::Current();
  ScopedObjectAccess soa(self);
  Locks::thread_list_lock_->ExclusiveLock(self);
  for (Thread* thread : Runtime::Current()->GetThreadList()->GetList()) {
    if (static_cast<uint32_t>(thread->GetTid()) == tid) {
      RequestClosure closure(request);
      return thread->RequestSynchronousCheckpoint(&closure);
    }
  }
  Locks::thread_list_lock_->ExclusiveUnlock(self);
  return false;
}

#if defined(HINDSIGHT_LAB)

bool RunsManagedCode(size_t words) {
  const size_t thread = words - CursorOffset<kRuntimePointerSize>().SizeValue();
  return reinterpret_cast<Thread*>(thread)->GetState() == ThreadState::kRunnable;
}

rust::Str ObstacleToLockFree() {
#if HINDSIGHT_ART >= 14
  return "it was never tried on this release";
#else
  return HasInlineTracePoints() ? "there is code with trace points of the inline form" : "";
#endif
}

#endif  // HINDSIGHT_LAB

void Log(uint8_t severity, rust::Str message) {
  const std::string text(message.data(), message.size());
  switch (severity) {
    case 0u: LOG(DEBUG) << "hindsight: " << text; break;
    case 1u: LOG(INFO) << "hindsight: " << text; break;
    case 2u: LOG(WARNING) << "hindsight: " << text; break;
    default: LOG(ERROR) << "hindsight: " << text; break;
  }
}

rust::String ProcessName() {
  const std::string package = Runtime::Current()->GetProcessPackageName();
  if (!package.empty()) {
    return rust::String::lossy(package);
  }
  std::string name;
  if (!android::base::ReadFileToString("/proc/self/cmdline", &name)) {
    return "unknown";
  }
  name.resize(strlen(name.c_str()));
  return rust::String::lossy(name.substr(name.rfind('/') + 1));
}

rust::String ArtRelease() {
  return kArtRelease;
}

rust::Vec<uint64_t> BootImages() {
  rust::Vec<uint64_t> images;
  for (gc::space::ImageSpace* space : Runtime::Current()->GetHeap()->GetBootImageSpaces()) {
    const ImageHeader& header = space->GetImageHeader();
    images.push_back(reinterpret_cast<uintptr_t>(space->Begin()));
    images.push_back(header.GetImageSize());
    images.push_back(static_cast<uint64_t>(header.GetOatChecksum()) << 32 | header.GetImageChecksum());
  }
  return images;
}

bool LeavesOutTrivial() {
  return LeavesOutTrivialMethods();
}

}  // namespace hindsight
}  // namespace art
