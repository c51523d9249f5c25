// SPDX-License-Identifier: Apache-2.0

/** The code of the shared form: see docs/art-hooks.md. */
public class SharedTracePoints {
    static int sum;

    // A leaf has no frame and no suspend check. It tests a word of its own, and calls the address in it.

    /// CHECK-START-X86_64: int SharedTracePoints.leaf(int) disassembly (after)
    /// CHECK-NOT:      subq rsp,
    /// CHECK:          TraceStart
    /// CHECK-NEXT:     movq r11, gs:[<<Leaf:\d+>>]
    /// CHECK-NEXT:     testq r11, r11
    /// CHECK-NEXT:     {{jz.*}}
    /// CHECK-NEXT:     call r11
    /// CHECK-NOT:      subq rsp,
    /// CHECK:          TraceEnd {{.*}} <|@
    /// CHECK-NEXT:     Return
    /// CHECK-NEXT:     movq rdx, gs:[<<Exit:\d+>>]
    /// CHECK-NEXT:     testq rdx, rdx
    /// CHECK-NEXT:     {{jnz.*}}
    /// CHECK-NEXT:     ret
    /// CHECK-NEXT:     jmp rdx
    /// CHECK-NOT:      {{gs:.*}}
    /// CHECK-EVAL:     <<Leaf>> == <<Exit>> + 8

    /// CHECK-START-ARM64: int SharedTracePoints.leaf(int) disassembly (after)
    /// CHECK-NOT:      {{\[sp.*}}
    /// CHECK:          TraceStart
    /// CHECK-NEXT:     ldr x16, [tr, #<<Leaf:\d+>>]
    /// CHECK-NEXT:     cbz x16,
    /// CHECK-NEXT:     adr x17,
    /// CHECK-NEXT:     br x16
    /// CHECK-NOT:      {{\[sp.*}}
    /// CHECK:          TraceEnd {{.*}} <|@
    /// CHECK-NEXT:     Return
    /// CHECK-NEXT:     ldr x16, [tr, #<<Exit:\d+>>]
    /// CHECK-NEXT:     cbnz x16,
    /// CHECK-NEXT:     ret
    /// CHECK-NEXT:     br x16
    /// CHECK-NOT:      {{\[tr.*}}
    /// CHECK-EVAL:     <<Leaf>> == <<Exit>> + 8

    /// CHECK-START-ARM: int SharedTracePoints.leaf(int) disassembly (after)
    /// CHECK-NOT:      push
    /// CHECK:          TraceStart
    /// CHECK-NEXT:     ldr r4, [tr, #<<Leaf:\d+>>]
    /// CHECK-NEXT:     cbz r4,
    /// CHECK-NEXT:     mov ip, lr
    /// CHECK-NEXT:     blx r4
    /// CHECK-NOT:      push
    /// CHECK:          TraceEnd {{.*}} <|@
    /// CHECK-NEXT:     Return
    /// CHECK-NEXT:     ldr r2, [tr, #<<Exit:\d+>>]
    /// CHECK-NEXT:     cbnz r2,
    /// CHECK-NEXT:     bx lr
    /// CHECK-NEXT:     bx r2
    /// CHECK-NOT:      {{\[tr.*}}
    /// CHECK-EVAL:     <<Leaf>> == <<Exit>> + 4
    static int leaf(int x) {
        return x + 1;
    }

    // The entry has no code: the method's own suspend check tests another word than the loop's, and calls
    // another entrypoint.

