// SPDX-License-Identifier: Apache-2.0

public class SharedTracePoints {
    static int sum;

    /// CHECK-START: int SharedTracePoints.leaf(int) disassembly (after)
    /// CHECK:          TraceStart
    static int leaf(int x) {
        return x + 1;
    }

    static int calls(int x) {
        return loop(x) + 1;
    }

    static int loop(int x) {
        do {
            x = sum - x;
        } while (x > 3);
        return x;
    }
}
