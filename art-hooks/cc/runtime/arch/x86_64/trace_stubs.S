// SPDX-License-Identifier: Apache-2.0
//
// The stubs that compiled trace points call. The order matters: IsTraceStub() takes all code from art_quick_trace_entry
// to art_quick_trace_end for stubs that record. The stubs of exits and leaf entries are called only while the thread
// has a cursor, see ThreadWords.

#include "arch/x86_64/asm_support_x86_64.S"
#include "hindsight/runtime/lab_build.h"
#include "hindsight/runtime/slot_words.h"

// The first byte of the word `poll`.
#define THREAD_HINDSIGHT_TRACING_OFFSET (THREAD_HINDSIGHT_SUSPEND_OFFSET - 1)
#define THREAD_HINDSIGHT_EPOCH_OFFSET (THREAD_HINDSIGHT_CURSOR_OFFSET + HINDSIGHT_EPOCH)
#define THREAD_HINDSIGHT_REWIND_BELOW_OFFSET (THREAD_HINDSIGHT_CURSOR_OFFSET + HINDSIGHT_REWIND_BELOW)
#define THREAD_HINDSIGHT_TAKEN_BACK_OFFSET (THREAD_HINDSIGHT_CURSOR_OFFSET + HINDSIGHT_TAKEN_BACK_COUNT)
#define THREAD_HINDSIGHT_REWIND_LOG_OFFSET (THREAD_HINDSIGHT_CURSOR_OFFSET + HINDSIGHT_REWIND_LOG)

// With the counter in edx:eax and the cursor in r11: records FullTime, as the upper half of the counter has changed since
// the thread's last slot. Its payload is an upper bound for that slot's counter, and the counter now. Changes edx.
MACRO0(RECORD_FULL_TIME)
    xchgl %edx, %gs:THREAD_HINDSIGHT_EPOCH_OFFSET
    movl LITERAL(-1), (%r11)                  // May fault at the end of the ring, as the next two stores of this kind.
    movl %edx, 4(%r11)
    addq LITERAL(8), %r11
    movl %eax, (%r11)
    movl %gs:THREAD_HINDSIGHT_EPOCH_OFFSET, %edx
    movl %edx, 4(%r11)
    addq LITERAL(8), %r11
    movl LITERAL(HINDSIGHT_FULL_TIME), (%r11)
    movl %eax, 4(%r11)
    addq LITERAL(8), %r11
END_MACRO

// The slow path of a method's suspend check at its entry. The frame is set up: 0(%rsp) is the return
// address, 8(%rsp) the method. Keeps every register but r11.
DEFINE_FUNCTION art_quick_trace_entry
    movq %gs:THREAD_HINDSIGHT_CURSOR_OFFSET, %r11
    testq %r11, %r11
    jz .Lsuspend_check
    pushq %rax
    CFI_ADJUST_CFA_OFFSET(8)
    pushq %rdx
    CFI_ADJUST_CFA_OFFSET(8)
    rdtsc
    cmpl %edx, %gs:THREAD_HINDSIGHT_EPOCH_OFFSET
    jne .Lentry_in_new_epoch
.Lrecord_entry:
    movl 24(%rsp), %edx
    movl %edx, (%r11)                         // May fault at the end of the ring: HandleRingGuardFault.
    movl %eax, 4(%r11)
    addq LITERAL(8), %r11
    movq %r11, %gs:THREAD_HINDSIGHT_CURSOR_OFFSET
    popq %rdx
    CFI_ADJUST_CFA_OFFSET(-8)
    popq %rax
    CFI_ADJUST_CFA_OFFSET(-8)
.Lsuspend_check:
    cmpb LITERAL(0), %gs:THREAD_HINDSIGHT_SUSPEND_OFFSET
    jne .Lsuspend
    ret
.Lsuspend:
    // Cleared before the flags are read, see ThreadWords.
    lock
    andb LITERAL(0), %gs:THREAD_HINDSIGHT_SUSPEND_OFFSET
    jmp SYMBOL(art_quick_test_suspend)
.Lentry_in_new_epoch:
    CFI_ADJUST_CFA_OFFSET(16)
    RECORD_FULL_TIME
    jmp .Lrecord_entry
    CFI_ADJUST_CFA_OFFSET(-16)