    /// CHECK-START-X86_64: int SharedTracePoints.loop(int, int) disassembly (after)
    /// CHECK:          TraceStart {{.*}} <|@
    /// CHECK-NEXT:     SuspendCheck {{.*}} <|@
    /// CHECK-NEXT:     Goto
    /// CHECK-NEXT:     {{cmpw?}} gs:[<<Poll:\d+>>], 0
    /// CHECK-NEXT:     {{jnz.*}}
    /// CHECK:          cmpw gs:[<<Flags:\d+>>], 0 ; state_and_flags
    /// CHECK:          name "SlowPaths"
    /// CHECK:          call gs:[<<Entry:\d+>>]
    /// CHECK:          call gs:[<<Suspend:\d+>>] ; pTestSuspend
    /// CHECK-EVAL:     <<Poll>> != <<Flags>>
    /// CHECK-EVAL:     <<Entry>> != <<Suspend>>

    /// CHECK-START-ARM64: int SharedTracePoints.loop(int, int) disassembly (after)
    /// CHECK:          TraceStart {{.*}} <|@
    /// CHECK-NEXT:     SuspendCheck {{.*}} <|@
    /// CHECK-NEXT:     Goto
    /// CHECK-NEXT:     {{ldrh?}} w16, [tr, #<<Poll:\d+>>]
    /// CHECK-NEXT:     cbnz w16,
    /// CHECK:          ldrh w16, [tr] ; state_and_flags
    /// CHECK:          name "SlowPaths"
    /// CHECK:          ldr lr, [tr, #<<Entry:\d+>>]
    /// CHECK-NEXT:     blr lr
    /// CHECK:          ldr lr, [tr, #<<Suspend:\d+>>] ; pTestSuspend
    /// CHECK-EVAL:     <<Entry>> != <<Suspend>>

    /// CHECK-START-ARM: int SharedTracePoints.loop(int, int) disassembly (after)
    /// CHECK:          TraceStart {{.*}} <|@
    /// CHECK-NEXT:     SuspendCheck {{.*}} <|@
    /// CHECK-NEXT:     Goto
    /// CHECK-NEXT:     {{ldrh?(.w)?}} ip, [tr, #<<Poll:\d+>>]
    /// CHECK-NEXT:     cmp ip, #0
    /// CHECK:          ldrh ip, [tr] ; state_and_flags
    /// CHECK:          name "SlowPaths"
    /// CHECK:          ldr lr, [tr, #<<Entry:\d+>>]
    /// CHECK-NEXT:     blx lr
    /// CHECK:          ldr lr, [tr, #<<Suspend:\d+>>] ; pTestSuspend
    /// CHECK-EVAL:     <<Entry>> != <<Suspend>>

    // The exit is in place of the return: behind the frame's end, and on arm before it, where lr is saved.

    /// CHECK-START-X86_64: int SharedTracePoints.loop(int, int) disassembly (after)
    /// CHECK:          TraceEnd {{.*}} <|@
    /// CHECK:          Return
    /// CHECK:          addq rsp,
    /// CHECK-NEXT:     movq rdx, gs:[{{\d+}}]
    /// CHECK-NEXT:     testq rdx, rdx
    /// CHECK-NEXT:     {{jnz.*}}
    /// CHECK-NEXT:     ret
    /// CHECK-NEXT:     jmp rdx

    /// CHECK-START-ARM64: int SharedTracePoints.loop(int, int) disassembly (after)
    /// CHECK:          TraceEnd {{.*}} <|@
    /// CHECK:          Return
    /// CHECK:          add sp, sp,
    /// CHECK-NEXT:     ldr x16, [tr, #{{\d+}}]
    /// CHECK-NEXT:     cbnz x16,
    /// CHECK-NEXT:     ret
    /// CHECK-NEXT:     br x16

    /// CHECK-START-ARM: int SharedTracePoints.loop(int, int) disassembly (after)
    /// CHECK:          TraceEnd {{.*}} <|@
    /// CHECK:          Return
    /// CHECK-NEXT:     ldr r2, [tr, #{{\d+}}]
    /// CHECK-NEXT:     cbz r2,
    /// CHECK-NEXT:     blx r2
    /// CHECK:          pop {{.*pc.*}}
    static int loop(int x, int y) {
        do {
            x = y - x;
        } while (x > 3);
        return x;
    }
}
