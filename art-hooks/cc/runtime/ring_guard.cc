// SPDX-License-Identifier: Apache-2.0

#include "hindsight/runtime/ring_guard.h"

#include <ucontext.h>

#include "hindsight/runtime/recorder_abi.h"
#include "hindsight/runtime/trace_stubs.h"
#include "thread-current-inl.h"

namespace art {
namespace hindsight {

namespace {

#if defined(__x86_64__)
#define HINDSIGHT_HAS_TRACE_POINTS

uintptr_t GetPc(const ucontext_t* context) {
  return context->uc_mcontext.gregs[REG_RIP];
}

// The register that holds a trace point's cursor: ART's scratch register, r11.
greg_t* CursorRegister(ucontext_t* context) {
  return &context->uc_mcontext.gregs[REG_R11];
}
#elif defined(__aarch64__)
#define HINDSIGHT_HAS_TRACE_POINTS

uintptr_t GetPc(const ucontext_t* context) {
  return context->uc_mcontext.pc;
}

// The register that holds a trace point's cursor: the first scratch register, x16.
decltype(mcontext_t::pc)* CursorRegister(ucontext_t* context) {
  return reinterpret_cast<decltype(mcontext_t::pc)*>(&context->uc_mcontext.regs[16]);
}
#elif defined(__arm__)
#define HINDSIGHT_HAS_TRACE_POINTS

uintptr_t GetPc(const ucontext_t* context) {
  return context->uc_mcontext.arm_pc;
}

// The register that holds a trace point's cursor: the low register that the store names.
unsigned long* CursorRegister(ucontext_t* context) {  // NOLINT(runtime/int): sys/ucontext.h's type
  constexpr unsigned long kThumbBit = 1u << 5;        // NOLINT(runtime/int)
  const bool is_thumb = (context->uc_mcontext.arm_cpsr & kThumbBit) != 0u;
  switch (is_thumb ? hindsight_cursor_register(GetPc(context)) : -1) {
    case 0:
      return &context->uc_mcontext.arm_r0;
    case 1:
      return &context->uc_mcontext.arm_r1;
    case 2:
      return &context->uc_mcontext.arm_r2;
    case 3:
      return &context->uc_mcontext.arm_r3;
    case 4:
      return &context->uc_mcontext.arm_r4;
    case 5:
      return &context->uc_mcontext.arm_r5;
    case 6:
      return &context->uc_mcontext.arm_r6;
    case 7:
      return &context->uc_mcontext.arm_r7;
    default:
      return nullptr;
  }
}
#endif

}  // namespace

bool HandleRingGuardFault(int sig, siginfo_t* info, void* context) {
#if defined(HINDSIGHT_HAS_TRACE_POINTS)
  Thread* self = Thread::Current();
  if (sig != SIGSEGV || self == nullptr || self->GetHindsightWords()->state == nullptr) {
    return false;
  }
  ucontext_t* uc = reinterpret_cast<ucontext_t*>(context);
  const uintptr_t fault_address = reinterpret_cast<uintptr_t>(info->si_addr);
  // The address is checked first: the bytes at the PC are known to be readable only if this thread has stored to its
  // own guard page.
  if (!hindsight_is_at_guard(self->GetHindsightWords()->state, fault_address)) {
    return false;
  }
  auto* cursor = CursorRegister(uc);
  if (cursor == nullptr) {
    return false;
  }
  const uintptr_t pc = GetPc(uc);
  const uintptr_t start = hindsight_wrap(self->GetHindsightWords()->state,
                                         fault_address,
                                         static_cast<uintptr_t>(*cursor),
                                         IsTraceStub(pc) ? 0u : pc);
  if (start == 0u) {
    return false;  // Another instruction has hit the guard page: a bug, which must crash as one.
  }
  *cursor = start;
  return true;
#else
  UNUSED(sig, info, context);
  return false;
#endif
}

}  // namespace hindsight
}  // namespace art
