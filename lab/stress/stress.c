// SPDX-License-Identifier: Apache-2.0
//
// The native half of Stress.java.

#include <jni.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <string.h>

static JavaVM* vm;
static jclass jni_class;
static jclass exception_class;
static jmethodID in_method;
static jmethodID deeper_method;
static jmethodID from_native_method;
static volatile sig_atomic_t signals;

static void CountSignal(int number) {
  (void) number;
  ++signals;
}

JNIEXPORT jint JNI_OnLoad(JavaVM* java_vm, void* reserved) {
  (void) reserved;
  vm = java_vm;
  return JNI_VERSION_1_6;
}

JNIEXPORT void JNICALL Java_Jni_prepare(JNIEnv* env, jclass klass) {
  jni_class = (*env)->NewGlobalRef(env, klass);
  jclass exception = (*env)->FindClass(env, "java/lang/IllegalArgumentException");
  exception_class = (*env)->NewGlobalRef(env, exception);
  in_method = (*env)->GetStaticMethodID(env, klass, "in", "(I)J");
  deeper_method = (*env)->GetStaticMethodID(env, klass, "deeper", "(I)V");
  from_native_method = (*env)->GetStaticMethodID(env, klass, "fromNative", "(I)V");
  struct sigaction action;
  memset(&action, 0, sizeof(action));
  action.sa_handler = CountSignal;
  // On ART's alternate stack: where a StackOverflowError is delivered, ART has 8 KiB of stack for itself above a page
  // that nobody may write to, and the frame of a signal takes over 4 KiB on arm64.
  action.sa_flags = SA_RESTART | SA_ONSTACK;
  sigaction(SIGPROF, &action, NULL);
}

JNIEXPORT jlong JNICALL Java_Jni_out(JNIEnv* env, jclass klass, jint depth) {
  return (*env)->CallStaticLongMethod(env, klass, in_method, depth);
}

JNIEXPORT void JNICALL Java_Jni_throwAfter(JNIEnv* env, jclass klass, jint depth) {
  if (depth == 0) {
    (*env)->ThrowNew(env, exception_class, "from native code");
    return;
  }
  (*env)->CallStaticVoidMethod(env, klass, deeper_method, depth);
}

static void* Attached(void* argument) {
  JNIEnv* env;
  // Twice: a thread may come back.
  for (int i = 0; i < 2; ++i) {
    if ((*vm)->AttachCurrentThread(vm, &env, NULL) != JNI_OK) {
      return "cannot attach";
    }
    (*env)->CallStaticVoidMethod(env, jni_class, from_native_method, (jint)(intptr_t) argument);
    const char* problem = NULL;
    if ((*env)->ExceptionCheck(env)) {
      (*env)->ExceptionDescribe(env);
      (*env)->ExceptionClear(env);
      problem = "an exception in an attached thread";
    }
    (*vm)->DetachCurrentThread(vm);
    if (problem != NULL) {
      return (void*) problem;
    }
  }
  return NULL;
}

JNIEXPORT void JNICALL Java_Jni_attach(JNIEnv* env, jclass klass, jint count, jint size) {
  (void) klass;
  pthread_t threads[4];
  if (count > 4) {
    count = 4;
  }
  int started = 0;
  while (started < count &&
         pthread_create(&threads[started], NULL, Attached, (void*)(intptr_t) size) == 0) {
    ++started;
  }
  const char* problem = started < count ? "cannot start a thread" : NULL;
  for (int i = 0; i < started; ++i) {
    void* result;
    pthread_join(threads[i], &result);
    if (result != NULL) {
      problem = (const char*) result;
    }
  }
  if (problem != NULL) {
    (*env)->ThrowNew(env, exception_class, problem);
  }
}
