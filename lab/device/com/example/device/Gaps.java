// SPDX-License-Identifier: Apache-2.0
package com.example.device;

/** The pauses of a thread that does nothing but look at the clock, and call methods. */
final class Gaps {
    /** Shorter ones are of no interest, ns. */
    private static final long SHORTEST = 5_000;

    private final long[] starts = new long[1 << 18];
    private final long[] lengths = new long[1 << 18];
    private int count;
    private long last;

    void begin() {
        count = 0;
        last = System.nanoTime();
    }

    /** Looks for so long, ns. The time between two calls of this method counts, too. */
    void spin(long nanos) {
        long end = last + nanos;
        while (last < end) {
            Work.rounds(1);
            long now = System.nanoTime();
            if (now - last >= SHORTEST && count < starts.length) {
                starts[count] = last;
                lengths[count] = now - last;
                count++;
            }
            last = now;
        }
    }

    void print() {
        for (int i = 0; i < count; i++) {
            System.out.println("data " + starts[i] + " " + lengths[i]);
        }
        System.out.flush();
    }
}
