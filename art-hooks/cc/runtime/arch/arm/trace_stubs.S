// SPDX-License-Identifier: Apache-2.0
//
// The stubs that compiled trace points call. The order matters: IsTraceStub() takes all code from art_quick_trace_entry
// to art_quick_trace_end for stubs that record. The stubs of exits and leaf entries are called only while the thread
// has a cursor, see ThreadWords. A strd may fault at the end of the ring: HandleRingGuardFault takes the cursor's register
// from that instruction, and expects that the next one stores the cursor.

#include "arch/arm/asm_support_arm.S"
#include "hindsight/runtime/lab_build.h"
#include "hindsight/runtime/slot_words.h"

// The first byte of the word `poll`.
#define THREAD_HINDSIGHT_TRACING_OFFSET (THREAD_HINDSIGHT_SUSPEND_OFFSET - 1)
#define THREAD_HINDSIGHT_EPOCH_OFFSET (THREAD_HINDSIGHT_CURSOR_OFFSET + HINDSIGHT_EPOCH)
#define THREAD_HINDSIGHT_REWIND_BELOW_OFFSET (THREAD_HINDSIGHT_CURSOR_OFFSET + HINDSIGHT_REWIND_BELOW)
#define THREAD_HINDSIGHT_TAKEN_BACK_OFFSET (THREAD_HINDSIGHT_CURSOR_OFFSET + HINDSIGHT_TAKEN_BACK_COUNT)
#define THREAD_HINDSIGHT_REWIND_LOG_OFFSET (THREAD_HINDSIGHT_CURSOR_OFFSET + HINDSIGHT_REWIND_LOG)

