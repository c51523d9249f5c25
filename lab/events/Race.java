// SPDX-License-Identifier: Apache-2.0

import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.locks.LockSupport;

/** Permits and interrupts that come before, while or after a thread is parked: at most one thread ends its waits. */
final class Race {
    private final AtomicInteger tokens = new AtomicInteger();
    private final int rounds;
    private final boolean interrupts;
    private final Waiter waiter;
    private final Waker waker;
    private final Hammer hammer;
    private volatile boolean over;

    Race(int number, Dice dice) {
        rounds = 50 + dice.below(200);
        interrupts = dice.below(3) == 0;
        waiter = new Waiter("parked" + number);
        waker = new Waker("unparker" + number, dice.next());
        hammer = new Hammer("hammer" + number, dice.next());
    }

    Actor[] actors() {
        return new Actor[] {waiter, waker, hammer};
    }

    final class Waiter extends Actor {
        Waiter(String name) {
            super(name);
        }

        @Override
        void play() {
            log.line("race", getName(), waker.getName());
            for (int i = 0; i < rounds; i++) {
                while (tokens.get() <= i) {
                    LockSupport.park();
                    Thread.interrupted();
                }
            }
            over = true;
        }
    }

    final class Waker extends Actor {
        private final Dice dice;

        Waker(String name, long seed) {
            super(name);
            dice = new Dice(seed);
        }

        @Override
        void play() {
            for (int i = 0; i < rounds; i++) {
                pause(dice.below(4));
                tokens.incrementAndGet();
                if (interrupts && dice.below(2) == 0) {
                    waiter.interrupt();
                } else {
                    LockSupport.unpark(waiter);
                }
            }
        }
    }

    /** Notifies and unparks others at the same time. */
    final class Hammer extends Actor {
        private final Dice dice;

        Hammer(String name, long seed) {
            super(name);
            dice = new Dice(seed);
        }

        @Override
        void play() {
            while (!over) {
                LockSupport.unpark(waker);
                synchronized (tokens) {
                    tokens.notifyAll();
                }
                pause(1 + dice.below(5));
            }
        }
    }
}
