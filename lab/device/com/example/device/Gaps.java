// SPDX-License-Identifier: Apache-2.0
package com.example.device;

import android.system.ErrnoException;
import android.system.Os;
import android.system.OsConstants;

import java.io.FileDescriptor;
import java.io.InterruptedIOException;

/**
 * The pauses of a thread that does nothing but look at the clock, and call methods. Of each it also notes for how long the thread
 * could have run in that time, while the machine gave the processor to others.
 */
final class Gaps {
    /** Shorter ones are of no interest, ns. */
    private static final long SHORTEST = 20_000;

    private final long[] starts = new long[1 << 18];
    private final long[] lengths = new long[1 << 18];
    private final long[] delays = new long[1 << 18];
    private final byte[] text = new byte[100];
    private FileDescriptor statistics;
    private FreshMemory memory;
    private int bytes;
    private int count;
    /** The end of the pause before. */
    private long last;
    private long lastDelay;
    /** What was read last, of one time. */
    private long now;
    private long delay;

    /** {@code newBytes}: how much new memory it uses between two looks. */
    void begin(int newBytes) {
        bytes = newBytes;
        if (bytes != 0 && memory == null) {
            memory = new FreshMemory();
        }
        count = 0;
        try {
            statistics = Os.open("/proc/thread-self/schedstat", OsConstants.O_RDONLY, 0);
        } catch (ErrnoException e) {
            throw new IllegalStateException(e);
        }
        look();
        last = now;
        lastDelay = delay;
    }

    /** Looks for so long, ns. The time between two calls of this method counts, too. */
    void spin(long nanos) {
        long end = last + nanos;
        while (last < end) {
            Work.rounds(1);
            if (bytes != 0) {
                memory.use(bytes);
            }
            long time = System.nanoTime();
            if (time - last >= SHORTEST) {
                note();
            } else {
                last = time;
            }
        }
        // Of pauses that are too short to be noted.
        note();
    }

    /** The thread was away until now. */
    private void note() {
        look();
        if (now - last >= SHORTEST && count < starts.length) {
            starts[count] = last;
            lengths[count] = now - last;
            delays[count] = delay - lastDelay;
            count++;
        }
        last = now;
        lastDelay = delay;
    }

    /** Reads both clocks. If the thread is away in between, they are not of one time, and are read again. */
    private void look() {
        long before;
        do {
            before = System.nanoTime();
            delay = delay();
            now = System.nanoTime();
        } while (now - before >= SHORTEST);
    }

    /** How long this thread has waited for a processor so far, ns: the second of the kernel's numbers. */
    private long delay() {
        int length;
        try {
            length = Os.pread(statistics, text, 0, text.length, 0);
        } catch (ErrnoException | InterruptedIOException e) {
            throw new IllegalStateException(e);
        }
        int at = 0;
        while (at < length && text[at] != ' ') {
            at++;
        }
        long value = 0;
        for (at++; at < length && text[at] != ' '; at++) {
            value = 10 * value + text[at] - '0';
        }
        return value;
    }

    void print() {
        for (int i = 0; i < count; i++) {
            System.out.println("data " + starts[i] + " " + lengths[i] + " " + delays[i]);
        }
        System.out.flush();
    }
}
