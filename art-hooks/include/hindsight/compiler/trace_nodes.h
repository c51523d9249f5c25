// SPDX-License-Identifier: Apache-2.0
//
// The two graph nodes of trace points. compiler/optimizing/nodes.h includes this file and lists the
// nodes among the concrete instructions, which declares their visitors. The definitions of the visitors
// are in art-hooks/cc/compiler/.

#ifndef HINDSIGHT_COMPILER_TRACE_NODES_H_
#define HINDSIGHT_COMPILER_TRACE_NODES_H_

namespace art {

// Records the entry of the method being compiled. Its input is the current method.
//
// It has no side effects that an optimization could observe: it calls nothing, throws nothing and allocates nothing.
// It is inserted after all optimizations, so none sees it.
//
// In the shared form the suspend check behind it records the entry; only in a method without a suspend check it has
// code of its own.
class HTraceStart final : public HExpression<1> {
 public:
  HTraceStart(HInstruction* current_method, bool shares_suspend_check, uint32_t dex_pc)
      : HExpression(kTraceStart, SideEffects::None(), dex_pc),
        shares_suspend_check_(shares_suspend_check),
        shared_exit_(-1) {
    SetRawInputAt(0, current_method);
  }

  // Whether the method's trace points have the shared form.
  bool SharesSuspendCheck() const { return shares_suspend_check_; }

  // Offset in the method's code to which later exits may branch, or -1 before the first exit.
  int32_t GetSharedExit() const { return shared_exit_; }
  void SetSharedExit(int32_t offset) { shared_exit_ = offset; }

  DECLARE_INSTRUCTION(TraceStart);

 protected:
  DEFAULT_COPY_CONSTRUCTOR(TraceStart);

 private:
  const bool shares_suspend_check_;
  int32_t shared_exit_;
};

// Records the exit of the method being compiled, right before an HReturn or HReturnVoid.
//
// In the shared form it has no code: EmitTracedReturn() emits the exit. In the inline form its only input, if any, is
// the value that is about to be returned. Because it asks for that value in the return register, the trace point may
// use every other caller-saved register.
class HTraceEnd final : public HVariableInputSizeInstruction {
 public:
  HTraceEnd(ArenaAllocator* allocator, HInstruction* returned_or_null, uint32_t dex_pc)
      : HVariableInputSizeInstruction(kTraceEnd,
                                      SideEffects::None(),
                                      dex_pc,
                                      allocator,
                                      returned_or_null == nullptr ? 0u : 1u,
                                      kArenaAllocMisc) {
    if (returned_or_null != nullptr) {
      SetRawInputAt(0, returned_or_null);
    }
  }

  bool ReturnsValueInCoreRegister() const { return InputCount() != 0u; }

  DECLARE_INSTRUCTION(TraceEnd);

 protected:
  DEFAULT_COPY_CONSTRUCTOR(TraceEnd);
};

}  // namespace art

#endif  // HINDSIGHT_COMPILER_TRACE_NODES_H_
