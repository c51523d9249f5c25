// SPDX-License-Identifier: Apache-2.0
//
// The stubs that compiled trace points call. The order matters: IsTraceStub() takes all code from art_quick_trace_entry
// to art_quick_trace_end for stubs that record. The stubs of exits and leaf entries are called only while the thread
// has a cursor, see ThreadWords.

#include "arch/arm64/asm_support_arm64.S"
#include "hindsight/runtime/lab_build.h"

// The first byte of the word `poll`.
#define THREAD_HINDSIGHT_TRACING_OFFSET (THREAD_HINDSIGHT_SUSPEND_OFFSET - 1)

// The slow path of a method's suspend check at its entry. The frame is set up: [sp] is the method.
// Keeps every register but x16 and x17.
ENTRY art_quick_trace_entry
    ldr  xIP0, [xSELF, #THREAD_HINDSIGHT_CURSOR_OFFSET]
    cbz  xIP0, .Lsuspend_check
    ldr  wIP1, [sp]
    str  wIP1, [xIP0]                         // May fault at the end of the ring: HandleRingGuardFault.
    mrs  xIP1, cntvct_el0
    str  wIP1, [xIP0, #4]
    add  xIP0, xIP0, #8
    str  xIP0, [xSELF, #THREAD_HINDSIGHT_CURSOR_OFFSET]
.Lsuspend_check:
    ldrb wIP0, [xSELF, #THREAD_HINDSIGHT_SUSPEND_OFFSET]
    cbnz wIP0, .Lsuspend
    ret
.Lsuspend:
    // Cleared before the flags are read, see ThreadWords.
    strb wzr, [xSELF, #THREAD_HINDSIGHT_SUSPEND_OFFSET]
    dmb  ish
    b    art_quick_test_suspend
END art_quick_trace_entry

// Entry of a method without a suspend check: the method is in x0. x17 holds the return address, because the method may
// not have saved the link register. Keeps every register but x16 and x17.
ENTRY art_quick_trace_entry_leaf
    str  xIP1, [sp, #-16]!
    .cfi_adjust_cfa_offset 16
    ldr  xIP0, [xSELF, #THREAD_HINDSIGHT_CURSOR_OFFSET]
    mrs  xIP1, cntvct_el0
    stp  w0, wIP1, [xIP0], #8
    str  xIP0, [xSELF, #THREAD_HINDSIGHT_CURSOR_OFFSET]
    ldr  xIP1, [sp], #16
    .cfi_adjust_cfa_offset -16
    br   xIP1
END art_quick_trace_entry_leaf

// Jumped to in place of a return; the frame is gone. Keeps every register but x16 and x17.
ENTRY art_quick_trace_exit
    ldr  xIP0, [xSELF, #THREAD_HINDSIGHT_CURSOR_OFFSET]
    mrs  xIP1, cntvct_el0
    stp  wzr, wIP1, [xIP0], #8
    str  xIP0, [xSELF, #THREAD_HINDSIGHT_CURSOR_OFFSET]
    ret
END art_quick_trace_exit

ENTRY art_quick_trace_end
    ret
END art_quick_trace_end

#if defined(HINDSIGHT_LAB)

// The slow-path stubs, which protocol=lock-free installs in place of the stubs above while the thread is asked to stop,
// or has just been started. They preserve the registers that the replaced stubs preserve.

ENTRY art_quick_trace_entry_slow_path
    ldrb wIP0, [xSELF, #THREAD_HINDSIGHT_TRACING_OFFSET]
    cbz  wIP0, .Lrecorded
    ldr  xIP0, [sp]
    adr  xIP1, .Lrecorded
    b    art_quick_trace_slow_path
.Lrecorded:
    b    .Lsuspend_check
END art_quick_trace_entry_slow_path

ENTRY art_quick_trace_entry_leaf_slow_path
    mov  xIP0, x0
    b    art_quick_trace_slow_path
END art_quick_trace_entry_leaf_slow_path

ENTRY art_quick_trace_exit_slow_path
    mov  xIP0, xzr
    mov  xIP1, xLR
    b    art_quick_trace_slow_path
END art_quick_trace_exit_slow_path

// Calls hindsight_trace_point for an entry of the method in x16, or for an exit if x16 is 0. x17 holds the return
// address. Keeps every other register.
ENTRY art_quick_trace_slow_path
    sub  sp, sp, #352
    .cfi_adjust_cfa_offset 352
    stp  x0, x1, [sp, #0]
    stp  x2, x3, [sp, #16]
    stp  x4, x5, [sp, #32]
    stp  x6, x7, [sp, #48]
    stp  x8, x9, [sp, #64]
    stp  x10, x11, [sp, #80]
    stp  x12, x13, [sp, #96]
    stp  x14, x15, [sp, #112]
    stp  x17, x18, [sp, #128]
    str  xLR, [sp, #144]
    .cfi_rel_offset x30, 144
    stp  d0, d1, [sp, #160]
    stp  d2, d3, [sp, #176]
    stp  d4, d5, [sp, #192]
    stp  d6, d7, [sp, #208]
    stp  d16, d17, [sp, #224]
    stp  d18, d19, [sp, #240]
    stp  d20, d21, [sp, #256]
    stp  d22, d23, [sp, #272]
    stp  d24, d25, [sp, #288]
    stp  d26, d27, [sp, #304]
    stp  d28, d29, [sp, #320]
    stp  d30, d31, [sp, #336]
    add  x0, xSELF, #THREAD_HINDSIGHT_CURSOR_OFFSET
    mov  x1, xIP0
    bl   hindsight_trace_point                // (ThreadWords*, method)
    ldp  x0, x1, [sp, #0]
    ldp  x2, x3, [sp, #16]
    ldp  x4, x5, [sp, #32]
    ldp  x6, x7, [sp, #48]
    ldp  x8, x9, [sp, #64]
    ldp  x10, x11, [sp, #80]
    ldp  x12, x13, [sp, #96]
    ldp  x14, x15, [sp, #112]
    ldp  x17, x18, [sp, #128]
    ldr  xLR, [sp, #144]
    .cfi_restore x30
    ldp  d0, d1, [sp, #160]
    ldp  d2, d3, [sp, #176]
    ldp  d4, d5, [sp, #192]
    ldp  d6, d7, [sp, #208]
    ldp  d16, d17, [sp, #224]
    ldp  d18, d19, [sp, #240]
    ldp  d20, d21, [sp, #256]
    ldp  d22, d23, [sp, #272]
    ldp  d24, d25, [sp, #288]
    ldp  d26, d27, [sp, #304]
    ldp  d28, d29, [sp, #320]
    ldp  d30, d31, [sp, #336]
    add  sp, sp, #352
    .cfi_adjust_cfa_offset -352
    br   xIP1
END art_quick_trace_slow_path

#endif  // HINDSIGHT_LAB
