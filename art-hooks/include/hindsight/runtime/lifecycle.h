// SPDX-License-Identifier: Apache-2.0
//
// ART's notifications about the process, its threads and its class loaders.

#ifndef HINDSIGHT_RUNTIME_LIFECYCLE_H_
#define HINDSIGHT_RUNTIME_LIFECYCLE_H_

#include <jni.h>

#include "base/locks.h"
#include "base/macros.h"
#include "obj_ptr.h"

namespace art {

class ClassTable;
class LinearAlloc;
class Thread;

namespace mirror {
class Class;
}  // namespace mirror

namespace hindsight {

// Reads the configuration and, if it turns tracing on, starts the control thread and traces the calling (main) thread.
// Called once, after the fork in a child of the zygote, and never in the zygote.
void Start(JNIEnv* env) REQUIRES(!Locks::mutator_lock_);

// Takes a snapshot of the rings if the configuration asks for it, and stops the control thread. Called on every
// orderly way out of the process; the second call does nothing.
void Shutdown() REQUIRES(!Locks::mutator_lock_);

// `self`, the calling thread, is registered and about to run.
void ThreadStarted(Thread* self);

// `self`, the calling thread, will run no managed code any more, but is still registered.
void ThreadExiting(Thread* self);

// `thread` has a new name. May be called by another thread.
void ThreadRenamed(Thread* thread, const char* name);

// The calling thread has asked `thread` to suspend itself, which is running all the same: it left native code at that moment.
// Returns when it is suspended, if the calling thread is the control thread, or when ART should go on waiting.
void AwaitSuspension(Thread* thread);

// A dead class loader is about to be freed, with the methods of its classes, which are in `methods`. No class of this
// or another dead loader is swept yet, and no dead loader is freed yet.
void ClassLoaderUnloading(LinearAlloc* methods, ClassTable* classes)
    REQUIRES_SHARED(Locks::mutator_lock_);

// ART has set the entry points of the static methods of this class, which is initialized now.
void StaticMethodsLinked(ObjPtr<mirror::Class> klass) REQUIRES_SHARED(Locks::mutator_lock_);

// The app's process came to the foreground, or left it.
void SetForeground(bool foreground);
inline void InForeground() { SetForeground(true); }

// The app has activities that are started, or none any more. The calling thread may be runnable.
void SetActivities(bool are_started);

// Called when the thread of `peer` gets the name `name`. If the name is one of Nanoscope's commands, executes it, puts
// the old name back, and returns true.
bool ThreadNameCommand(JNIEnv* env, jobject peer, const char* name) REQUIRES(!Locks::mutator_lock_);

}  // namespace hindsight
}  // namespace art

#endif  // HINDSIGHT_RUNTIME_LIFECYCLE_H_
