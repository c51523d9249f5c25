// SPDX-License-Identifier: Apache-2.0
package dev.hindsight;

import android.os.Looper;
import android.os.Message;
import android.os.SystemClock;

import java.lang.reflect.Field;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.LockSupport;

/**
 * Finds messages that stall a looper, and saves a trace of the stall and the time before it.
 *
 * <p><b>When it reports.</b> A message that took longer than the limit is reported when it <em>ends</em>: then the
 * trace has the true length of each call in it. The trace reaches back as far as the ring: ten seconds and more of
 * busy code, if short calls are taken back. A message that has not ended after {@value
 * #STUCK_FACTOR} times the limit is reported while it still runs, because it may never end (a deadlock), or the process
 * may be killed first; its calls have no end in the trace. Only a message that runs a loop may be reported
 * twice.
 *
 * <p><b>Cost.</b> Two reads of the clock, two stores and a load per message on the watched thread, through {@link
 * Looper.Observer}. ({@code Looper.setMessageLogging}, the public interface, builds two strings for each message.) The
 * trace is saved on the watchdog's own thread. While the looper is idle that thread sleeps without a deadline. The first message
 * after {@value #STUCK_FACTOR} times the limit without one wakes it, which costs the watched thread a system call; while messages
 * keep coming it wakes up once in {@value #STUCK_FACTOR} times the limit.
 *
 * <p><b>Loops inside messages.</b> A message that runs a loop of its own ({@code Looper.loop()}) dispatches messages inside, which
 * are watched like others. When one of them has ended, the time of the outer message begins anew. While the inner loop waits for a
 * message, the outer one is not stuck.
 *
 * <p><b>Limits.</b> A watch with the limit {@link #LIMIT_OF_SERVICE} has the limits of the system service's rules, which may change
 * at any time: a change counts from the next message on. Without a service it has the default limit.
 *
 * <p>A process has one observer: a new watchdog replaces and ends any other, and watches one looper.
 */
public final class Watchdog implements Looper.Observer {
    /** The default limit, in milliseconds: a stall that users notice, far below an ANR's 5 seconds. */
    public static final long DEFAULT_LIMIT_MILLIS = 400;

    /** Stands for the limits of the system service's rules {@code slow-message} and {@code stuck-message}. */
    public static final long LIMIT_OF_SERVICE = 0;

    /** A message that still runs is reported after this many times the limit. */
    public static final int STUCK_FACTOR = 3;

    /** For this long after a report, in milliseconds, no stall is reported: saving costs storage and power. */
    public static final long QUIET_MILLIS = 10_000;

    /** Receives each report, on the watchdog's thread. */
    public interface Listener {
        /**
         * @param reason the reason that is written into the trace
         * @param file the saved trace; null if tracing is off
         */
        void onStall(String reason, String file);
    }

    private static final long IDLE = 0;

    /** How often the watchdog's thread looks at the limit again while messages that do not end are not looked for, in milliseconds. */
    private static final long OFF_MILLIS = 60_000;

    /** The watchdog that was installed last, and not ended; guarded by the class. */
    private static Watchdog installed;

    /** A message that is being dispatched, with the messages inside which it is. Only the watched thread uses it. */
    private static final class Level {
        /** The message inside which this one is dispatched; null if there is none. */
        final Level outer;
        /** For the next message inside this one; null until there is one. */
        Level inner;
        /** When the message started, or a message inside it ended, in milliseconds of uptime. */
        long start;

        Level(Level outer) {
            this.outer = outer;
        }
    }

    private final Thread watched;
    /** {@link #LIMIT_OF_SERVICE}, or the limit. */
    private final long ownLimitMillis;
    private final Listener listener;
    private final Thread reporter;

    private final Level outermost = new Level(null);
    /** The innermost message; null between messages. Only the watched thread uses it. */
    private Level current;

    /**
     * {@link Level#start} of the innermost message; negative once the last one has ended; {@link #IDLE} before the first one. Only the
     * watched thread writes it.
     */
    private volatile long startedAt = IDLE;

    /** The watchdog's thread sleeps without a deadline, or is about to. The watched thread clears it, and wakes that thread. */
    private volatile boolean parked;

