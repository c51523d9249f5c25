// SPDX-License-Identifier: Apache-2.0
//
// The stubs that compiled trace points call. The order matters: IsTraceStub() takes all code from art_quick_trace_entry
// to art_quick_trace_end for stubs that record. The stubs of exits and leaf entries are called only while the thread
// has a cursor, see ThreadWords.

#include "arch/arm64/asm_support_arm64.S"
#include "hindsight/runtime/lab_build.h"
#include "hindsight/runtime/slot_words.h"

// The first byte of the word `poll`.
#define THREAD_HINDSIGHT_TRACING_OFFSET (THREAD_HINDSIGHT_SUSPEND_OFFSET - 1)
#define THREAD_HINDSIGHT_EPOCH_OFFSET (THREAD_HINDSIGHT_CURSOR_OFFSET + HINDSIGHT_EPOCH)
#define THREAD_HINDSIGHT_REWIND_BELOW_OFFSET (THREAD_HINDSIGHT_CURSOR_OFFSET + HINDSIGHT_REWIND_BELOW)
#define THREAD_HINDSIGHT_TAKEN_BACK_OFFSET (THREAD_HINDSIGHT_CURSOR_OFFSET + HINDSIGHT_TAKEN_BACK_COUNT)
#define THREAD_HINDSIGHT_REWIND_LOG_OFFSET (THREAD_HINDSIGHT_CURSOR_OFFSET + HINDSIGHT_REWIND_LOG)

