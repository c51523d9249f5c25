// SPDX-License-Identifier: Apache-2.0
//
// The native half of android.view.DisplayEventReceiver for a machine without a display. On a device,
// SurfaceFlinger sends vsync events through a socket that is part of the looper's epoll set; here a
// timerfd takes the socket's place, so that Choreographer, MessageQueue and the native looper run as they
// do on a device, with the same wake-ups.
#include "display_event_receiver.h"

#include <errno.h>
#include <nativehelper/ScopedLocalRef.h>
#include <string.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>
#include <utils/Looper.h>

#include "android_os_MessageQueue.h"
#include "core_jni_helpers.h"

namespace hindsight_lab {
namespace {

using android::sp;

constexpr int64_t kNanosPerSecond = 1'000'000'000;
constexpr int64_t kVsyncPeriodNanos = kNanosPerSecond / 60;

jmethodID gDispatchVsync;  // DisplayEventReceiver.dispatchVsync(long, long, int)
jmethodID gWeakReferenceGet;

int64_t MonotonicNanos() {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * kNanosPerSecond + now.tv_nsec;
}

class TimerVsyncSource : public android::LooperCallback {
 public:
  TimerVsyncSource(JNIEnv* env, jobject receiver_weak, sp<android::MessageQueue> queue)
      : receiver_weak_(env->NewGlobalRef(receiver_weak)), queue_(queue) {
    env->GetJavaVM(&vm_);
  }

  // Returns 0 or an errno value.
  int Start() {
    fd_ = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
    if (fd_ < 0) return errno;
    int added = queue_->getLooper()->addFd(fd_, 0, android::Looper::EVENT_INPUT, this, nullptr);
    return added == 1 ? 0 : EINVAL;
  }

  // One event, at the next vsync: as on a device, an app that wants another frame asks again.
  void ScheduleVsync() {
    if (pending_) return;
    vsync_nanos_ = (MonotonicNanos() / kVsyncPeriodNanos + 1) * kVsyncPeriodNanos;
    itimerspec once = {};
    once.it_value.tv_sec = vsync_nanos_ / kNanosPerSecond;
    once.it_value.tv_nsec = vsync_nanos_ % kNanosPerSecond;
    if (timerfd_settime(fd_, TFD_TIMER_ABSTIME, &once, nullptr) == 0) pending_ = true;
  }

  void Dispose(JNIEnv* env) {
    queue_->getLooper()->removeFd(fd_);
    close(fd_);
    env->DeleteGlobalRef(receiver_weak_);
    receiver_weak_ = nullptr;
  }

  int handleEvent(int fd, int /*events*/, void* /*data*/) override {
    constexpr int kKeepCallback = 1;
    uint64_t expirations;
    if (read(fd, &expirations, sizeof(expirations)) != sizeof(expirations)) return kKeepCallback;
    pending_ = false;
    JNIEnv* env = nullptr;
    vm_->GetEnv(reinterpret_cast<void**>(&env), JNI_VERSION_1_6);
    if (env == nullptr || receiver_weak_ == nullptr) return kKeepCallback;
    ScopedLocalRef<jobject> receiver(env,
                                     env->CallObjectMethod(receiver_weak_, gWeakReferenceGet));
    if (receiver.get() != nullptr) {
      constexpr jlong kDisplayId = 0;
      env->CallVoidMethod(receiver.get(), gDispatchVsync, static_cast<jlong>(vsync_nanos_),
                          kDisplayId, static_cast<jint>(vsync_nanos_ / kVsyncPeriodNanos));
    }
    queue_->raiseAndClearException(env, "dispatchVsync");
    return kKeepCallback;
  }

 private:
  JavaVM* vm_ = nullptr;
  jobject receiver_weak_;
  sp<android::MessageQueue> queue_;
  int fd_ = -1;
  bool pending_ = false;
  int64_t vsync_nanos_ = 0;
};

// The Java object owns one reference, from nativeInit to nativeDispose; this is its name in RefBase.
void* const kJavaOwner = &gDispatchVsync;

TimerVsyncSource* FromHandle(jlong handle) { return reinterpret_cast<TimerVsyncSource*>(handle); }

jlong NativeInit(JNIEnv* env, jclass, jobject receiver_weak, jobject message_queue, jint /*source*/,
                 jint /*config_changed*/) {
  sp<android::MessageQueue> queue =
      android::android_os_MessageQueue_getMessageQueue(env, message_queue);
  if (queue == nullptr) {
    jniThrowRuntimeException(env, "MessageQueue is not initialized.");
    return 0;
  }
  sp<TimerVsyncSource> source = new TimerVsyncSource(env, receiver_weak, queue);
  if (int error = source->Start(); error != 0) {
    source->Dispose(env);
    jniThrowRuntimeException(env, strerror(error));
    return 0;
  }
  source->incStrong(kJavaOwner);
  return reinterpret_cast<jlong>(source.get());
}

void NativeDispose(JNIEnv* env, jclass, jlong handle) {
  FromHandle(handle)->Dispose(env);
  FromHandle(handle)->decStrong(kJavaOwner);
}

void NativeScheduleVsync(JNIEnv*, jclass, jlong handle) { FromHandle(handle)->ScheduleVsync(); }

const JNINativeMethod kMethods[] = {
    {"nativeInit", "(Ljava/lang/ref/WeakReference;Landroid/os/MessageQueue;II)J",
     reinterpret_cast<void*>(NativeInit)},
    {"nativeDispose", "(J)V", reinterpret_cast<void*>(NativeDispose)},
    {"nativeScheduleVsync", "(J)V", reinterpret_cast<void*>(NativeScheduleVsync)},
};

}  // namespace

void RegisterDisplayEventReceiver(JNIEnv* env) {
  constexpr char kClass[] = "android/view/DisplayEventReceiver";
  android::RegisterMethodsOrDie(env, kClass, kMethods, NELEM(kMethods));
  ScopedLocalRef<jclass> receiver(env, android::FindClassOrDie(env, kClass));
  gDispatchVsync = android::GetMethodIDOrDie(env, receiver.get(), "dispatchVsync", "(JJI)V");
  ScopedLocalRef<jclass> weak(env, android::FindClassOrDie(env, "java/lang/ref/WeakReference"));
  gWeakReferenceGet =
      android::GetMethodIDOrDie(env, weak.get(), "get", "()Ljava/lang/Object;");
}

}  // namespace hindsight_lab
