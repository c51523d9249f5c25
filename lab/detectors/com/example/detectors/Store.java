// SPDX-License-Identifier: Apache-2.0
package com.example.detectors;

import dev.hindsight.lab.SocketBinder;

import java.io.IOException;
import java.net.ServerSocket;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.locks.ReentrantLock;

/** What the main thread waits for. */
final class Store {
    private final Object monitor = new Object();
    private final ReentrantLock lock = new ReentrantLock();
    private SocketBinder.Proxy proxy;

    static void sleep(long millis) {
        try {
            Thread.sleep(millis);
        } catch (InterruptedException e) {
            throw new AssertionError(e);
        }
    }

    /** A rule chosen at run time may watch this method. */
    void load(long millis) {
        sleep(millis);
    }

    void waitForMonitor(long millis) {
        CountDownLatch held = new CountDownLatch(1);
        Thread waiter = Thread.currentThread();
        new Thread(() -> {
            synchronized (monitor) {
                held.countDown();
                sleepUntilIn(waiter, Thread.State.BLOCKED);
                sleep(millis);
            }
        }, "holder").start();
        spinUntil(held);
        synchronized (monitor) {
            held.countDown();
        }
    }

    void waitForLock(long millis) {
        CountDownLatch held = new CountDownLatch(1);
        Thread waiter = Thread.currentThread();
        new Thread(() -> {
            lock.lock();
            held.countDown();
            sleepUntilIn(waiter, Thread.State.WAITING);
            sleep(millis);
            lock.unlock();
        }, "holder").start();
        spinUntil(held);
        lock.lock();
        lock.unlock();
    }

    /** The time that a lock is held begins when the other thread waits for it, however late that is. */
    private static void sleepUntilIn(Thread thread, Thread.State state) {
        while (thread.getState() != state) {
            sleep(1);
        }
    }

    /** Without a wait that a detector would see. */
    private static void spinUntil(CountDownLatch latch) {
        while (latch.getCount() != 0) {
            Thread.yield();
        }
    }

    /** The service is in this process, which makes no difference to its client. */
    void transact(long millis) {
        call(proxy == null ? serve() : 0, millis);
    }

    /** Serves one client on a thread of its own. Returns the port. */
    int serve() {
        try {
            ServerSocket listening = new ServerSocket(0);
            Thread server = new Thread(() -> serve(listening), "binder");
            server.setDaemon(true);
            server.start();
            return listening.getLocalPort();
        } catch (IOException e) {
            throw new AssertionError(e);
        }
    }

    /** Waits for a service that takes so long; the first time, connects to it. */
    void call(int port, long millis) {
        try {
            if (proxy == null) {
                proxy = new SocketBinder.Proxy(port);
            }
            proxy.transact(1, (int) millis, false);
        } catch (IOException e) {
            throw new AssertionError(e);
        }
    }

    private static void serve(ServerSocket listening) {
        try {
            SocketBinder.serve(listening, (code, data) -> {
                readDisk(data);
                return 0;
            });
        } catch (IOException e) {
            System.err.println("corpus: " + e);
        }
    }

    /** What the service is waited for. */
    private static void readDisk(long millis) {
        try {
            Thread.sleep(millis);
        } catch (InterruptedException e) {
            throw new AssertionError(e);
        }
    }

    /** As a wrong pointer does in native code. */
    static void writeNowhere() {
        try {
            Class.forName("libcore.io.Memory")
                    .getMethod("pokeByte", long.class, byte.class)
                    .invoke(null, 8L, (byte) 1);
        } catch (ReflectiveOperationException e) {
            throw new AssertionError(e);
        }
    }
}
