// SPDX-License-Identifier: Apache-2.0

/** The code of the inline form: see docs/art-hooks.md. */
public class InlineTracePoints {

    // The entry records, and the suspend check behind it is ART's own. So is the return behind the exit.

    /// CHECK-START-X86_64: int InlineTracePoints.loop(int, int) disassembly (after)
    /// CHECK:          TraceStart
    /// CHECK-NEXT:     movq r11, gs:[<<Cursor:\d+>>]
    /// CHECK-NEXT:     testq r11, r11
    /// CHECK-NEXT:     {{jz.*}}
    /// CHECK:          mov [r11], edi
    /// CHECK:          mov [r11 + 4], eax
    /// CHECK-NEXT:     addq r11, 8
    /// CHECK-NEXT:     movq gs:[<<Cursor>>], r11
    /// CHECK:          Goto
    /// CHECK-NEXT:     cmpw gs:[0], 0 ; state_and_flags
    /// CHECK:          TraceEnd
    /// CHECK-NEXT:     movq r11, gs:[<<Cursor>>]
    /// CHECK:          mov [r11], 0
    /// CHECK:          mov [r11 + 4], eax
    /// CHECK:          movq gs:[<<Cursor>>], r11
    /// CHECK:          Return
    /// CHECK:          ret
    /// CHECK-NOT:      jmp rdx

    /// CHECK-START-ARM64: int InlineTracePoints.loop(int, int) disassembly (after)
    /// CHECK:          TraceStart
    /// CHECK-NEXT:     ldr x16, [tr, #<<Cursor:\d+>>]
    /// CHECK-NEXT:     cbz x16,
    /// CHECK-NEXT:     mrs x17, S3_3_c14_c0_2
    /// CHECK-NEXT:     stp w0, w17, [x16], #8
    /// CHECK-NEXT:     str x16, [tr, #<<Cursor>>]
    /// CHECK:          Goto
    /// CHECK-NEXT:     ldrh w16, [tr] ; state_and_flags
    /// CHECK:          TraceEnd
    /// CHECK-NEXT:     ldr x16, [tr, #<<Cursor>>]
    /// CHECK-NEXT:     cbz x16,
    /// CHECK-NEXT:     mrs x17, S3_3_c14_c0_2
    /// CHECK-NEXT:     stp wzr, w17, [x16], #8
    /// CHECK-NEXT:     str x16, [tr, #<<Cursor>>]
    /// CHECK:          Return
    /// CHECK:          ret
    /// CHECK-NOT:      br x16

    /// CHECK-START-ARM: int InlineTracePoints.loop(int, int) disassembly (after)
    /// CHECK:          TraceStart
    /// CHECK-NEXT:     ldr r4, [tr, #<<Cursor:\d+>>]
    /// CHECK-NEXT:     cbz r4,
    /// CHECK-NEXT:     {{ec5ecf1e}}
    /// CHECK-NEXT:     strd r0, ip, [r4], #8
    /// CHECK-NEXT:     str r4, [tr, #<<Cursor>>]
    /// CHECK:          Goto
    /// CHECK-NEXT:     ldrh ip, [tr] ; state_and_flags
    /// CHECK:          TraceEnd
    /// CHECK-NEXT:     ldr r2, [tr, #<<Cursor>>]
    /// CHECK-NEXT:     cbz r2,
    /// CHECK-NEXT:     {{ec5c3f1e}}
    /// CHECK-NEXT:     mov ip, #0
    /// CHECK-NEXT:     strd ip, r3, [r2], #8
    /// CHECK-NEXT:     str r2, [tr, #<<Cursor>>]
    /// CHECK:          Return

    // Both suspend checks test the thread's flags.

    /// CHECK-START-X86_64: int InlineTracePoints.loop(int, int) disassembly (after)
    /// CHECK:          cmpw gs:[0], 0 ; state_and_flags
    /// CHECK:          cmpw gs:[0], 0 ; state_and_flags

    /// CHECK-START-ARM64: int InlineTracePoints.loop(int, int) disassembly (after)
    /// CHECK:          ldrh w16, [tr] ; state_and_flags
    /// CHECK:          ldrh w16, [tr] ; state_and_flags

    /// CHECK-START-ARM: int InlineTracePoints.loop(int, int) disassembly (after)
    /// CHECK:          ldrh ip, [tr] ; state_and_flags
    /// CHECK:          ldrh ip, [tr] ; state_and_flags
    static int loop(int x, int y) {
        do {
            x = y - x;
        } while (x > 3);
        return x;
    }

    // A leaf still has no frame.

    /// CHECK-START-X86_64: int InlineTracePoints.leaf(int) disassembly (after)
    /// CHECK-NOT:      subq rsp,

    /// CHECK-START-ARM64: int InlineTracePoints.leaf(int) disassembly (after)
    /// CHECK-NOT:      {{\[sp.*}}

    /// CHECK-START-ARM: int InlineTracePoints.leaf(int) disassembly (after)
    /// CHECK-NOT:      push

    // The exit already requests the return value's register.

    /// CHECK-START-X86_64: int InlineTracePoints.leaf(int) trace_point_insertion (after)
    /// CHECK:          <<Value:i\d+>> Add
    /// CHECK-NEXT:     TraceEnd [<<Value>>]
    /// CHECK-NEXT:     Return [<<Value>>]

    /// CHECK-START-ARM64: int InlineTracePoints.leaf(int) trace_point_insertion (after)
    /// CHECK-NOT:      TraceEnd {{\[.*}}
    static int leaf(int x) {
        return x + 1;
    }
}
