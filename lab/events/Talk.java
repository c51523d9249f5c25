// SPDX-License-Identifier: Apache-2.0

import java.util.concurrent.locks.LockSupport;

/** Two threads: one waits, in all ways that there are, the other one ends the waits. */
final class Talk {
    private static final int NOTIFIED = 0;
    private static final int NOTIFIED_WITH_LIMIT = 1;
    private static final int ALL_NOTIFIED = 2;
    private static final int WAIT_OVER = 3;
    private static final int WAIT_INTERRUPTED = 4;
    private static final int SLEPT = 5;
    private static final int SLEEP_INTERRUPTED = 6;
    private static final int UNPARKED = 7;
    private static final int UNPARKED_WITH_LIMIT = 8;
    private static final int PARK_OVER = 9;
    private static final int PARK_INTERRUPTED = 10;
    /** The permit comes before the park, which then is no wait. */
    private static final int PERMIT = 11;
    /** The interrupt comes before the wait. */
    private static final int INTERRUPTED_BEFORE = 12;
    /** An unpark does not end a wait for a notification. */
    private static final int UNPARKED_IN_WAIT = 13;
    /** The limit is as short as the way to the notification. */
    private static final int NOTIFIED_OR_OVER = 14;
    /** Another thread is notified by nobody's wait. */
    private static final int NOBODY_NOTIFIED = 15;
    private static final int KINDS = 16;

    private static final long LONG_MS = 600000;
    private static final long LONG_NS = LONG_MS * 1000000;

    private final Object monitor = new Object();
    private final int[] kinds;
    private final int[] pauses;
    private final Waiter waiter;
    private final Waker waker;
    /** The round in which the waiter is about to wait. */
    private volatile int ready;
    /** The round in which the waker has done its part. */
    private volatile int acted;
    /** Guarded by the monitor: the round in which the waiter waits for a notification, and whether it was notified. */
    private int waiting;
    private boolean notified;

    Talk(int number, Dice dice) {
        int rounds = 4 + dice.below(20);
        kinds = new int[rounds];
        pauses = new int[rounds];
        for (int i = 0; i < rounds; i++) {
            kinds[i] = dice.below(KINDS);
            pauses[i] = dice.below(4) == 0 ? dice.below(200) : 0;
        }
        waiter = new Waiter("waiter" + number);
        waker = new Waker("waker" + number);
    }

    Actor[] actors() {
        return new Actor[] {waiter, waker};
    }

    final class Waiter extends Actor {
        Waiter(String name) {
            super(name);
        }

        private void awaitActed(int round) {
            while (acted != round) {
                Thread.yield();
            }
        }

        /** Takes the permit that an interrupt or unpark has left. */
        private void takePermit(int round) {
            awaitActed(round);
            LockSupport.parkNanos(LONG_NS);
        }

        private void wrote(String kind, String result, boolean woken, boolean always) {
            log.wait(getName(), kind, result, woken ? waker.getName() : null, always);
        }

        /** Waits until notified, interrupted, or the limit is over. Returns whether it was notified. */
        private boolean await(int round, long limit) throws InterruptedException {
            synchronized (monitor) {
                notified = false;
                waiting = round;
                try {
                    if (limit == 0) {
                        monitor.wait();
                    } else {
                        monitor.wait(limit);
                    }
                } finally {
                    waiting = 0;
                }
                return notified;
            }
        }

        private void mustBe(boolean expected, String what) {
            if (!expected) {
                throw new IllegalStateException(what);
            }
        }

        @Override
        void play() throws Exception {
            for (int i = 0; i < kinds.length; i++) {
                int round = i + 1;
                if (kinds[i] != PERMIT && kinds[i] != NOBODY_NOTIFIED) {
                    ready = round;
                }
                step(kinds[i], round, 1 + pauses[i] % 3);
                awaitActed(round);
            }
        }