    private final Object lock = new Object();
    // `lock` guards the fields below. The watched thread takes it only after a message over the limit.
    private long reportedStart = IDLE;
    private String pendingReason;
    private boolean stopped;

    private Watchdog(Looper looper, long limitMillis, Listener listener) {
        this.watched = looper.getThread();
        this.ownLimitMillis = limitMillis;
        this.listener = listener;
        this.reporter = new Thread(this::report, "hindsight-watchdog");
        this.reporter.setDaemon(true);
    }

    /**
     * Starts to watch a looper.
     *
     * @param limitMillis the longest time a message may take, in milliseconds of uptime; or {@link #LIMIT_OF_SERVICE}
     * @param listener receives each report; may be null
     */
    public static Watchdog watch(Looper looper, long limitMillis, Listener listener) {
        if (limitMillis < 0) {
            throw new IllegalArgumentException("limitMillis must not be negative, but is " + limitMillis);
        }
        Watchdog watchdog = new Watchdog(looper, limitMillis, listener);
        watchdog.reporter.start();
        Watchdog replaced;
        synchronized (Watchdog.class) {
            replaced = installed;
            installed = watchdog;
            Looper.setObserver(watchdog);
        }
        if (replaced != null) {
            replaced.end();
        }
        return watchdog;
    }

    /** Ends the watch. A stall that was already found is still reported. Another observer that has replaced this one stays. */
    public void stop() {
        synchronized (Watchdog.class) {
            if (installed == this) {
                installed = null;
                if (isObserver()) {
                    Looper.setObserver(null);
                }
            }
        }
        end();
    }

    /** Whether the looper calls this watchdog. The looper has no method that tells; if it cannot be found out, it counts as true. */
    private boolean isObserver() {
        try {
            Field observer = Looper.class.getDeclaredField("sObserver");
            observer.setAccessible(true);
            return observer.get(null) == this;
        } catch (ReflectiveOperationException e) {
            return true;
        }
    }

    private void end() {
        synchronized (lock) {
            stopped = true;
        }
        LockSupport.unpark(reporter);
    }

    @Override
    public Object messageDispatchStarting() {
        if (Thread.currentThread() != watched) {
            return null;
        }
        Level outer = current;
        Level level = outer == null ? outermost : outer.inner;
        if (level == null) {
            level = new Level(outer);
            outer.inner = level;
        }
        begin(level);
        return level;
    }

    /** A message starts, or goes on after one inside it has ended. */
    private void begin(Level level) {
        current = level;
        level.start = SystemClock.uptimeMillis();
        startedAt = level.start;
        // Either this sees that the watchdog's thread goes to sleep, or that thread sees the message (sleepWhileIdle).
        if (parked) {
            parked = false;
            LockSupport.unpark(reporter);
        }
    }

    /** A message has ended, and those inside it, too: an Error, unlike an Exception, ends messages without a word. */
    private void end(Level level) {
        if (level.outer == null) {
            current = null;
            startedAt = -level.start;
        } else {
            begin(level.outer);
        }
    }

    @Override
    public void messageDispatched(Object token, Message msg) {
        if (Thread.currentThread() != watched) {
            return;
        }
        Level level = (Level) token;
        long start = level.start;
        long took = SystemClock.uptimeMillis() - start;
        end(level);
        long limitMillis = slowLimit();
        if (took > limitMillis) {
            ended(start, took, limitMillis, msg);
        }
    }

    @Override
    public void dispatchingThrewException(Object token, Message msg, Exception exception) {
        if (Thread.currentThread() == watched) {
            end((Level) token);
        }
    }

    /** The longest time of a message that is not reported at its end. */
    private long slowLimit() {
        if (ownLimitMillis != LIMIT_OF_SERVICE) {
            return ownLimitMillis;
        }
        long limit = Hindsight.slowMillis;
        return limit < 0 ? Long.MAX_VALUE : limit == 0 ? DEFAULT_LIMIT_MILLIS : limit;
    }

    /** The longest time of a message that is not reported before its end; negative: all times. */
    private long stuckLimit() {
        if (ownLimitMillis != LIMIT_OF_SERVICE) {
            return STUCK_FACTOR * ownLimitMillis;
        }
        long limit = Hindsight.stuckMillis;
        return limit == 0 ? STUCK_FACTOR * DEFAULT_LIMIT_MILLIS : limit;
    }

