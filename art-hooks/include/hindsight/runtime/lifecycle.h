// SPDX-License-Identifier: Apache-2.0
//
// What ART tells Hindsight about the process, its threads and its class loaders.

#ifndef HINDSIGHT_RUNTIME_LIFECYCLE_H_
#define HINDSIGHT_RUNTIME_LIFECYCLE_H_

#include <jni.h>

#include "base/locks.h"
#include "base/macros.h"

namespace art {

class ClassTable;
class LinearAlloc;
class Thread;

namespace hindsight {

// Reads the configuration and, if tracing is on, starts the control thread and traces the calling
// (main) thread. Never in the zygote: it is called once the process is an app, or is no zygote's.
void Start(JNIEnv* env) REQUIRES(!Locks::mutator_lock_);

// Persists the rings if the configuration asks for it, and stops the control thread. Called on every
// orderly way out of the process; the second call does nothing.
void Shutdown() REQUIRES(!Locks::mutator_lock_);

// `self` is registered and about to run; it is the calling thread.
void ThreadStarted(Thread* self);

// `self`, the calling thread, will run no managed code any more, but is still registered.
void ThreadExiting(Thread* self);

// `thread` has a new name. May be called by another thread.
void ThreadRenamed(Thread* thread, const char* name);

// A class loader is about to be freed, with its classes' methods, which are in `methods`. The classes are
// dead, but were not swept yet; nor were those of other loaders that are dead, too, freed.
void ClassLoaderUnloading(LinearAlloc* methods, ClassTable* classes)
    REQUIRES_SHARED(Locks::mutator_lock_);

// The app's process has a new state: it is in the foreground, or not.
void SetForeground(bool foreground);
inline void InForeground() { SetForeground(true); }

// `thread`, which is traced and waits, is woken by `waker`, the calling thread. Takes no lock of ART's.
void ThreadWoken(Thread* thread, Thread* waker);

// The thread of `peer` is given this name. If that is a command to trace it, does so, sees to it that the
// thread keeps its name, and returns true.
bool ThreadNameCommand(JNIEnv* env, jobject peer, const char* name) REQUIRES(!Locks::mutator_lock_);

}  // namespace hindsight
}  // namespace art

#endif  // HINDSIGHT_RUNTIME_LIFECYCLE_H_
