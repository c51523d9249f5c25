// SPDX-License-Identifier: Apache-2.0

#include "hindsight/runtime/lifecycle.h"

#include <stdlib.h>
#include <unistd.h>

#include <string>

#ifdef ART_TARGET_ANDROID
#include "android-base/properties.h"
#endif
#include "base/atomic.h"
#include "base/os.h"
#include "hindsight/runtime/art_services.h"
#include "hindsight/runtime/trace_stubs.h"
#include "hindsight_class.h"
#include "linear_alloc.h"
#include "runtime.h"
#include "scoped_thread_state_change-inl.h"
#include "thread-current-inl.h"

#include "hindsight-art-hooks/src/bridge.rs.h"

namespace art {
namespace hindsight {

namespace {

// Whether the recorder runs. Threads start and exit before, while and after it does.
Atomic<bool> running(false);

// On a device: one property that holds the configuration; in the lab, and wherever there are no
// properties: the environment.
std::string Configuration() {
#if defined(ART_TARGET_ANDROID)
  return android::base::GetProperty("persist.hindsight.trace", "");
#else
  const char* value = getenv("HINDSIGHT");
  return value != nullptr ? value : "";
#endif
}

}  // namespace

void Start(JNIEnv* env) {
  Runtime* runtime = Runtime::Current();
  RegisterHindsightClass(env);
  const std::string configuration = Configuration();
  if (configuration.empty() || runtime->IsAotCompiler()) {
    return;
  }
  if (!bridge::start(configuration, ExitStub(), LeafStub())) {
    return;
  }
  running.store(true, std::memory_order_release);
  ThreadStarted(Thread::Current());
}

void Shutdown() {
  if (running.exchange(false, std::memory_order_acq_rel)) {
    bridge::shutdown();
  }
}

void ThreadStarted(Thread* self) {
  if (running.load(std::memory_order_acquire) && !IsControlThread()) {
    std::string name;
    self->GetThreadName(name);
    bridge::thread_started(self->GetTid(),
                           name,
                           reinterpret_cast<size_t>(self->GetHindsightWords()));
  }
}

void ThreadExiting(Thread* self) {
  if (self->GetHindsightWords()->state != nullptr) {
    bridge::thread_exiting(reinterpret_cast<size_t>(self->GetHindsightWords()));
  }
}

void ThreadRenamed(Thread* thread, const char* name) {
  if (running.load(std::memory_order_acquire)) {
    bridge::thread_renamed(thread->GetTid(), name);
  }
}

void ClassLoaderUnloading(const LinearAlloc& methods ATTRIBUTE_UNUSED) {
  if (running.load(std::memory_order_acquire)) {
    bridge::class_loader_unloading();
  }
}

}  // namespace hindsight
}  // namespace art