    private long quietMillis() {
        if (ownLimitMillis != LIMIT_OF_SERVICE || Hindsight.slowMillis == 0) {
            return QUIET_MILLIS;
        }
        return Math.max(Hindsight.quietMillis, 0);
    }

    private void ended(long start, long took, long limitMillis, Message msg) {
        synchronized (lock) {
            if (reportedStart == start) {
                return;
            }
            reportedStart = start;
            // Hindsight knows a report of the watchdog by these words (runtime/src/control/service.rs).
            pendingReason = "a message on " + watched.getName() + " took " + took + " ms, over "
                    + limitMillis + " ms: " + describe(msg);
        }
        LockSupport.unpark(reporter);
    }

    private static String describe(Message msg) {
        return msg.getTarget().getClass().getName() + ", " + msg.getTarget().getMessageName(msg);
    }

    /** The watchdog's thread. */
    private void report() {
        boolean reportedBefore = false;
        long lastReport = 0;
        while (true) {
            String reason = awaitStall();
            if (reason == null) {
                return;
            }
            long now = SystemClock.uptimeMillis();
            if (reportedBefore && now - lastReport < quietMillis()) {
                continue;
            }
            reportedBefore = true;
            lastReport = now;
            String file = Hindsight.anomaly(reason);
            if (listener != null) {
                listener.onStall(reason, file);
            }
        }
    }

    /** Waits for a message that ended too late or runs for too long; returns null when the watch has ended. */
    private String awaitStall() {
        long seenStart = IDLE;
        while (true) {
            long limit = stuckLimit();
            long period = limit < 0 ? OFF_MILLIS : limit;
            long start = startedAt;
            long running = SystemClock.uptimeMillis() - start;
            boolean isWatched;
            boolean isOver;
            synchronized (lock) {
                if (pendingReason != null) {
                    String reason = pendingReason;
                    pendingReason = null;
                    return reason;
                }
                if (stopped) {
                    return null;
                }
                isWatched = start > IDLE && start != reportedStart;
                isOver = isWatched && limit >= 0 && running > limit;
                if (isOver) {
                    reportedStart = start;
                }
            }
            if (isOver) {
                StackTraceElement[] stack = watched.getStackTrace();
                if (!waitsForMessage(stack)) {
                    return "a message on " + watched.getName() + " has been running for " + running
                            + " ms, over " + limit + " ms: now in " + top(stack);
                }
                // A loop inside the message: it is looked at again when a message has come there.
            } else if (isWatched) {
                // Until the message has run for too long.
                long wait = limit < 0 ? period : period + 1 - running;
                LockSupport.parkNanos(this, TimeUnit.MILLISECONDS.toNanos(wait));
            } else if (Math.abs(start) != seenStart) {
                // There was a message since the last look, so the next one is near: it need not wake this thread.
                LockSupport.parkNanos(this, TimeUnit.MILLISECONDS.toNanos(period));
            } else {
                sleepWhileIdle(start);
            }
            seenStart = Math.abs(start);
            if (Thread.interrupted()) {
                synchronized (lock) {
                    stopped = true;
                }
            }
        }
    }

    /** Sleeps until another message starts, a message ends too late, or the watch ends; {@code seen} is {@link #startedAt}. */
    private void sleepWhileIdle(long seen) {
        parked = true;
        // `parked` is written before this read, as `startedAt` is before the watched thread reads `parked`.
        if (startedAt == seen) {
            LockSupport.park(this);
        }
        parked = false;
    }

    /** Whether the thread, which runs a message, waits for another one. */
    private static boolean waitsForMessage(StackTraceElement[] stack) {
        // Its other methods may take long in a message: for a long queue, or for its lock.
        return stack.length != 0 && stack[0].getClassName().equals("android.os.MessageQueue")
                && stack[0].getMethodName().equals("nativePollOnce");
    }

    private static String top(StackTraceElement[] stack) {
        return stack.length == 0 ? "native code" : stack[0].getClassName() + "." + stack[0].getMethodName();
    }
}
