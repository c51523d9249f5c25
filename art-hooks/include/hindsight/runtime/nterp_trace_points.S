// SPDX-License-Identifier: Apache-2.0
//
// Nterp's trace points, included by nterp's main.S of each instruction set. They test the same words as compiled trace
// points, and call the same stubs: see ThreadWords, and cc/runtime/arch/. Static assertions in interpreted_frames.cc
// check the offsets.

#define THREAD_HINDSIGHT_EXIT_STUB_OFFSET (THREAD_HINDSIGHT_CURSOR_OFFSET + 3 * __SIZEOF_POINTER__)
#define THREAD_HINDSIGHT_LEAF_STUB_OFFSET (THREAD_HINDSIGHT_CURSOR_OFFSET + 4 * __SIZEOF_POINTER__)

#if defined(__x86_64__)

// The frame is set up, and the method is in rdi. Keeps every register but r11.
.macro TRACE_NTERP_ENTRY
    movq %gs:THREAD_HINDSIGHT_LEAF_STUB_OFFSET, %r11
    testq %r11, %r11
    jz .Ltrace_nterp_entry\@
    call *%r11
.Ltrace_nterp_entry\@:
.endm

// In place of the return instruction. Keeps rax, xmm0 and the callee-saved registers.
.macro TRACE_NTERP_EXIT_AND_RETURN
    movq %gs:THREAD_HINDSIGHT_EXIT_STUB_OFFSET, %rdx
    testq %rdx, %rdx
    jnz .Ltrace_nterp_exit\@
    ret
.Ltrace_nterp_exit\@:
    jmp *%rdx
.endm

#elif defined(__aarch64__)

// The frame is set up, and the method is in x0. Keeps every register but x16 and x17.
.macro TRACE_NTERP_ENTRY
    ldr x16, [xSELF, #THREAD_HINDSIGHT_LEAF_STUB_OFFSET]
    cbz x16, .Ltrace_nterp_entry\@
    adr x17, .Ltrace_nterp_entry\@
    br x16
.Ltrace_nterp_entry\@:
.endm

// In place of the return instruction. Keeps x0, d0 and the callee-saved registers.
.macro TRACE_NTERP_EXIT_AND_RETURN
    ldr x16, [xSELF, #THREAD_HINDSIGHT_EXIT_STUB_OFFSET]
    cbnz x16, .Ltrace_nterp_exit\@
    ret
.Ltrace_nterp_exit\@:
    br x16
.endm

#elif defined(__arm__)

// Nterp is A32 code, and the stubs are T32 code; blx and the stubs' bx switch between the two.

// The frame is set up, and the method is in r0. Keeps every register but r4 and ip.
.macro TRACE_NTERP_ENTRY
    ldr r4, [rSELF, #THREAD_HINDSIGHT_LEAF_STUB_OFFSET]
    cmp r4, #0
    beq .Ltrace_nterp_entry\@
    mov ip, lr
    blx r4
.Ltrace_nterp_entry\@:
.endm

// Before the epilogue; lr is in the frame. Keeps r0, r1, s0, d0 and the callee-saved registers.
.macro TRACE_NTERP_EXIT
    ldr r2, [rSELF, #THREAD_HINDSIGHT_EXIT_STUB_OFFSET]
    cmp r2, #0
    beq .Ltrace_nterp_exit\@
    blx r2
.Ltrace_nterp_exit\@:
.endm

#endif
