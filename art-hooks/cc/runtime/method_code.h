// SPDX-License-Identifier: Apache-2.0
//
// Changes of the code that a method is executed by. All threads are suspended, and the JIT is stopped, unless stated
// otherwise.

#ifndef HINDSIGHT_ART_HOOKS_CC_RUNTIME_METHOD_CODE_H_
#define HINDSIGHT_ART_HOOKS_CC_RUNTIME_METHOD_CODE_H_

#include "base/locks.h"

namespace art {

class ArtMethod;

namespace hindsight {

// Calls of the method are executed by the interpreter from now on, until the JIT compiles the method, or its class is
// initialized. Frames that execute its code already go on.
void UseInterpreter(ArtMethod* method) REQUIRES(Locks::mutator_lock_);

// As UseInterpreter(), for a method whose class was just linked or initialized: the JIT has no code of it yet, and threads
// may run.
void UseInterpreterAfterLinking(ArtMethod* method) REQUIRES_SHARED(Locks::mutator_lock_);

// Calls execute the code that the method had when its class was linked. The JIT may compile it again.
void UseLinkedCode(ArtMethod* method) REQUIRES(Locks::mutator_lock_);

// Whether calls of the method are executed by the interpreter, or will be once its class is initialized.
bool IsInterpreted(ArtMethod* method) REQUIRES_SHARED(Locks::mutator_lock_);

// The JIT neither compiles nor inlines the method from now on. Returns whether it was allowed to before. Threads may run.
bool ForbidCompilation(ArtMethod* method) REQUIRES_SHARED(Locks::mutator_lock_);

// Undoes a ForbidCompilation() that returned true. `was_verified`: the method's class was verified before that.
void AllowCompilation(ArtMethod* method, bool was_verified) REQUIRES(Locks::mutator_lock_);

}  // namespace hindsight
}  // namespace art

#endif  // HINDSIGHT_ART_HOOKS_CC_RUNTIME_METHOD_CODE_H_
