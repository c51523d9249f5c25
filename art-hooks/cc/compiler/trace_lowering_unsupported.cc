// SPDX-License-Identifier: Apache-2.0
//
// The visitors of instruction sets without trace points. nodes.h declares them for every code generator; no graph of
// these instruction sets has a node for them.

#ifdef ART_ENABLE_CODEGEN_x86
#include "optimizing/code_generator_x86.h"
#endif
#ifdef ART_ENABLE_CODEGEN_mips
#include "optimizing/code_generator_mips.h"
#endif
#ifdef ART_ENABLE_CODEGEN_mips64
#include "optimizing/code_generator_mips64.h"
#endif

#include "android-base/logging.h"

namespace art {

#define DEFINE_UNREACHABLE_VISITORS(isa, suffix)                                                  \
  namespace isa {                                                                                 \
  void LocationsBuilder##suffix::VisitTraceStart(HTraceStart*) { LOG(FATAL) << "Unreachable"; }   \
  void LocationsBuilder##suffix::VisitTraceEnd(HTraceEnd*) { LOG(FATAL) << "Unreachable"; }       \
  void InstructionCodeGenerator##suffix::VisitTraceStart(HTraceStart*) {                          \
    LOG(FATAL) << "Unreachable";                                                                  \
  }                                                                                               \
  void InstructionCodeGenerator##suffix::VisitTraceEnd(HTraceEnd*) { LOG(FATAL) << "Unreachable"; } \
  }  // namespace isa

#ifdef ART_ENABLE_CODEGEN_x86
DEFINE_UNREACHABLE_VISITORS(x86, X86)
#endif
#ifdef ART_ENABLE_CODEGEN_mips
DEFINE_UNREACHABLE_VISITORS(mips, MIPS)
#endif
#ifdef ART_ENABLE_CODEGEN_mips64
DEFINE_UNREACHABLE_VISITORS(mips64, MIPS64)
#endif

}  // namespace art
