// SPDX-License-Identifier: Apache-2.0

import java.io.IOException;

/** Passes each kind of place where a thread takes its stack: {@code Points LIBRARY}. Ends at the end of its input. */
public final class Points {
    private static volatile Object kept;

    private Points() {}

    public static void main(String[] args) throws Exception {
        load(args[0]);
        allocate();
        wake();
        twice(Points::collect);
        twice(Points::exhaust);
        Thread loop = new Thread(Points::loop);
        loop.setDaemon(true);
        loop.start();
        System.out.println("done");
        System.out.flush();
        awaitEnd();
    }

    /** Runs the work on two threads at the same time. */
    private static void twice(Runnable work) throws InterruptedException {
        Thread[] threads = {new Thread(work), new Thread(work)};
        for (Thread thread : threads) {
            thread.start();
        }
        for (Thread thread : threads) {
            thread.join();
        }
    }

    private static void load(String library) {
        System.load(library);
    }

    private static void allocate() {
        for (int i = 0; i < 1 << 14; i++) {
            kept = new byte[1 << 10];
        }
    }

    /** Two threads that do this at the same time wait for each other's collection. */
    private static void collect() {
        for (int i = 0; i < 50; i++) {
            Runtime.getRuntime().gc();
        }
    }

    /** Two threads that do this at the same time wait for the collector, each for memory that it frees. */
    private static void exhaust() {
        byte[][] some = new byte[1 << 11][];
        for (int i = 0; i < 1 << 18; i++) {
            some[i % some.length] = new byte[1 << 10];
        }
        kept = some;
    }

    /** Wakes a thread that waits. */
    private static void wake() throws InterruptedException {
        Object monitor = new Object();
        boolean[] waits = new boolean[1];
        Thread thread = new Thread(() -> {
            synchronized (monitor) {
                waits[0] = true;
                while (waits[0]) {
                    try {
                        monitor.wait();
                    } catch (InterruptedException e) {
                        throw new AssertionError(e);
                    }
                }
            }
        });
        thread.start();
        for (boolean isWoken = false; !isWoken; Thread.yield()) {
            synchronized (monitor) {
                isWoken = waits[0];
                waits[0] = false;
                monitor.notify();
            }
        }
        thread.join();
    }

    /** Passes no hook. */
    private static void loop() {
        for (long i = 0; ; i++) {
            sum += i;
        }
    }

    private static volatile long sum;

    private static void awaitEnd() throws IOException {
        while (System.in.read() >= 0) {
            // Until its end.
        }
    }
}
