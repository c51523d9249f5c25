// SPDX-License-Identifier: Apache-2.0
//
// The native half of android.view.InputEventReceiver, for a machine without input devices. As on a device, events arrive
// through a socket that is part of the looper's epoll set, are dispatched while the looper polls, and their end is sent
// back. dev.hindsight.lab.InputSource is at the other end, in the place of InputDispatcher.
#include "input.h"

#include <errno.h>
#include <nativehelper/ScopedLocalRef.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include <utils/Looper.h>

#include "android_os_MessageQueue.h"
#include "core_jni_helpers.h"

namespace hindsight_lab {
namespace {

using android::sp;

struct Event {
  int64_t nanos;
  int32_t sequence;
  int32_t type;
  int32_t action;
};

constexpr int32_t kKey = 1;

jmethodID gDispatchInputEvent;  // InputEventReceiver.dispatchInputEvent(int, InputEvent)
jmethodID gWeakReferenceGet;
jclass gKeyEvent;
jmethodID gNewKeyEvent;
jclass gMotionEvent;
jmethodID gNewMotionEvent;

class Receiver : public android::LooperCallback {
 public:
  Receiver(JNIEnv* env, jobject receiver_weak, int fd, sp<android::MessageQueue> queue)
      : receiver_weak_(env->NewGlobalRef(receiver_weak)), queue_(queue), fd_(fd) {
    env->GetJavaVM(&vm_);
  }

  bool Start() {
    return queue_->getLooper()->addFd(fd_, 0, android::Looper::EVENT_INPUT, this, nullptr) == 1;
  }

  void Finish(int32_t sequence, bool handled) {
    const int32_t answer = handled ? sequence : -sequence;
    send(fd_, &answer, sizeof(answer), MSG_NOSIGNAL);
  }

  void Dispose(JNIEnv* env) {
    queue_->getLooper()->removeFd(fd_);
    close(fd_);
    env->DeleteGlobalRef(receiver_weak_);
    receiver_weak_ = nullptr;
  }

  int handleEvent(int fd, int /*events*/, void* /*data*/) override {
    constexpr int kKeepCallback = 1;
    constexpr int kRemoveCallback = 0;
    Event event;
    const ssize_t size = recv(fd, &event, sizeof(event), MSG_DONTWAIT);
    if (size != sizeof(event)) return size < 0 && errno == EAGAIN ? kKeepCallback : kRemoveCallback;
    JNIEnv* env = nullptr;
    vm_->GetEnv(reinterpret_cast<void**>(&env), JNI_VERSION_1_6);
    if (env == nullptr || receiver_weak_ == nullptr) return kKeepCallback;
    ScopedLocalRef<jobject> receiver(env,
                                     env->CallObjectMethod(receiver_weak_, gWeakReferenceGet));
    const bool key = event.type == kKey;
    ScopedLocalRef<jobject> input(
        env, env->NewObject(key ? gKeyEvent : gMotionEvent, key ? gNewKeyEvent : gNewMotionEvent,
                            static_cast<jlong>(event.nanos), static_cast<jint>(event.action)));
    if (receiver.get() != nullptr && input.get() != nullptr) {
      env->CallVoidMethod(receiver.get(), gDispatchInputEvent, event.sequence, input.get());
    }
    queue_->raiseAndClearException(env, "dispatchInputEvent");
    return kKeepCallback;
  }

