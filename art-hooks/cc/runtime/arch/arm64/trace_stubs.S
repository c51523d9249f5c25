// SPDX-License-Identifier: Apache-2.0
//
// What compiled trace points call while there is something to do. The order matters: IsTraceStub()
// takes everything from art_quick_trace_entry to art_quick_trace_end. Those of exits and leaf entries are
// called only while there is a cursor, see ThreadWords.

#include "arch/arm64/asm_support_arm64.S"

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
    // Cleared before the flags are looked at, see ThreadWords.
    strb wzr, [xSELF, #THREAD_HINDSIGHT_SUSPEND_OFFSET]
    dmb  ish
    b    art_quick_test_suspend
END art_quick_trace_entry

// Entry of a method without suspend check: the method is in x0, and x17 says where to return to, as the
// link register may not have been saved. Keeps every register but x16 and x17.
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

// Jumped to instead of returning; the frame is gone. Keeps every register but x16 and x17.
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
