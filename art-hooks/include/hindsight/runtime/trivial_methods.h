// SPDX-License-Identifier: Apache-2.0
//
// Trivial methods: short leaves, such as getters, whose calls are not worth a trace point, because none of them can take
// long. Compiler, interpreters and unwinding decide with the same function, from dex code alone.

#ifndef HINDSIGHT_RUNTIME_TRIVIAL_METHODS_H_
#define HINDSIGHT_RUNTIME_TRIVIAL_METHODS_H_

#include <stddef.h>
#include <stdint.h>

#include "base/locks.h"

namespace art {

class ArtMethod;
class CodeItemDataAccessor;
class DexFile;

namespace hindsight {

// The largest code of a trivial method, in 16-bit code units.
static constexpr size_t kMaxTrivialCodeUnits = 16u;

// The version of the rule, in the key of OAT files. Changes with every change of IsTrivialCode().
static constexpr int kTrivialRuleVersion = 1;

// Whether a method with this code is trivial. It is if the code
// - has at most kMaxTrivialCodeUnits code units and no try block,
// - moves, computes and compares, reads and writes arrays, fields of objects, and static fields of the method's own class,
//   and casts, and does nothing else,
// - branches forwards only, except for jumps to a return that follows without a branch,
// - calls Object.<init> at most, or is a bridge (a method that javac adds to call another one of the same name): then it
//   makes one call, and has no branch.
// So the method itself allocates nothing, takes no lock and initializes no class. It can throw only at null pointers, array
// accesses, casts and divisions. A cast may have to load a class, which takes long and is then not seen.
//
// The answer is the same before and after ART quickens the code. `method_index` and `access_flags` are the method's in
// `dex_file`.
bool IsTrivialCode(const DexFile& dex_file,
                   uint32_t method_index,
                   uint32_t access_flags,
                   const CodeItemDataAccessor& code);

// Whether calls of `method` are not recorded in this process, because it is trivial (see LeavesOutTrivialMethods()).
// Neither native, proxy, abstract nor runtime methods are.
bool IsLeftOut(ArtMethod* method) REQUIRES_SHARED(Locks::mutator_lock_);

// The same for the method that `dex_file` lists at `method_index`, for the compiler, which is not runnable.
bool IsLeftOut(const DexFile& dex_file, uint32_t method_index);

}  // namespace hindsight
}  // namespace art

#endif  // HINDSIGHT_RUNTIME_TRIVIAL_METHODS_H_
