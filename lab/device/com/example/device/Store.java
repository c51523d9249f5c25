// SPDX-License-Identifier: Apache-2.0
package com.example.device;

import java.util.concurrent.CountDownLatch;

/** What the main thread waits for. */
final class Store {
    private final Object lock = new Object();
    private int reads;

    /** Keeps its caller waiting for so long. */
    void flush(long millis) {
        sleep(millis);
    }

    /** Waits for the lock while another thread holds it for so long. */
    void readWhileWritten(long millis) {
        CountDownLatch held = new CountDownLatch(1);
        new Thread(() -> write(millis, held), "writer").start();
        try {
            held.await();
        } catch (InterruptedException e) {
            throw new AssertionError(e);
        }
        read();
    }

    private void read() {
        synchronized (lock) {
            reads++;
        }
    }

    private void write(long millis, CountDownLatch held) {
        synchronized (lock) {
            held.countDown();
            sleep(millis);
        }
    }

    private static void sleep(long millis) {
        try {
            Thread.sleep(millis);
        } catch (InterruptedException e) {
            throw new AssertionError(e);
        }
    }
}
