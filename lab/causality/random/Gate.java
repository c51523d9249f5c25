// SPDX-License-Identifier: Apache-2.0
package dev.hindsight.random;

import java.util.concurrent.BlockingQueue;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.Future;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.LockSupport;
import java.util.concurrent.locks.ReentrantLock;

/**
 * Where one step waits for another one. The step that is waited for does not end before the other one really waits: so it is
 * certain who ended the wait.
 */
public final class Gate {
    /** A limit that is never reached. */
    private static final long LONG_MINUTES = 10;
    private static final long LONG_MILLIS = LONG_MINUTES * 60 * 1000;

    public final Object monitor = new Object();
    public final ReentrantLock lock = new ReentrantLock();
    /** Set by the one who hands the step over. */
    public volatile Future<?> future;
    public volatile Thread thread;

    volatile CountDownLatch latch;
    private volatile BlockingQueue<Object> replies;
    private volatile boolean isSignalled;
    private volatile boolean hasBegun;
    private volatile Thread waiter;

    public Gate() {
        Play.add(this);
    }

    /** For another round. */
    void reset() throws Exception {
        // Makes it a monitor that threads wait for at once, and not one that they try to get in a loop first.
        synchronized (monitor) {
            monitor.wait(1);
        }
        future = null;
        thread = null;
        latch = new CountDownLatch(1);
        replies = new LinkedBlockingQueue<>();
        isSignalled = false;
        hasBegun = false;
        waiter = null;
    }

    /** The step begins; it has its lock, if it is one that others wait for so. */
    public void begin() {
        hasBegun = true;
    }

    public void awaitBegun() {
        while (!hasBegun) {
            Thread.yield();
        }
    }

    void arrive() {
        waiter = Thread.currentThread();
    }

    /** Waits, without a wait that is recorded, until the other step waits. */
    public void awaitWaiter(boolean isForMonitor) {
        while (true) {
            Thread thread = waiter;
            if (thread != null) {
                Thread.State state = thread.getState();
                boolean waits = state == Thread.State.WAITING || state == Thread.State.TIMED_WAITING;
                if (isForMonitor ? state == Thread.State.BLOCKED : waits) {
                    return;
                }
            }
            Thread.yield();
        }
    }

    // The waits, and what ends them.

    public void awaitLatch(boolean timed) throws InterruptedException {
        arrive();
        if (timed) {
            latch.await(LONG_MINUTES, TimeUnit.MINUTES);
        } else {
            latch.await();
        }
    }

    public void signalLatch() {
        latch.countDown();
    }

    public void awaitObject(boolean timed) throws InterruptedException {
        synchronized (monitor) {
            arrive();
            while (!isSignalled) {
                if (timed) {
                    monitor.wait(LONG_MILLIS);
                } else {
                    monitor.wait();
                }
            }
        }
    }

    public void signalObject() {
        synchronized (monitor) {
            isSignalled = true;
            monitor.notifyAll();
        }
    }

    public void awaitPark(boolean timed) {
        arrive();
        while (!isSignalled) {
            if (timed) {
                LockSupport.parkNanos(this, LONG_MILLIS * 1000 * 1000);
            } else {
                LockSupport.park(this);
            }
        }
    }

    public void signalPark() {
        isSignalled = true;
        LockSupport.unpark(waiter);
    }

    public void awaitReply(boolean timed) throws InterruptedException {
        arrive();
        if (timed) {
            replies.poll(LONG_MINUTES, TimeUnit.MINUTES);
        } else {
            replies.take();
        }
    }

    public void signalReply() throws InterruptedException {
        replies.put(this);
    }

    public void awaitFuture(boolean timed) throws Exception {
        arrive();
        if (timed) {
            future.get(LONG_MINUTES, TimeUnit.MINUTES);
        } else {
            future.get();
        }
    }

    public void awaitJoin(boolean timed) throws InterruptedException {
        arrive();
        if (timed) {
            thread.join(LONG_MILLIS);
        } else {
            thread.join();
        }
    }

    public void awaitMonitor() {
        arrive();
        synchronized (monitor) {
            isSignalled = true;
        }
    }

    public void awaitLock(boolean timed) throws InterruptedException {
        arrive();
        if (timed) {
            lock.tryLock(LONG_MINUTES, TimeUnit.MINUTES);
        } else {
            lock.lock();
        }
        lock.unlock();
    }
}
