// SPDX-License-Identifier: Apache-2.0

#include "hindsight/runtime/lifecycle.h"

#include <pthread.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <string>

#ifdef ART_TARGET_ANDROID
#include "android-base/properties.h"
#endif
#include "base/atomic.h"
#include "base/os.h"
#include "base/time_utils.h"
#include "bridge_bytes.h"
#include "hindsight/compat.h"
#include "entrypoints/quick/quick_entrypoints_enum.h"
#include "hindsight/runtime/art_services.h"
#include "hindsight/runtime/recorder_abi.h"
#include "hindsight/runtime/rules.h"
#include "hindsight/runtime/thread_offsets.h"
#include "hindsight/runtime/trace_point_form.h"
#include "hindsight/runtime/trace_stubs.h"
#include "hindsight/runtime/tracing_gate.h"
#include "event_class.h"
#include "gc_pauses.h"
#include "hindsight_class.h"
#include "known_frames.h"
#include "naming_check.h"
#include "nativehelper/scoped_local_ref.h"
#include "runtime.h"
#include "runtime_callbacks.h"
#include "scoped_thread_state_change-inl.h"
#include "thread-current-inl.h"
#include "thread_list.h"
#include "walk_check.h"
#include "well_known_classes.h"

#include "hindsight-art-hooks/src/bridge.rs.h"