// With the cursor in a low register and the halves of the counter in two others: records FullTime, as the upper half has
// changed since the thread's last slot. Its payload is an upper bound for that slot's counter, and the counter now. Changes
// \temp and \temp2.
.macro RECORD_FULL_TIME cursor, low, high, temp, temp2
    ldr  \temp2, [rSELF, #THREAD_HINDSIGHT_EPOCH_OFFSET]
    mvn  \temp, #0
    strd \temp, \temp2, [\cursor], #8
    str  \cursor, [rSELF, #THREAD_HINDSIGHT_CURSOR_OFFSET]
    strd \low, \high, [\cursor], #8
    str  \cursor, [rSELF, #THREAD_HINDSIGHT_CURSOR_OFFSET]
    str  \high, [rSELF, #THREAD_HINDSIGHT_EPOCH_OFFSET]
    movw \temp, #HINDSIGHT_FULL_TIME
    strd \temp, \low, [\cursor], #8
    str  \cursor, [rSELF, #THREAD_HINDSIGHT_CURSOR_OFFSET]
.endm

// The slow path of a method's suspend check at its entry. The frame is set up: [sp] is the method.
// Keeps every register but ip.
ENTRY art_quick_trace_entry
    ldr  ip, [rSELF, #THREAD_HINDSIGHT_CURSOR_OFFSET]
    cmp  ip, #0
    beq  .Lsuspend_check
    push {r0-r3}
    .cfi_adjust_cfa_offset 16
    mov  r2, ip
    mrrc p15, #1, r3, r1, c14
    ldr  ip, [rSELF, #THREAD_HINDSIGHT_EPOCH_OFFSET]
    cmp  ip, r1
    bne  .Lentry_in_new_epoch
.Lrecord_entry:
    ldr  ip, [sp, #16]
    strd ip, r3, [r2], #8
    str  r2, [rSELF, #THREAD_HINDSIGHT_CURSOR_OFFSET]
    pop  {r0-r3}
    .cfi_adjust_cfa_offset -16
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
.Lentry_in_new_epoch:
    .cfi_adjust_cfa_offset 16
    RECORD_FULL_TIME r2, r3, r1, r0, ip
    b    .Lrecord_entry
    .cfi_adjust_cfa_offset -16
END art_quick_trace_entry

// Entry of a method without a suspend check: the method is in r0. ip holds the method's lr, which it may not have
// saved, and which is put back. Keeps every other register but r4 and ip.
ENTRY art_quick_trace_entry_leaf
    ldr  r4, [rSELF, #THREAD_HINDSIGHT_CURSOR_OFFSET]
    push {r1, r2, r3, ip}
    .cfi_adjust_cfa_offset 16
    mrrc p15, #1, r2, r3, c14
    ldr  r1, [rSELF, #THREAD_HINDSIGHT_EPOCH_OFFSET]
    cmp  r1, r3
    bne  .Lleaf_entry_in_new_epoch
.Lrecord_leaf_entry:
    strd r0, r2, [r4], #8
    str  r4, [rSELF, #THREAD_HINDSIGHT_CURSOR_OFFSET]
    pop  {r1, r2, r3, ip}
    .cfi_adjust_cfa_offset -16
    mov  r4, lr
    mov  lr, ip
    bx   r4
.Lleaf_entry_in_new_epoch:
    .cfi_adjust_cfa_offset 16
    RECORD_FULL_TIME r4, r2, r3, r1, ip
    b    .Lrecord_leaf_entry
    .cfi_adjust_cfa_offset -16
END art_quick_trace_entry_leaf

// Called before the epilogue, or jumped to where the method has no frame. Keeps r0, r1, the callee-saved and
// the floating-point registers.
//
// If the last slot is the entry of this call, and younger than the limit, the call is taken back: the cursor goes back over
// that slot. The slot before a ring's first is no entry. Within one epoch the low half of the counter is enough.
ENTRY art_quick_trace_exit
    ldr  r2, [rSELF, #THREAD_HINDSIGHT_CURSOR_OFFSET]
    push {r4, r5}
    .cfi_adjust_cfa_offset 8
    .cfi_rel_offset r4, 0
    .cfi_rel_offset r5, 4
    mrrc p15, #1, r3, ip, c14
    ldr  r4, [rSELF, #THREAD_HINDSIGHT_EPOCH_OFFSET]
    cmp  r4, ip
    bne  .Lexit_in_new_epoch
    ldrd r4, r5, [r2, #-8]                    // The last slot: its low half and its counter.
    cmp  r4, #HINDSIGHT_FIRST_METHOD
    blo  .Lrecord_exit
    sub  r5, r3, r5
    ldr  r4, [rSELF, #THREAD_HINDSIGHT_REWIND_BELOW_OFFSET]
    cmp  r5, r4
    bhs  .Lrecord_exit
#if defined(HINDSIGHT_LAB)
    // Notes the slot, the counter at the exit, and the slot's address. (Not with a strd that the fault handler would take
    // for a store to the ring.)
    ldr  ip, [rSELF, #THREAD_HINDSIGHT_REWIND_LOG_OFFSET]
    cmp  ip, #0
    beq  .Ltake_back
    ldrd r4, r5, [r2, #-8]
    str  r4, [ip], #4
    str  r5, [ip], #4
    sub  r4, r2, #8
    str  r3, [ip], #4
    str  r4, [ip], #4
    str  ip, [rSELF, #THREAD_HINDSIGHT_REWIND_LOG_OFFSET]
.Ltake_back:
#endif
    movw r4, #HINDSIGHT_TAKEN_BACK
    str  r4, [r2, #-8]!
    str  r2, [rSELF, #THREAD_HINDSIGHT_CURSOR_OFFSET]
    ldr  r4, [rSELF, #THREAD_HINDSIGHT_TAKEN_BACK_OFFSET]
    adds r4, r4, #1
    str  r4, [rSELF, #THREAD_HINDSIGHT_TAKEN_BACK_OFFSET]
    ldr  r4, [rSELF, #(THREAD_HINDSIGHT_TAKEN_BACK_OFFSET + 4)]
    adc  r4, r4, #0
    str  r4, [rSELF, #(THREAD_HINDSIGHT_TAKEN_BACK_OFFSET + 4)]
    b    .Lexit_done
.Lexit_in_new_epoch:
    RECORD_FULL_TIME r2, r3, ip, r4, r5
.Lrecord_exit:
    mov  ip, #0
    strd ip, r3, [r2], #8
    str  r2, [rSELF, #THREAD_HINDSIGHT_CURSOR_OFFSET]
.Lexit_done:
    pop  {r4, r5}
    .cfi_restore r4
    .cfi_restore r5
    .cfi_adjust_cfa_offset -8
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
