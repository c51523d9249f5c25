// SPDX-License-Identifier: Apache-2.0
//
// The test at the entry of a method whose suspend check is also its trace point, in Android 12 and later, where the
// code generators test only some of the thread's flags.

#ifndef HINDSIGHT_COMPILER_TRACE_ENTRY_TEST_H_
#define HINDSIGHT_COMPILER_TRACE_ENTRY_TEST_H_

#include "hindsight/compiler/code_generator_hooks.h"

namespace vixl {
namespace aarch32 {
class Label;
}
namespace aarch64 {
class Label;
}
}  // namespace vixl

namespace art {

class Label;
namespace arm {
class CodeGeneratorARMVIXL;
}
namespace arm64 {
class CodeGeneratorARM64;
}
namespace x86_64 {
class CodeGeneratorX86_64;
}

namespace hindsight {

// If `check` is also a trace point, emits the test of the thread's poll word and the branch to the slow path, and
// returns true. Otherwise emits nothing and returns false.
bool EmitTraceEntryTest(arm::CodeGeneratorARMVIXL* codegen,
                        const HSuspendCheck* check,
                        vixl::aarch32::Label* slow_path);
bool EmitTraceEntryTest(arm64::CodeGeneratorARM64* codegen,
                        const HSuspendCheck* check,
                        vixl::aarch64::Label* slow_path);
bool EmitTraceEntryTest(x86_64::CodeGeneratorX86_64* codegen,
                        const HSuspendCheck* check,
                        Label* slow_path);

}  // namespace hindsight
}  // namespace art

#endif  // HINDSIGHT_COMPILER_TRACE_ENTRY_TEST_H_