namespace art {
namespace hindsight {

namespace {

// Whether the recorder runs. Threads start and exit before, during and after that time.
Atomic<bool> running(false);

// Whether the recorder was ever started. During shutdown it takes a snapshot, and needs the names of methods for it.
Atomic<bool> started(false);

// In a child that was forked without exec nothing is traced, and the owners of locks do not exist. The recorder has a
// handler of its own.
void StopInForkedChild() {
  running.store(false, std::memory_order_relaxed);
  started.store(false, std::memory_order_relaxed);
}

// The configuration: a system property on a device, an environment variable elsewhere.
std::string Configuration() {
#if defined(ART_TARGET_ANDROID)
  return android::base::GetProperty("persist.hindsight.trace", "");
#else
  const char* value = getenv("HINDSIGHT");
  return value != nullptr ? value : "";
#endif
}

// The stubs that compiled code calls, for the recorder.
bridge::StubTable Stubs() {
  auto to_bridge = [](const TraceStubs& stubs) {
    return bridge::Stubs{stubs.exit, stubs.leaf_entry, stubs.entry};
  };
  const ptrdiff_t entry_slot = GetThreadOffset<kRuntimePointerSize>(kQuickTraceEntry).Int32Value() -
                               CursorOffset<kRuntimePointerSize>().Int32Value();
  return {to_bridge(RecordingStubs()), to_bridge(SlowPathStubs()), entry_slot};
}

// The signal catcher has written the stacks of all threads, because somebody sent SIGQUIT.
class StackDumps final : public RuntimeSigQuitCallback {
 public:
  void SigQuit() override {
    if (running.load(std::memory_order_acquire)) {
      bridge::stacks_wanted();
    }
  }
};

// The list has a lock of its own, so that the other threads need not be suspended.
void WatchStackDumps(Runtime* runtime) NO_THREAD_SAFETY_ANALYSIS {
  static StackDumps dumps;
  runtime->GetRuntimeCallbacks()->AddRuntimeSigQuitCallback(&dumps);
}

}  // namespace

void Start(JNIEnv* env) {
  Runtime* runtime = Runtime::Current();
  RegisterHindsightClass(env);
  const std::string configuration = Configuration();
  if (configuration.empty() || runtime->IsAotCompiler()) {
    return;
  }
  const std::string obstacle =
      ObstacleToTracing(kRuntimeISA, GetTracePointForm(kRuntimeISA), GetTracingGate());
  if (GetTracePointForm(kRuntimeISA) == TracePointForm::kInline) {
    hindsight_has_unmarked_code();
  }
  RegisterEventClasses(env);
  // A zygote's child has its own code.
  ForgetKnownFrames();
  if (!bridge::start(ToBridge(configuration), Stubs(), obstacle)) {
    // With an obstacle, nothing was admitted.
    if (obstacle.empty()) {
      GetTracingGate()->WithdrawTracing();
    }
    return;
  }
  // A zygote's child comes here after the fork.
  pthread_atfork(nullptr, nullptr, StopInForkedChild);
  RecordGcPauses();
  WatchStackDumps(runtime);
  started.store(true, std::memory_order_release);
  running.store(true, std::memory_order_release);
  ThreadStarted(Thread::Current());
}

void Shutdown() {
  if (running.exchange(false, std::memory_order_acq_rel)) {
    bridge::shutdown();
    ReportWalks();
    ReportNaming();
  }
}

void ThreadStarted(Thread* self) {
  if (running.load(std::memory_order_acquire) && !IsControlThread()) {
    std::string name;
    self->GetThreadName(name);
    bridge::thread_started(self->GetTid(),
                           ToBridge(name),
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
    bridge::thread_renamed(thread->GetTid(), ToBridge(name));
  }
}

// ART yields the processor until the thread is suspended. If another thread wants that processor, it gets it for a whole time
// slice, some ms, and `thread`, suspended meanwhile, waits for as long, also if other processors are idle: a thread that yields
// is not moved there, one that wakes up is.
void AwaitSuspension(Thread* thread) {
  if (!IsControlThread()) {
    return;
  }
  // On its processor, it reaches its next suspend check within some us.
  static constexpr uint64_t kLookingNs = 20'000;
  // Otherwise it has to be scheduled first.
  static constexpr uint64_t kPauseNs = 10'000;
  static constexpr size_t kPauses = 500;
  auto is_suspended = [thread]() { return thread->GetState() != ThreadState::kRunnable; };
  const uint64_t start = NanoTime();
  do {
    if (is_suspended()) {
      return;
    }
  } while (NanoTime() - start < kLookingNs);
  // Pauses of threads in the background may take 40 ms longer than they are meant to.
  const int slack = prctl(PR_GET_TIMERSLACK, 0, 0, 0, 0);
  prctl(PR_SET_TIMERSLACK, 1, 0, 0, 0);
  for (size_t i = 0; i < kPauses && !is_suspended(); ++i) {
    NanoSleep(kPauseNs);
  }
  if (slack > 0) {
    prctl(PR_SET_TIMERSLACK, slack, 0, 0, 0);
  }
}

void ClassLoaderUnloading(LinearAlloc* methods, ClassTable* classes) {
  ForgetKnownFrames();
  if (started.load(std::memory_order_acquire)) {
    ForgetMethodsOf(methods);
    UnloadingLoader loader{methods, classes};
    bridge::class_loader_unloading(reinterpret_cast<size_t>(&loader));
  }
}

void SetForeground(bool foreground) {
  if (!running.load(std::memory_order_acquire)) {
    return;
  }
  if (foreground) {
    bridge::thread_in_foreground(getpid());
  } else {
    bridge::process_in_background();
  }
}

void SetActivities(bool are_started) {
  if (running.load(std::memory_order_acquire)) {
    bridge::activities(are_started);
  }
}

bool ThreadNameCommand(JNIEnv* env, jobject peer, const char* name) {
  if (!running.load(std::memory_order_acquire)) {
    return false;
  }
  uint32_t tid;
  std::string old_name;
  {
    ScopedObjectAccess soa(env);
    MutexLock mu(soa.Self(), *Locks::thread_list_lock_);
    Thread* thread = Thread::FromManagedThread(soa, peer);
    if (thread == nullptr) {
      return false;
    }
    tid = thread->GetTid();
    thread->GetThreadName(old_name);
  }
  if (!bridge::thread_name_command(tid, ToBridge(name))) {
    return false;
  }
  // Thread.setName has set the field already.
  ScopedLocalRef<jstring> java_name(env, env->NewStringUTF(old_name.c_str()));
  if (java_name != nullptr) {
    env->SetObjectField(peer, FieldId(WellKnownClasses::java_lang_Thread_name), java_name.get());
  }
  return true;
}

}  // namespace hindsight
}  // namespace art
