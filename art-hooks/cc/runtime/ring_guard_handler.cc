// SPDX-License-Identifier: Apache-2.0

#include "ring_guard_handler.h"

#include <signal.h>
#include <ucontext.h>

#include "hindsight/runtime/recorder_abi.h"
#include "thread-current-inl.h"

namespace art {
namespace hindsight {

namespace {

#if defined(__x86_64__)
uintptr_t GetPc(const ucontext_t* context) {
  return context->uc_mcontext.gregs[REG_RIP];
}

// The register that trace points hold the cursor in: ART's scratch register, r11.
greg_t* CursorRegister(ucontext_t* context) {
  return &context->uc_mcontext.gregs[REG_R11];
}
#endif

}  // namespace

RingGuardHandler::RingGuardHandler(FaultManager* manager) : FaultHandler(manager) {
  manager->AddHandler(this, /* generated_code= */ false);
}

bool RingGuardHandler::Action(int sig, siginfo_t* info, void* context) {
#if defined(__x86_64__)
  Thread* self = Thread::Current();
  if (sig != SIGSEGV || self == nullptr || *self->GetHindsightState() == nullptr) {
    return false;
  }
  ucontext_t* uc = reinterpret_cast<ucontext_t*>(context);
  greg_t* cursor = CursorRegister(uc);
  const uintptr_t start = hindsight_wrap(*self->GetHindsightState(),
                                         reinterpret_cast<uintptr_t>(info->si_addr),
                                         static_cast<uintptr_t>(*cursor),
                                         GetPc(uc));
  if (start == 0u) {
    return false;  // Hit by anything but a trace point, it is a bug, and has to crash as one.
  }
  *cursor = static_cast<greg_t>(start);
  return true;
#else
  UNUSED(sig, info, context);
  return false;
#endif
}

}  // namespace hindsight
}  // namespace art
