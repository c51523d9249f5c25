// SPDX-License-Identifier: Apache-2.0

/** Several threads wait for one object; one thread notifies them, one by one or all at once. */
final class Crowd {
    private static final int ONE_BY_ONE = 0;
    private static final int ALL = 1;
    /** One after the other, without releasing the monitor in between. */
    private static final int EACH_AT_ONCE = 2;

    private final Object monitor = new Object();
    private final int[] kinds;
    private final Actor[] actors;
    /** The round that the waiters may begin. */
    private volatile int round;
    /** Guarded by the monitor: threads that wait, and threads that do no more, in this round. */
    private int waiting;
    private int woken;

    Crowd(int number, Dice dice) {
        kinds = new int[2 + dice.below(5)];
        for (int i = 0; i < kinds.length; i++) {
            kinds[i] = dice.below(3);
        }
        int waiters = 2 + dice.below(3);
        actors = new Actor[waiters + 1];
        for (int i = 0; i < waiters; i++) {
            actors[i] = new Waiter("crowd" + number + "-" + i, "notifier" + number);
        }
        actors[waiters] = new Notifier("notifier" + number, waiters);
    }

    Actor[] actors() {
        return actors;
    }

    final class Waiter extends Actor {
        private final String notifier;

        Waiter(String name, String notifier) {
            super(name);
            this.notifier = notifier;
        }

        @Override
        void play() throws Exception {
            for (int i = 1; i <= kinds.length; i++) {
                while (round != i) {
                    Thread.yield();
                }
                synchronized (monitor) {
                    waiting++;
                    monitor.wait();
                    log.wait(getName(), "object", "signalled", notifier, true);
                    woken++;
                }
            }
        }
    }

    final class Notifier extends Actor {
        private final int waiters;

        Notifier(String name, int waiters) {
            super(name);
            this.waiters = waiters;
        }

        /** Whether all wait, and this many were woken. Holds the monitor. */
        private boolean is(int number) {
            return waiting == waiters && woken == number;
        }

        @Override
        void play() {
            for (int i = 1; i <= kinds.length; i++) {
                synchronized (monitor) {
                    waiting = 0;
                    woken = 0;
                }
                round = i;
                int kind = kinds[i - 1];
                for (int done = 0; done <= waiters; ) {
                    boolean acted = false;
                    synchronized (monitor) {
                        if (is(done)) {
                            acted = true;
                            if (done == waiters) {
                                done++;
                            } else if (kind == ONE_BY_ONE) {
                                monitor.notify();
                                done++;
                            } else {
                                if (kind == ALL) {
                                    monitor.notifyAll();
                                }
                                for (int j = 0; kind == EACH_AT_ONCE && j < waiters; j++) {
                                    monitor.notify();
                                }
                                done = waiters;
                            }
                        }
                    }
                    if (!acted) {
                        Thread.yield();
                    }
                }
            }
        }
    }
}
