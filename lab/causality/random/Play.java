// SPDX-License-Identifier: Apache-2.0
package dev.hindsight.random;

import android.os.Looper;
import android.os.SystemClock;

import dev.hindsight.Events;
import dev.hindsight.cases.Case;

import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.ThreadFactory;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicLong;

/**
 * What the programs that {@code cargo xtask verify causality} writes have in common: a program does the same several times,
 * and in the last round its main thread stalls.
 */
public final class Play {
    /** Of this process. */
    private static volatile Case run;

    /** Whether this is the round with the stall, and its length. */
    private static volatile boolean isStall;
    private static volatile long stallMillis;

    private static final List<Gate> GATES = new ArrayList<>();
    private static final AtomicInteger LEFT = new AtomicInteger();
    private static final AtomicLong NEXT = new AtomicLong(1);

    /** What the step waits for that tests it in a loop. */
    private static volatile boolean isSet;

    /** Of two threads that wait for each other. */
    private static final Gate CIRCLE = new Gate();

    /** What the step waits for that is late. */
    private static final Gate LATE = new Gate();

    private Play() {}

    /** Initializes classes: a thread that waits until another one has done it would have one more wait. */
    public static void prepare(Case process, String... classes) throws Exception {
        run = process;
        for (String name : classes) {
            Class.forName(name, true, Play.class.getClassLoader());
        }
        Thread.currentThread().getState();
        burn(0);
    }

    /** What the user does begins. Only what happens until its end is judged. */
    public static void begin() {
        Events.begin(Events.register("play"), 1);
    }

    public static void end() {
        Events.end(Events.register("play"), 1);
    }

    /** What the main thread does now is for the user, who waits for the update. */
    public static void input() {
        Events.mark(Events.register("input"));
    }

    public static void update() {
        Events.mark(Events.register("update"));
    }

    static synchronized void add(Gate gate) {
        GATES.add(gate);
    }

    /** Begins a round. */
    public static synchronized void round(boolean stalls, long millis) throws Exception {
        isStall = stalls;
        stallMillis = millis;
        isSet = false;
        for (Gate gate : GATES) {
            gate.reset();
        }
    }

    /** This many steps will be done. */
    public static void expect(int steps) {
        LEFT.set(steps);
    }

    /** A step is done. */
    public static void done() {
        LEFT.decrementAndGet();
    }

    /** Waits until all steps are done. */
    public static void awaitDone() throws InterruptedException {
        while (LEFT.get() > 0) {
            Thread.sleep(2);
        }
    }

    /** Keeps a thread that has done its step until the program ends: it waits for work. */
    public static void stay() {
        Looper.prepare();
        Looper.loop();
    }

    public static void fail(Throwable error) {
        run.fail(error);
    }

    /** Computes for about this long. */
    public static void work(long micros) {
        long end = System.nanoTime() + micros * 1000;
        while (System.nanoTime() < end) {
            continue;
        }
    }

    /** Computes until it has used this much CPU time. */
    public static double burn(long millis) {
        long end = SystemClock.currentThreadTimeMillis() + millis;
        double sum = 0;
        while (SystemClock.currentThreadTimeMillis() < end) {
            for (int i = 1; i < 500; i++) {
                sum += Math.sqrt(i + sum);
            }
        }
        return sum;
    }

    /** Waits for this long. */
    public static void nap(long millis) throws InterruptedException {
        Object nobody = new Object();
        synchronized (nobody) {
            nobody.wait(millis);
        }
    }

    /** The length of what makes the main thread stall, or of the same in other rounds. */
    public static long length() {
        return isStall ? stallMillis : 2;
    }

    /** In a process that serves: the length is the client's. */
    public static void length(long millis) {
        isStall = true;
        stallMillis = millis;
    }

    /** Tests a field in a loop. */
    public static void awaitSet() {
        while (!isSet) {
            Thread.yield();
        }
    }

    /** Sets the field, after a while. */
    public static void set() throws InterruptedException {
        Thread.sleep(length());
        isSet = true;
    }

    /** Has a monitor, and waits for a thread that waits for the monitor. */
    public static void circle(Thread other) throws Exception {
        synchronized (CIRCLE.monitor) {
            other.start();
            CIRCLE.awaitWaiter(true);
            CIRCLE.latch.await(length(), TimeUnit.MILLISECONDS);
        }
    }

    /** The other one. */
    public static void otherOfCircle() {
        CIRCLE.arrive();
        synchronized (CIRCLE.monitor) {
            CIRCLE.latch.countDown();
        }
    }

    /** Waits for a thread, with a timeout that is over before in the round with the stall. */
    public static void awaitLate(Thread other) throws Exception {
        other.start();
        LATE.arrive();
        if (isStall) {
            LATE.latch.await(stallMillis, TimeUnit.MILLISECONDS);
        } else {
            LATE.awaitLatch(true);
        }
    }

    /** The one that is late. */
    public static void beLate() {
        if (isStall) {
            burn(stallMillis + 200);
        } else {
            LATE.awaitWaiter(false);
        }
        LATE.signalLatch();
    }

    /** Threads with this name. */
    public static ThreadFactory named(String name) {
        return work -> new Thread(work, name);
    }

    /** A thread that takes steps out of a queue. */
    public static BlockingQueue<Runnable> consumer(String name) {
        BlockingQueue<Runnable> queue = new LinkedBlockingQueue<>();
        run.start(name, () -> {
            while (true) {
                queue.take().run();
            }
        });
        return queue;
    }

    /** A queue of the program's own: it says what is handed over. */
    public static final class Marked {
        private final BlockingQueue<Work> queue = new LinkedBlockingQueue<>();

        public Marked(String name) {
            run.start(name, () -> {
                while (true) {
                    Work work = queue.take();
                    Events.begin(work.name, work.id);
                    try {
                        work.step.run();
                    } finally {
                        Events.end(work.name, work.id);
                    }
                }
            });
        }

        public void post(Runnable step) throws InterruptedException {
            Work work = new Work(step);
            Events.post(work.name, work.id);
            queue.put(work);
        }
    }

    private static final class Work {
        final int name;
        final long id = NEXT.getAndIncrement();
        final Runnable step;

        Work(Runnable step) {
            this.step = step;
            name = Events.register(step.getClass().getName());
        }
    }
}