        private void step(int kind, int round, int shortMs) throws Exception {
            switch (kind) {
                case NOTIFIED:
                case ALL_NOTIFIED:
                    mustBe(await(round, 0), "not notified");
                    wrote("object", "signalled", true, true);
                    break;
                case NOTIFIED_WITH_LIMIT:
                    mustBe(await(round, LONG_MS), "not notified");
                    wrote("object", "signalled", true, true);
                    break;
                case UNPARKED_IN_WAIT:
                    mustBe(await(round, LONG_MS), "not notified");
                    wrote("object", "signalled", true, true);
                    takePermit(round);
                    break;
                case NOTIFIED_OR_OVER:
                    await(round, shortMs);
                    wrote("object", "any", true, false);
                    break;
                case WAIT_OVER:
                    await(round, shortMs);
                    wrote("object", "timed", false, true);
                    break;
                case WAIT_INTERRUPTED:
                    try {
                        await(round, LONG_MS);
                        mustBe(false, "not interrupted");
                    } catch (InterruptedException expected) {
                        wrote("object", "interrupted", true, true);
                    }
                    takePermit(round);
                    break;
                case INTERRUPTED_BEFORE:
                    Thread.currentThread().interrupt();
                    try {
                        await(round, LONG_MS);
                        mustBe(false, "not interrupted");
                    } catch (InterruptedException expected) {
                        wrote("object", "interrupted", false, true);
                    }
                    takePermit(round);
                    break;
                case SLEPT:
                    Thread.sleep(shortMs);
                    wrote("sleep", "timed", false, true);
                    break;
                case SLEEP_INTERRUPTED:
                    try {
                        Thread.sleep(LONG_MS);
                        mustBe(false, "not interrupted");
                    } catch (InterruptedException expected) {
                        // Its state says that it sleeps a little before it does.
                        wrote("sleep", "interrupted", true, false);
                    }
                    takePermit(round);
                    break;
                case UNPARKED:
                    LockSupport.park();
                    wrote("park", "signalled", true, true);
                    break;
                case UNPARKED_WITH_LIMIT:
                    LockSupport.parkNanos(this, LONG_NS);
                    wrote("park", "signalled", true, true);
                    break;
                case PARK_OVER:
                    LockSupport.parkNanos(shortMs * 100000L);
                    wrote("park", "timed", false, true);
                    break;
                case PARK_INTERRUPTED:
                    LockSupport.park(this);
                    mustBe(Thread.interrupted(), "not interrupted");
                    wrote("park", "interrupted", true, true);
                    break;
                case PERMIT:
                    ready = round;
                    takePermit(round);
                    break;
                case NOBODY_NOTIFIED:
                    ready = round;
                    break;
                default:
                    throw new IllegalStateException();
            }
        }
    }

    final class Waker extends Actor {
        Waker(String name) {
            super(name);
        }

        /** Calls once the waiter waits for a notification: who has the monitor knows it. */
        private void whileItWaits(int round, int kind) {
            while (true) {
                synchronized (monitor) {
                    if (waiting == round) {
                        if (kind == WAIT_INTERRUPTED) {
                            waiter.interrupt();
                        } else {
                            notified = true;
                            if (kind == ALL_NOTIFIED) {
                                monitor.notifyAll();
                            } else {
                                monitor.notify();
                            }
                        }
                        return;
                    }
                }
                Thread.yield();
            }
        }

        @Override
        void play() {
            for (int i = 0; i < kinds.length; i++) {
                int round = i + 1;
                while (ready != round) {
                    Thread.yield();
                }
                pause(pauses[i]);
                step(kinds[i], round);
                acted = round;
            }
        }

        private void step(int kind, int round) {
            switch (kind) {
                case NOTIFIED:
                case NOTIFIED_WITH_LIMIT:
                case ALL_NOTIFIED:
                case WAIT_INTERRUPTED:
                    whileItWaits(round, kind);
                    break;
                case UNPARKED_IN_WAIT:
                    awaitWaiting(waiter);
                    LockSupport.unpark(waiter);
                    whileItWaits(round, kind);
                    break;
                case NOTIFIED_OR_OVER:
                    synchronized (monitor) {
                        monitor.notify();
                    }
                    break;
                case NOBODY_NOTIFIED:
                    synchronized (monitor) {
                        monitor.notifyAll();
                    }
                    break;
                case SLEEP_INTERRUPTED:
                case PARK_INTERRUPTED:
                    awaitWaiting(waiter);
                    waiter.interrupt();
                    break;
                case UNPARKED:
                case UNPARKED_WITH_LIMIT:
                    awaitWaiting(waiter);
                    LockSupport.unpark(waiter);
                    break;
                case PERMIT:
                    LockSupport.unpark(waiter);
                    break;
                default:
                    break;
            }
        }
    }
}
