// SPDX-License-Identifier: Apache-2.0
//
// What compiled trace points call while there is something to do. The order matters: IsTraceStub()
// takes everything from art_quick_trace_entry to art_quick_trace_end. Those of exits and leaf entries are
// called only while there is a cursor, see ThreadWords.

#include "arch/x86_64/asm_support_x86_64.S"

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
    // Cleared before the flags are looked at, see ThreadWords.
    lock
    andb LITERAL(0), %gs:THREAD_HINDSIGHT_SUSPEND_OFFSET
    jmp SYMBOL(art_quick_test_suspend)
END_FUNCTION art_quick_trace_entry

// Entry of a method without suspend check: the method is in rdi. Keeps every register but r11.
DEFINE_FUNCTION art_quick_trace_entry_leaf
    movq %gs:THREAD_HINDSIGHT_CURSOR_OFFSET, %r11
    pushq %rax
    CFI_ADJUST_CFA_OFFSET(8)
    pushq %rdx
    CFI_ADJUST_CFA_OFFSET(8)
    rdtsc
    movl %edi, (%r11)
    movl %eax, 4(%r11)
    addq LITERAL(8), %r11
    movq %r11, %gs:THREAD_HINDSIGHT_CURSOR_OFFSET
    popq %rdx
    CFI_ADJUST_CFA_OFFSET(-8)
    popq %rax
    CFI_ADJUST_CFA_OFFSET(-8)
    ret
END_FUNCTION art_quick_trace_entry_leaf

// Jumped to instead of returning; the frame is gone. Keeps rax and xmm0, the callee-saved registers and
// nothing else.
DEFINE_FUNCTION art_quick_trace_exit
    movq %gs:THREAD_HINDSIGHT_CURSOR_OFFSET, %r11
    movq %rax, %r10
    rdtsc
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
