// SPDX-License-Identifier: Apache-2.0

/** The positions of trace points, the same in every form. */
public class TracePoints {
    static int sum;

    /// CHECK-START: int TracePoints.leaf(int) trace_point_insertion (before)
    /// CHECK-NOT:      TraceStart
    /// CHECK-NOT:      TraceEnd

    // The entry is before the suspend check, which stays next to the block's end.

    /// CHECK-START: int TracePoints.leaf(int) trace_point_insertion (after)
    /// CHECK:          name "B0"
    /// CHECK:          <<Method:[ij]\d+>> CurrentMethod
    /// CHECK-NOT:      name "B1"
    /// CHECK:          TraceStart [<<Method>>]
    /// CHECK-NEXT:     SuspendCheck
    /// CHECK-NEXT:     Goto
    /// CHECK-NOT:      TraceStart
    /// CHECK-NOT:      Return
    /// CHECK:          TraceEnd
    /// CHECK-NEXT:     Return
    /// CHECK-NOT:      TraceEnd
    /// CHECK-NOT:      TraceStart

    // It calls nothing, and so it is still a leaf.

    /// CHECK-START: int TracePoints.leaf(int) register (after)
    /// CHECK-NOT:      SuspendCheck
    static int leaf(int x) {
        return x + 1;
    }

    /// CHECK-START: void TracePoints.returnsNothing() trace_point_insertion (after)
    /// CHECK:          TraceStart
    /// CHECK-NEXT:     SuspendCheck
    /// CHECK-NEXT:     Goto
    /// CHECK:          StaticFieldSet
    /// CHECK-NEXT:     TraceEnd
    /// CHECK-NEXT:     ReturnVoid
    /// CHECK-NOT:      TraceEnd
    static void returnsNothing() {
        sum = 1;
    }

    // The entry is not in the loop, though the loop is the first thing in the method; the loop's suspend
    // check is as ever.

    /// CHECK-START: int TracePoints.loop(int) trace_point_insertion (after)
    /// CHECK:          TraceStart {{.*}} loop:none
    /// CHECK-NEXT:     SuspendCheck {{.*}} loop:none
    /// CHECK-NEXT:     Goto loop:none
    /// CHECK-NOT:      TraceStart
    /// CHECK-NOT:      TraceEnd
    /// CHECK:          SuspendCheck {{.*}} loop:<<Loop:B\d+>>
    /// CHECK-NOT:      TraceStart
    /// CHECK-NOT:      SuspendCheck
    /// CHECK:          TraceEnd loop:none
    /// CHECK-NEXT:     Return {{.*}} loop:none
    /// CHECK-NOT:      TraceEnd
    /// CHECK-NOT:      SuspendCheck
    static int loop(int x) {
        do {
            x = sum - x;
        } while (x > 3);
        return x;
    }

    // Nothing returns from it.

    /// CHECK-START: void TracePoints.loopsForever() trace_point_insertion (after)
    /// CHECK:          TraceStart {{.*}} loop:none
    /// CHECK-NEXT:     SuspendCheck
    /// CHECK-NEXT:     Goto
    /// CHECK:          SuspendCheck {{.*}} loop:B{{\d+}}

    /// CHECK-START: void TracePoints.loopsForever() trace_point_insertion (after)
    /// CHECK-NOT:      TraceEnd
    static void loopsForever() {
        while (true) {
            sum++;
        }
    }

    // An exception leaves the method: the unwinder records the exit.

    /// CHECK-START: void TracePoints.throwsOnly() trace_point_insertion (after)
    /// CHECK:          TraceStart
    /// CHECK:          Throw
    /// CHECK-NOT:      TraceStart

    /// CHECK-START: void TracePoints.throwsOnly() trace_point_insertion (after)
    /// CHECK-NOT:      TraceEnd
    static void throwsOnly() {
        throw new Error();
    }

    /// CHECK-START: int TracePoints.catches(int[], int) trace_point_insertion (after)
    /// CHECK:          name "B0"
    /// CHECK:          TraceStart
    /// CHECK-NEXT:     SuspendCheck
    /// CHECK-NEXT:     Goto
    /// CHECK-NOT:      TraceStart
    /// CHECK:          TryBoundary kind:entry
    /// CHECK-NOT:      TraceStart

    /// CHECK-START: int TracePoints.catches(int[], int) trace_point_insertion (after)
    /// CHECK:          TraceEnd
    /// CHECK-NEXT:     Return
    /// CHECK-NOT:      TraceEnd
    static int catches(int[] a, int i) {
        int x;
        try {
            x = a[i];
        } catch (ArrayIndexOutOfBoundsException e) {
            x = sum;
        }
        return x;
    }

    // Inlined methods have no trace points.

    /// CHECK-START: int TracePoints.inlines(int) inliner (before)
    /// CHECK:          InvokeStaticOrDirect method_name:TracePoints.leaf

    /// CHECK-START: int TracePoints.inlines(int) trace_point_insertion (after)
    /// CHECK-NOT:      InvokeStaticOrDirect

    /// CHECK-START: int TracePoints.inlines(int) trace_point_insertion (after)
    /// CHECK:          TraceStart
    /// CHECK-NOT:      TraceStart
    /// CHECK-NOT:      TraceEnd
    /// CHECK:          Xor
    /// CHECK-NEXT:     TraceEnd
    /// CHECK-NEXT:     Return
    /// CHECK-NOT:      TraceEnd
    static int inlines(int x) {
        return leaf(x) ^ leaf(sum);
    }

    // An intrinsic is no call.

    /// CHECK-START: long TracePoints.callsIntrinsics(long, double) trace_point_insertion (after)
    /// CHECK:          TraceStart
    /// CHECK-NOT:      TraceStart
    /// CHECK:          Invoke{{.*}} intrinsic:LongReverse
    /// CHECK-NOT:      TraceEnd
    /// CHECK:          TraceEnd
    /// CHECK-NEXT:     Return
    /// CHECK-NOT:      TraceEnd
    static long callsIntrinsics(long x, double y) {
        return Long.reverse(x) + Double.doubleToRawLongBits(y);
    }

    // The method is entered before it has its monitor, and left when it has given it up.

    /// CHECK-START: int TracePoints.locks(java.lang.Object) trace_point_insertion (after)
    /// CHECK:          TraceStart
    /// CHECK:          MonitorOperation kind:enter
    /// CHECK-NOT:      TraceStart
    /// CHECK-NOT:      TraceEnd
    /// CHECK:          MonitorOperation kind:exit
    /// CHECK-NOT:      Return
    /// CHECK:          TraceEnd
    /// CHECK-NEXT:     Return
    static int locks(Object lock) {
        synchronized (lock) {
            return sum;
        }
    }

    /// CHECK-START: int TracePoints.recursive(int) trace_point_insertion (after)
    /// CHECK:          TraceStart
    /// CHECK-NOT:      TraceStart

    /// CHECK-START: int TracePoints.recursive(int) trace_point_insertion (after)
    /// CHECK:          InvokeStaticOrDirect method_name:TracePoints.recursive

    /// CHECK-START: int TracePoints.recursive(int) trace_point_insertion (after)
    /// CHECK:          TraceEnd
    /// CHECK-NEXT:     Return
    /// CHECK-NOT:      TraceEnd
    static int recursive(int x) {
        return x < 1 ? sum : recursive(x - 1) * x;
    }

    /** Not in the dump: its stub is not compiled from a graph. */
    static native int isNative();
}