// Goes to \is_new if the upper half of the counter \counter differs from that at the thread's last slot. Changes the
// register \temp.
.macro IF_NEW_EPOCH counter, temp, wtemp, is_new
    ldr  \wtemp, [xSELF, #THREAD_HINDSIGHT_EPOCH_OFFSET]
    eor  \temp, \temp, \counter, lsr #32
    cbnz \temp, \is_new
.endm

// With the cursor in x16: records FullTime. Its payload is an upper bound for the counter at the thread's last slot, and
// the counter now. Each store may fault at the end of the ring: HandleRingGuardFault.
.macro RECORD_FULL_TIME counter, wcounter, temp, wtemp
    ldr  \wtemp, [xSELF, #THREAD_HINDSIGHT_EPOCH_OFFSET]
    lsl  \temp, \temp, #32
    orr  \temp, \temp, #0xffffffff
    str  \temp, [xIP0], #8
    str  \counter, [xIP0], #8
    lsr  \temp, \counter, #32
    str  \wtemp, [xSELF, #THREAD_HINDSIGHT_EPOCH_OFFSET]
    mov  \wtemp, #HINDSIGHT_FULL_TIME
    stp  \wtemp, \wcounter, [xIP0], #8
.endm

// The slow path of a method's suspend check at its entry. The frame is set up: [sp] is the method.
// Keeps every register but x16 and x17.
ENTRY art_quick_trace_entry
    ldr  xIP0, [xSELF, #THREAD_HINDSIGHT_CURSOR_OFFSET]
    cbz  xIP0, .Lsuspend_check
    str  x0, [sp, #-16]!
    .cfi_adjust_cfa_offset 16
    mrs  x0, cntvct_el0
    IF_NEW_EPOCH x0, xIP1, wIP1, .Lentry_in_new_epoch
.Lrecord_entry:
    ldr  wIP1, [sp, #16]
    stp  wIP1, w0, [xIP0], #8                 // May fault at the end of the ring: HandleRingGuardFault.
    str  xIP0, [xSELF, #THREAD_HINDSIGHT_CURSOR_OFFSET]
    ldr  x0, [sp], #16
    .cfi_adjust_cfa_offset -16
.Lsuspend_check:
    ldrb wIP0, [xSELF, #THREAD_HINDSIGHT_SUSPEND_OFFSET]
    cbnz wIP0, .Lsuspend
    ret
.Lsuspend:
    // Cleared before the flags are read, see ThreadWords.
    strb wzr, [xSELF, #THREAD_HINDSIGHT_SUSPEND_OFFSET]
    dmb  ish
    b    art_quick_test_suspend
.Lentry_in_new_epoch:
    .cfi_adjust_cfa_offset 16
    RECORD_FULL_TIME x0, w0, xIP1, wIP1
    b    .Lrecord_entry
    .cfi_adjust_cfa_offset -16
END art_quick_trace_entry

// Entry of a method without a suspend check: the method is in x0. x17 holds the return address, because the method may
// not have saved the link register. Keeps every register but x16 and x17.
ENTRY art_quick_trace_entry_leaf
    stp  xIP1, x1, [sp, #-16]!
    .cfi_adjust_cfa_offset 16
    ldr  xIP0, [xSELF, #THREAD_HINDSIGHT_CURSOR_OFFSET]
    mrs  x1, cntvct_el0
    IF_NEW_EPOCH x1, xIP1, wIP1, .Lleaf_entry_in_new_epoch
.Lrecord_leaf_entry:
    stp  w0, w1, [xIP0], #8
    str  xIP0, [xSELF, #THREAD_HINDSIGHT_CURSOR_OFFSET]
    ldp  xIP1, x1, [sp], #16
    .cfi_adjust_cfa_offset -16
    br   xIP1
.Lleaf_entry_in_new_epoch:
    .cfi_adjust_cfa_offset 16
    RECORD_FULL_TIME x1, w1, xIP1, wIP1
    b    .Lrecord_leaf_entry
    .cfi_adjust_cfa_offset -16
END art_quick_trace_entry_leaf

// Jumped to in place of a return (the frame is gone), or called. Keeps every register but x9, x10, x16 and x17.
//
// If the last slot is the entry of this call, and younger than the limit, the call is taken back: the cursor goes back over
// that slot. The slot before a ring's first is no entry. Within one epoch the low half of the counter is enough.
ENTRY art_quick_trace_exit
    ldr  xIP0, [xSELF, #THREAD_HINDSIGHT_CURSOR_OFFSET]
    mrs  xIP1, cntvct_el0
    IF_NEW_EPOCH xIP1, x9, w9, .Lexit_in_new_epoch
    ldp  w9, w10, [xIP0, #-8]                 // The last slot: its low half and its counter.
    lsr  w9, w9, #HINDSIGHT_FIRST_METHOD_BITS
    cbz  w9, .Lrecord_exit
    sub  w10, wIP1, w10
    ldr  w9, [xSELF, #THREAD_HINDSIGHT_REWIND_BELOW_OFFSET]
    cmp  w10, w9
    b.hs .Lrecord_exit
#if defined(HINDSIGHT_LAB)
    // Notes the slot, the counter at the exit, and the lower half of the slot's address.
    ldr  x9, [xSELF, #THREAD_HINDSIGHT_REWIND_LOG_OFFSET]
    cbz  x9, .Ltake_back
    ldr  x10, [xIP0, #-8]
    str  x10, [x9], #8
    sub  x10, xIP0, #8
    stp  wIP1, w10, [x9], #8
    str  x9, [xSELF, #THREAD_HINDSIGHT_REWIND_LOG_OFFSET]
.Ltake_back:
#endif
    mov  w9, #HINDSIGHT_TAKEN_BACK
    str  w9, [xIP0, #-8]!
    str  xIP0, [xSELF, #THREAD_HINDSIGHT_CURSOR_OFFSET]
    ldr  x9, [xSELF, #THREAD_HINDSIGHT_TAKEN_BACK_OFFSET]
    add  x9, x9, #1
    str  x9, [xSELF, #THREAD_HINDSIGHT_TAKEN_BACK_OFFSET]
    ret
.Lexit_in_new_epoch:
    RECORD_FULL_TIME xIP1, wIP1, x9, w9
.Lrecord_exit:
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
