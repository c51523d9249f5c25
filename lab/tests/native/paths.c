// SPDX-License-Identifier: Apache-2.0
//
// The native half of Paths.java.
#include <jni.h>
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

struct Work {
  JavaVM* vm;
  jclass type;
  jmethodID method;
  int times;
};

static void* attach_and_call(void* argument) {
  const struct Work* work = argument;
  for (int i = 0; i < work->times; ++i) {
    JNIEnv* env;
    if ((*work->vm)->AttachCurrentThread(work->vm, (void*)&env, NULL) != JNI_OK) {
      return NULL;
    }
    (*env)->CallStaticIntMethod(env, work->type, work->method, i);
    (*work->vm)->DetachCurrentThread(work->vm);
  }
  return NULL;
}

JNIEXPORT void JNICALL Java_Paths_attachThreads(JNIEnv* env, jclass type, jint threads, jint times) {
  struct Work work = {.type = (*env)->NewGlobalRef(env, type), .times = times};
  (*env)->GetJavaVM(env, &work.vm);
  work.method = (*env)->GetStaticMethodID(env, type, "fromNative", "(I)I");
  pthread_t ids[64];
  const int count = threads < 64 ? threads : 64;
  for (int i = 0; i < count; ++i) {
    pthread_create(&ids[i], NULL, attach_and_call, &work);
  }
  for (int i = 0; i < count; ++i) {
    pthread_join(ids[i], NULL);
  }
  (*env)->DeleteGlobalRef(env, work.type);
}

JNIEXPORT void JNICALL Java_Paths_throwNew(JNIEnv* env, jclass type) {
  (void)type;
  jclass exception = (*env)->FindClass(env, "java/lang/IllegalStateException");
  (*env)->ThrowNew(env, exception, "from native code");
}

JNIEXPORT void JNICALL Java_Paths_callBack(JNIEnv* env, jclass type, jboolean clear) {
  jmethodID method = (*env)->GetStaticMethodID(env, type, "backAndThrow", "()V");
  (*env)->CallStaticVoidMethod(env, type, method);
  if (clear) {
    (*env)->ExceptionClear(env);
  }
}

JNIEXPORT jint JNICALL Java_Paths_fork(JNIEnv* env, jclass type) {
  (void)env;
  (void)type;
  return fork();
}

JNIEXPORT void JNICALL Java_Paths_endChild(JNIEnv* env, jclass type, jint status) {
  (void)env;
  (void)type;
  _exit(status);
}

JNIEXPORT jint JNICALL Java_Paths_waitFor(JNIEnv* env, jclass type, jint pid) {
  (void)env;
  (void)type;
  int status = -1;
  waitpid(pid, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}
