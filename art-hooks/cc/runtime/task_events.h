// SPDX-License-Identifier: Apache-2.0
//
// Events of tasks: of executors, fork-join pools, timers, threads and the framework; and of elements of queues.

#ifndef HINDSIGHT_RUNTIME_TASK_EVENTS_H_
#define HINDSIGHT_RUNTIME_TASK_EVENTS_H_

#include <jni.h>
#include <stdint.h>

#include "base/locks.h"
#include "obj_ptr.h"

namespace art {

class Thread;

namespace mirror {
class Object;
}  // namespace mirror

namespace hindsight {

// Finds the classes and fields that the functions below look at, and has begins and ends of threads recorded. Called once.
void PrepareTaskEvents(JNIEnv* env);

// `self`, the calling thread, hands a task to another thread, begins to run it, ends it, or gives it up. A task's identity
// is made of its kind, its class and its identity hash.
void TaskSubmitted(Thread* self, uint32_t kind, ObjPtr<mirror::Object> task, int64_t delay_ms)
    REQUIRES_SHARED(Locks::mutator_lock_);
void TaskBegin(Thread* self, uint32_t kind, ObjPtr<mirror::Object> task)
    REQUIRES_SHARED(Locks::mutator_lock_);
void TaskEnd(Thread* self, uint32_t kind, ObjPtr<mirror::Object> task)
    REQUIRES_SHARED(Locks::mutator_lock_);
void TaskCancelled(Thread* self, uint32_t kind, ObjPtr<mirror::Object> task)
    REQUIRES_SHARED(Locks::mutator_lock_);

// `self`, the calling thread, puts an element into a queue, takes it, or removes it without working on it. Its identity
// is made of the identity hashes of both: an element that is in the queue twice has one identity.
void ItemPut(Thread* self, ObjPtr<mirror::Object> queue, ObjPtr<mirror::Object> item)
    REQUIRES_SHARED(Locks::mutator_lock_);
void ItemTaken(Thread* self, ObjPtr<mirror::Object> queue, ObjPtr<mirror::Object> item)
    REQUIRES_SHARED(Locks::mutator_lock_);
void ItemRemoved(Thread* self, ObjPtr<mirror::Object> queue, ObjPtr<mirror::Object> item)
    REQUIRES_SHARED(Locks::mutator_lock_);

// `self`, the calling thread, starts the thread with this java.lang.Thread.getId(), which will run `work`.
void ThreadSubmitted(Thread* self, int64_t id, ObjPtr<mirror::Object> work)
    REQUIRES_SHARED(Locks::mutator_lock_);

}  // namespace hindsight
}  // namespace art

#endif  // HINDSIGHT_RUNTIME_TASK_EVENTS_H_