END_FUNCTION art_quick_trace_entry

// Entry of a method without a suspend check: the method is in rdi. Keeps every register but r11.
DEFINE_FUNCTION art_quick_trace_entry_leaf
    movq %gs:THREAD_HINDSIGHT_CURSOR_OFFSET, %r11
    pushq %rax
    CFI_ADJUST_CFA_OFFSET(8)
    pushq %rdx
    CFI_ADJUST_CFA_OFFSET(8)
    rdtsc
    cmpl %edx, %gs:THREAD_HINDSIGHT_EPOCH_OFFSET
    jne .Lleaf_entry_in_new_epoch
.Lrecord_leaf_entry:
    movl %edi, (%r11)
    movl %eax, 4(%r11)
    addq LITERAL(8), %r11
    movq %r11, %gs:THREAD_HINDSIGHT_CURSOR_OFFSET
    popq %rdx
    CFI_ADJUST_CFA_OFFSET(-8)
    popq %rax
    CFI_ADJUST_CFA_OFFSET(-8)
    ret
.Lleaf_entry_in_new_epoch:
    CFI_ADJUST_CFA_OFFSET(16)
    RECORD_FULL_TIME
    jmp .Lrecord_leaf_entry
    CFI_ADJUST_CFA_OFFSET(-16)
END_FUNCTION art_quick_trace_entry_leaf

// Jumped to in place of a return (the frame is gone), or called. Keeps every register but rdx, r10 and r11.
//
// If the last slot is the entry of this call, and younger than the limit, the call is taken back: the cursor goes back over
// that slot. The slot before a ring's first is no entry. Within one epoch the low half of the counter is enough.
DEFINE_FUNCTION art_quick_trace_exit
    movq %gs:THREAD_HINDSIGHT_CURSOR_OFFSET, %r11
    movq %rax, %r10
    rdtsc
    cmpl %edx, %gs:THREAD_HINDSIGHT_EPOCH_OFFSET
    jne .Lexit_in_new_epoch
    cmpl LITERAL(HINDSIGHT_FIRST_METHOD), -8(%r11)
    jb .Lrecord_exit
    movl %eax, %edx
    subl -4(%r11), %edx
    cmpl %gs:THREAD_HINDSIGHT_REWIND_BELOW_OFFSET, %edx
    jae .Lrecord_exit
#if defined(HINDSIGHT_LAB)
    // Notes the slot, the counter at the exit, and the lower half of the slot's address.
    movq %gs:THREAD_HINDSIGHT_REWIND_LOG_OFFSET, %rdx
    testq %rdx, %rdx
    jz .Ltake_back
    addq LITERAL(16), %gs:THREAD_HINDSIGHT_REWIND_LOG_OFFSET
    movl %eax, 8(%rdx)
    leaq -8(%r11), %rax
    movl %eax, 12(%rdx)
    movq (%rax), %rax
    movq %rax, (%rdx)
.Ltake_back:
#endif
    movl LITERAL(HINDSIGHT_TAKEN_BACK), -8(%r11)
    subq LITERAL(8), %r11
    movq %r11, %gs:THREAD_HINDSIGHT_CURSOR_OFFSET
    addq LITERAL(1), %gs:THREAD_HINDSIGHT_TAKEN_BACK_OFFSET
    movq %r10, %rax
    ret
.Lexit_in_new_epoch:
    RECORD_FULL_TIME
.Lrecord_exit:
    movl LITERAL(0), (%r11)
    movl %eax, 4(%r11)
    addq LITERAL(8), %r11
    movq %r11, %gs:THREAD_HINDSIGHT_CURSOR_OFFSET
    movq %r10, %rax
    ret
END_FUNCTION art_quick_trace_exit

DEFINE_FUNCTION art_quick_trace_end
    ret
END_FUNCTION art_quick_trace_end

#if defined(HINDSIGHT_LAB)

// The slow-path stubs, which protocol=lock-free installs in place of the stubs above while the thread is asked to stop,
// or has just been started. They preserve the registers that the replaced stubs preserve.

