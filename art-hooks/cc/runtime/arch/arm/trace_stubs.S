// SPDX-License-Identifier: Apache-2.0
//
// The stubs that compiled trace points call. The order matters: IsTraceStub() takes all code from art_quick_trace_entry
// to art_quick_trace_end for stubs that record. The stubs of exits and leaf entries are called only while the thread
// has a cursor, see ThreadWords. The strd in each may fault at the end of the ring:
// HandleRingGuardFault takes the cursor's register from that instruction.

#include "arch/arm/asm_support_arm.S"
#include "hindsight/runtime/lab_build.h"

// The first byte of the word `poll`.
#define THREAD_HINDSIGHT_TRACING_OFFSET (THREAD_HINDSIGHT_SUSPEND_OFFSET - 1)

// The slow path of a method's suspend check at its entry. The frame is set up: [sp] is the method.
// Keeps every register but ip.
ENTRY art_quick_trace_entry
    ldr  ip, [rSELF, #THREAD_HINDSIGHT_CURSOR_OFFSET]
    cmp  ip, #0
    beq  .Lsuspend_check
    push {r2, r3}
    .cfi_adjust_cfa_offset 8
    mov  r2, ip
    mrrc p15, #1, r3, ip, c14
    ldr  ip, [sp, #8]
    strd ip, r3, [r2], #8
    str  r2, [rSELF, #THREAD_HINDSIGHT_CURSOR_OFFSET]
    pop  {r2, r3}
    .cfi_adjust_cfa_offset -8
.Lsuspend_check:
    ldrb ip, [rSELF, #THREAD_HINDSIGHT_SUSPEND_OFFSET]
    cmp  ip, #0
    bne  .Lsuspend
    bx   lr
.Lsuspend:
    // Cleared before the flags are read, see ThreadWords.
    mov  ip, #0
    strb ip, [rSELF, #THREAD_HINDSIGHT_SUSPEND_OFFSET]
    dmb  ish
    b    art_quick_test_suspend
END art_quick_trace_entry

// Entry of a method without a suspend check: the method is in r0. ip holds the method's lr, which it may not have
// saved, and which is put back. Keeps every other register but r4 and ip.
ENTRY art_quick_trace_entry_leaf
    ldr  r4, [rSELF, #THREAD_HINDSIGHT_CURSOR_OFFSET]
    push {r2, r3}
    .cfi_adjust_cfa_offset 8
    mrrc p15, #1, r2, r3, c14
    strd r0, r2, [r4], #8
    str  r4, [rSELF, #THREAD_HINDSIGHT_CURSOR_OFFSET]
    pop  {r2, r3}
    .cfi_adjust_cfa_offset -8
    mov  r4, lr
    mov  lr, ip
    bx   r4
END art_quick_trace_entry_leaf

// Called before the epilogue, or jumped to where the method has no frame. Keeps r0, r1, the callee-saved and
// the floating-point registers.
ENTRY art_quick_trace_exit
    ldr  r2, [rSELF, #THREAD_HINDSIGHT_CURSOR_OFFSET]
    mrrc p15, #1, r3, ip, c14
    mov  ip, #0
    strd ip, r3, [r2], #8
    str  r2, [rSELF, #THREAD_HINDSIGHT_CURSOR_OFFSET]
    bx   lr
END art_quick_trace_exit

ENTRY art_quick_trace_end
    bx   lr
END art_quick_trace_end

#if defined(HINDSIGHT_LAB)

// The slow-path stubs, which protocol=lock-free installs in place of the stubs above while the thread is asked to stop,
// or has just been started. They preserve the registers that the replaced stubs preserve.

ENTRY art_quick_trace_entry_slow_path
    ldrb ip, [rSELF, #THREAD_HINDSIGHT_TRACING_OFFSET]
    cmp  ip, #0
    beq.w .Lsuspend_check
    ldr  ip, [sp]
    push {r4, lr}
    .cfi_adjust_cfa_offset 8
    .cfi_rel_offset lr, 4
    bl   art_quick_trace_slow_path
    pop  {r4, lr}
    .cfi_restore lr
    .cfi_adjust_cfa_offset -8
    b    .Lsuspend_check
END art_quick_trace_entry_slow_path

ENTRY art_quick_trace_entry_leaf_slow_path
    mov  r4, lr
    push {r4, ip}
    .cfi_adjust_cfa_offset 8
    mov  ip, r0
    bl   art_quick_trace_slow_path
    pop  {r4, lr}
    .cfi_adjust_cfa_offset -8
    bx   r4
END art_quick_trace_entry_leaf_slow_path

ENTRY art_quick_trace_exit_slow_path
    push {r4, lr}
    .cfi_adjust_cfa_offset 8
    .cfi_rel_offset lr, 4
    mov  ip, #0
    bl   art_quick_trace_slow_path
    pop  {r4, pc}
END art_quick_trace_exit_slow_path

// Calls hindsight_trace_point for an entry of the method in ip, or for an exit if ip is 0. Keeps every register but ip
// and lr.
ENTRY art_quick_trace_slow_path
    push {r0-r4, lr}
    .cfi_adjust_cfa_offset 24
    .cfi_rel_offset lr, 20
    vpush {d0-d7}
    .cfi_adjust_cfa_offset 64
    add  r0, rSELF, #THREAD_HINDSIGHT_CURSOR_OFFSET
    mov  r1, ip
    bl   hindsight_trace_point                // (ThreadWords*, method)
    vpop {d0-d7}
    .cfi_adjust_cfa_offset -64
    pop  {r0-r4, pc}
END art_quick_trace_slow_path

#endif  // HINDSIGHT_LAB
