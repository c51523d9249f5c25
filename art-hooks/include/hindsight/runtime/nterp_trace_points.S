// SPDX-License-Identifier: Apache-2.0
//
// Nterp's trace points, included by nterp's main.S of each instruction set. They test the same words as compiled trace
// points, and call the same stubs: see ThreadWords, and cc/runtime/arch/. Static assertions in interpreted_frames.cc
// check the offsets.
//
// In a build that leaves out trivial methods (trivial_methods_default.h), and only while the thread is traced, they ask
// hindsight_is_left_out() whether the method has trace points, at its entry and again at its exit. It does not suspend the
// thread. The words are read again afterwards, since another thread may have changed them.

#include "hindsight/runtime/trivial_methods_default.h"

#define THREAD_HINDSIGHT_EXIT_STUB_OFFSET (THREAD_HINDSIGHT_CURSOR_OFFSET + 3 * __SIZEOF_POINTER__)
#define THREAD_HINDSIGHT_LEAF_STUB_OFFSET (THREAD_HINDSIGHT_CURSOR_OFFSET + 4 * __SIZEOF_POINTER__)

#if defined(__x86_64__)

// The frame is set up, and the method is in rdi, and at the stack pointer. Keeps rdi and the callee-saved registers.
.macro TRACE_NTERP_ENTRY
#if defined(HINDSIGHT_NTERP_ASKS)
    cmpq MACRO_LITERAL(0), %gs:THREAD_HINDSIGHT_LEAF_STUB_OFFSET
    je .Ltrace_nterp_entry\@
    call SYMBOL(hindsight_is_left_out)
    movq (%rsp), %rdi
    testl %eax, %eax
    jne .Ltrace_nterp_entry\@
#endif
    movq %gs:THREAD_HINDSIGHT_LEAF_STUB_OFFSET, %r11
    testq %r11, %r11
    je .Ltrace_nterp_entry\@
    call *%r11
.Ltrace_nterp_entry\@:
.endm

// Before the frame is popped: the method is at the stack pointer. Keeps rax, xmm0 and the callee-saved registers.
.macro TRACE_NTERP_EXIT
#if defined(HINDSIGHT_NTERP_ASKS)
    cmpq MACRO_LITERAL(0), %gs:THREAD_HINDSIGHT_EXIT_STUB_OFFSET
    je .Ltrace_nterp_exit\@
    movq (%rsp), %rdi
    subq MACRO_LITERAL(16), %rsp
    movq %rax, (%rsp)
    movq %xmm0, 8(%rsp)
    call SYMBOL(hindsight_is_left_out)
    movl %eax, %ecx
    movq 8(%rsp), %xmm0
    movq (%rsp), %rax
    addq MACRO_LITERAL(16), %rsp
    testl %ecx, %ecx
    jne .Ltrace_nterp_exit\@
#endif
    movq %gs:THREAD_HINDSIGHT_EXIT_STUB_OFFSET, %rdx
    testq %rdx, %rdx
    je .Ltrace_nterp_exit\@
    call *%rdx
.Ltrace_nterp_exit\@:
.endm

#elif defined(__aarch64__)

// The frame is set up, and the method is in x0, and at the stack pointer; lr is in the frame. Keeps x0 and the callee-saved
// registers.
.macro TRACE_NTERP_ENTRY
#if defined(HINDSIGHT_NTERP_ASKS)
    ldr x16, [xSELF, #THREAD_HINDSIGHT_LEAF_STUB_OFFSET]
    cbz x16, .Ltrace_nterp_entry\@
    bl hindsight_is_left_out
    mov w1, w0
    ldr x0, [sp]
    cbnz w1, .Ltrace_nterp_entry\@
#endif
    ldr x16, [xSELF, #THREAD_HINDSIGHT_LEAF_STUB_OFFSET]
    cbz x16, .Ltrace_nterp_entry\@
    adr x17, .Ltrace_nterp_entry\@
    br x16
.Ltrace_nterp_entry\@:
.endm

// Before the frame is popped: the method is at the stack pointer; lr is in the frame. Keeps x0, d0 and the callee-saved
// registers.
.macro TRACE_NTERP_EXIT
#if defined(HINDSIGHT_NTERP_ASKS)
    ldr x16, [xSELF, #THREAD_HINDSIGHT_EXIT_STUB_OFFSET]
    cbz x16, .Ltrace_nterp_exit\@
    ldr x16, [sp]
    str x0, [sp, #-16]!
    str d0, [sp, #8]
    mov x0, x16
    bl hindsight_is_left_out
    mov w1, w0
    ldr d0, [sp, #8]
    ldr x0, [sp], #16
    cbnz w1, .Ltrace_nterp_exit\@
#endif
    ldr x16, [xSELF, #THREAD_HINDSIGHT_EXIT_STUB_OFFSET]
    cbz x16, .Ltrace_nterp_exit\@
    blr x16
.Ltrace_nterp_exit\@:
.endm

#elif defined(__arm__)

// Nterp is A32 code, and the stubs are T32 code; blx and the stubs' bx switch between the two.

// The frame is set up, and the method is in r0, and at the stack pointer; lr is in the frame. Keeps r0 and the callee-saved
// registers but r4.
.macro TRACE_NTERP_ENTRY
#if defined(HINDSIGHT_NTERP_ASKS)
    ldr r4, [rSELF, #THREAD_HINDSIGHT_LEAF_STUB_OFFSET]
    cmp r4, #0
    beq .Ltrace_nterp_entry\@
    bl hindsight_is_left_out
    mov r1, r0
    ldr r0, [sp]
    cmp r1, #0
    bne .Ltrace_nterp_entry\@
#endif
    ldr r4, [rSELF, #THREAD_HINDSIGHT_LEAF_STUB_OFFSET]
    cmp r4, #0
    beq .Ltrace_nterp_entry\@
    mov ip, lr
    blx r4
.Ltrace_nterp_entry\@:
.endm

// Before the epilogue: the method is at the stack pointer; lr is in the frame. Keeps r0, r1, s0, d0 and the callee-saved
// registers.
.macro TRACE_NTERP_EXIT
#if defined(HINDSIGHT_NTERP_ASKS)
    ldr r2, [rSELF, #THREAD_HINDSIGHT_EXIT_STUB_OFFSET]
    cmp r2, #0
    beq .Ltrace_nterp_exit\@
    ldr r2, [sp]
    sub sp, sp, #16
    strd r0, r1, [sp]
    vstr d0, [sp, #8]
    mov r0, r2
    bl hindsight_is_left_out
    mov r2, r0
    vldr d0, [sp, #8]
    ldrd r0, r1, [sp]
    add sp, sp, #16
    cmp r2, #0
    bne .Ltrace_nterp_exit\@
#endif
    ldr r2, [rSELF, #THREAD_HINDSIGHT_EXIT_STUB_OFFSET]
    cmp r2, #0
    beq .Ltrace_nterp_exit\@
    blx r2
.Ltrace_nterp_exit\@:
.endm

#endif