DEFINE_FUNCTION art_quick_trace_entry_slow_path
    cmpb LITERAL(0), %gs:THREAD_HINDSIGHT_TRACING_OFFSET
    je .Lsuspend_check
    movq 8(%rsp), %r11
    call SYMBOL(art_quick_trace_slow_path)
    jmp .Lsuspend_check
END_FUNCTION art_quick_trace_entry_slow_path

DEFINE_FUNCTION art_quick_trace_entry_leaf_slow_path
    movq %rdi, %r11
    jmp SYMBOL(art_quick_trace_slow_path)
END_FUNCTION art_quick_trace_entry_leaf_slow_path

DEFINE_FUNCTION art_quick_trace_exit_slow_path
    xorl %r11d, %r11d
    jmp SYMBOL(art_quick_trace_slow_path)
END_FUNCTION art_quick_trace_exit_slow_path

// Calls hindsight_trace_point for an entry of the method in r11, or for an exit if r11 is 0. Keeps every other
// register.
DEFINE_FUNCTION art_quick_trace_slow_path
    pushq %rbp
    CFI_ADJUST_CFA_OFFSET(8)
    CFI_REL_OFFSET(rbp, 0)
    movq %rsp, %rbp
    CFI_DEF_CFA_REGISTER(rbp)
    pushq %rax
    pushq %rcx
    pushq %rdx
    pushq %rsi
    pushq %rdi
    pushq %r8
    pushq %r9
    pushq %r10
    subq LITERAL(16 * 16), %rsp
    andq LITERAL(-16), %rsp
    movaps %xmm0, (0 * 16)(%rsp)
    movaps %xmm1, (1 * 16)(%rsp)
    movaps %xmm2, (2 * 16)(%rsp)
    movaps %xmm3, (3 * 16)(%rsp)
    movaps %xmm4, (4 * 16)(%rsp)
    movaps %xmm5, (5 * 16)(%rsp)
    movaps %xmm6, (6 * 16)(%rsp)
    movaps %xmm7, (7 * 16)(%rsp)
    movaps %xmm8, (8 * 16)(%rsp)
    movaps %xmm9, (9 * 16)(%rsp)
    movaps %xmm10, (10 * 16)(%rsp)
    movaps %xmm11, (11 * 16)(%rsp)
    movaps %xmm12, (12 * 16)(%rsp)
    movaps %xmm13, (13 * 16)(%rsp)
    movaps %xmm14, (14 * 16)(%rsp)
    movaps %xmm15, (15 * 16)(%rsp)
    movq %gs:THREAD_SELF_OFFSET, %rdi
    addq LITERAL(THREAD_HINDSIGHT_CURSOR_OFFSET), %rdi
    movq %r11, %rsi
    call SYMBOL(hindsight_trace_point)        // (ThreadWords*, method)
    movaps (0 * 16)(%rsp), %xmm0
    movaps (1 * 16)(%rsp), %xmm1
    movaps (2 * 16)(%rsp), %xmm2
    movaps (3 * 16)(%rsp), %xmm3
    movaps (4 * 16)(%rsp), %xmm4
    movaps (5 * 16)(%rsp), %xmm5
    movaps (6 * 16)(%rsp), %xmm6
    movaps (7 * 16)(%rsp), %xmm7
    movaps (8 * 16)(%rsp), %xmm8
    movaps (9 * 16)(%rsp), %xmm9
    movaps (10 * 16)(%rsp), %xmm10
    movaps (11 * 16)(%rsp), %xmm11
    movaps (12 * 16)(%rsp), %xmm12
    movaps (13 * 16)(%rsp), %xmm13
    movaps (14 * 16)(%rsp), %xmm14
    movaps (15 * 16)(%rsp), %xmm15
    leaq (-8 * 8)(%rbp), %rsp
    popq %r10
    popq %r9
    popq %r8
    popq %rdi
    popq %rsi
    popq %rdx
    popq %rcx
    popq %rax
    popq %rbp
    CFI_RESTORE(rbp)
    CFI_DEF_CFA(rsp, 8)
    ret
END_FUNCTION art_quick_trace_slow_path

#endif  // HINDSIGHT_LAB
