// SPDX-License-Identifier: Apache-2.0
//
// What ART tells Hindsight about the process, its threads and its class loaders.

#ifndef HINDSIGHT_RUNTIME_LIFECYCLE_H_
#define HINDSIGHT_RUNTIME_LIFECYCLE_H_

#include <jni.h>

#include "base/locks.h"
#include "base/macros.h"

namespace art {

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

// The methods allocated in `methods` are about to be freed with their class loader.
void ClassLoaderUnloading(const LinearAlloc& methods);

}  // namespace hindsight
}  // namespace art

#endif  // HINDSIGHT_RUNTIME_LIFECYCLE_H_