 private:
  JavaVM* vm_ = nullptr;
  jobject receiver_weak_;
  sp<android::MessageQueue> queue_;
  const int fd_;
};

// The Java object owns one reference, from nativeInit to nativeDispose; this is its name in RefBase.
void* const kJavaOwner = &gDispatchInputEvent;

Receiver* FromHandle(jlong handle) { return reinterpret_cast<Receiver*>(handle); }

jlong NativeInit(JNIEnv* env, jclass, jobject receiver_weak, jobject channel, jobject message_queue) {
  sp<android::MessageQueue> queue =
      android::android_os_MessageQueue_getMessageQueue(env, message_queue);
  ScopedLocalRef<jclass> channel_class(env, env->GetObjectClass(channel));
  const int fd = env->CallIntMethod(channel, env->GetMethodID(channel_class.get(), "getFd", "()I"));
  sp<Receiver> receiver = new Receiver(env, receiver_weak, fd, queue);
  if (queue == nullptr || !receiver->Start()) {
    jniThrowRuntimeException(env, "the input channel cannot be added to the looper");
    return 0;
  }
  receiver->incStrong(kJavaOwner);
  return reinterpret_cast<jlong>(receiver.get());
}

void NativeDispose(JNIEnv* env, jclass, jlong handle) {
  FromHandle(handle)->Dispose(env);
  FromHandle(handle)->decStrong(kJavaOwner);
}

void NativeFinishInputEvent(JNIEnv*, jclass, jlong handle, jint sequence, jboolean handled) {
  FromHandle(handle)->Finish(sequence, handled == JNI_TRUE);
}

// Events are not batched here.
jboolean NativeConsumeBatchedInputEvents(JNIEnv*, jclass, jlong, jlong) { return JNI_FALSE; }

void NativeOpenPair(JNIEnv* env, jclass, jintArray java_fds) {
  int fds[2];
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fds) != 0) {
    jniThrowRuntimeException(env, strerror(errno));
    return;
  }
  env->SetIntArrayRegion(java_fds, 0, 2, fds);
}

void NativeSend(JNIEnv* env, jclass, jint fd, jint sequence, jint type, jint action, jlong nanos) {
  const Event event = {nanos, sequence, type, action};
  if (send(fd, &event, sizeof(event), MSG_NOSIGNAL) != sizeof(event)) {
    jniThrowRuntimeException(env, strerror(errno));
  }
}

jint NativeAwaitFinished(JNIEnv* env, jclass, jint fd) {
  int32_t answer = 0;
  if (TEMP_FAILURE_RETRY(recv(fd, &answer, sizeof(answer), 0)) != sizeof(answer)) {
    jniThrowRuntimeException(env, "the receiver is gone");
  }
  return answer;
}

const JNINativeMethod kReceiverMethods[] = {
    {"nativeInit",
     "(Ljava/lang/ref/WeakReference;Landroid/view/InputChannel;Landroid/os/MessageQueue;)J",
     reinterpret_cast<void*>(NativeInit)},
    {"nativeDispose", "(J)V", reinterpret_cast<void*>(NativeDispose)},
    {"nativeFinishInputEvent", "(JIZ)V", reinterpret_cast<void*>(NativeFinishInputEvent)},
    {"nativeConsumeBatchedInputEvents", "(JJ)Z",
     reinterpret_cast<void*>(NativeConsumeBatchedInputEvents)},
};

const JNINativeMethod kSourceMethods[] = {
    {"nativeOpenPair", "([I)V", reinterpret_cast<void*>(NativeOpenPair)},
    {"nativeSend", "(IIIIJ)V", reinterpret_cast<void*>(NativeSend)},
    {"nativeAwaitFinished", "(I)I", reinterpret_cast<void*>(NativeAwaitFinished)},
};

void FindEvent(JNIEnv* env, const char* name, jclass* event, jmethodID* constructor) {
  ScopedLocalRef<jclass> found(env, android::FindClassOrDie(env, name));
  *event = static_cast<jclass>(env->NewGlobalRef(found.get()));
  *constructor = android::GetMethodIDOrDie(env, *event, "<init>", "(JI)V");
}

}  // namespace

void RegisterInput(JNIEnv* env) {
  constexpr char kReceiver[] = "android/view/InputEventReceiver";
  android::RegisterMethodsOrDie(env, kReceiver, kReceiverMethods, NELEM(kReceiverMethods));
  android::RegisterMethodsOrDie(env, "dev/hindsight/lab/InputSource", kSourceMethods,
                                NELEM(kSourceMethods));
  ScopedLocalRef<jclass> receiver(env, android::FindClassOrDie(env, kReceiver));
  gDispatchInputEvent = android::GetMethodIDOrDie(env, receiver.get(), "dispatchInputEvent",
                                                  "(ILandroid/view/InputEvent;)V");
  ScopedLocalRef<jclass> weak(env, android::FindClassOrDie(env, "java/lang/ref/WeakReference"));
  gWeakReferenceGet =
      android::GetMethodIDOrDie(env, weak.get(), "get", "()Ljava/lang/Object;");
  FindEvent(env, "android/view/KeyEvent", &gKeyEvent, &gNewKeyEvent);
  FindEvent(env, "android/view/MotionEvent", &gMotionEvent, &gNewMotionEvent);
}

}  // namespace hindsight_lab
