// SPDX-License-Identifier: Apache-2.0
package dev.hindsight.cases;

import dev.hindsight.Events;

import java.util.concurrent.CountDownLatch;
import java.util.concurrent.atomic.AtomicInteger;

/**
 * What a program knows of its callbacks: the mark {@code submit N} before a callback is handed to a library, {@code submitted N} after
 * that, and {@code run N} where it runs. Where the library takes what a method returns, the next mark of the thread stands for
 * {@code submitted N}. Marks join nothing in a graph: an edge from one to the other must come from other events.
 */
public final class Hops {
    /** Each callback has three marks, and there are names for so many. */
    public static final int MOST = 1300;

    private static final AtomicInteger COUNT = new AtomicInteger();

    private Hops() {}

    /** A callback is handed over on this thread. Returns its number. */
    public static int submit() {
        int hop = COUNT.incrementAndGet();
        if (hop > MOST) {
            throw new IllegalStateException("too many callbacks");
        }
        Events.mark(Events.register("submit " + hop));
        return hop;
    }

    /** It has been handed over on this thread. */
    public static void submitted(int hop) {
        Events.mark(Events.register("submitted " + hop));
    }

    /** It runs on this thread. */
    public static void run(int hop) {
        Events.mark(Events.register("run " + hop));
    }

    /** Ends the case after this number of calls of the returned object. */
    public static CountDownLatch endAfter(Case run, int calls) {
        CountDownLatch latch = new CountDownLatch(calls);
        run.start("end", () -> {
            latch.await();
            run.done();
        });
        return latch;
    }
}
