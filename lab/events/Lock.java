// SPDX-License-Identifier: Apache-2.0

/** An owner releases a monitor to another thread that waits for it. Or several threads want one all the time. */
final class Lock {
    private final Object monitor = new Object();
    private final int rounds;
    private final Actor[] actors;
    /** The round in which the owner has the monitor, and the one in which the contender has got and released it. */
    private volatile int owned;
    private volatile int got;
    /** Guarded by the monitor. */
    private final StringBuilder owners = new StringBuilder("order");

    Lock(int number, Dice dice) {
        rounds = 2 + dice.below(10);
        if (dice.below(2) == 0) {
            actors = new Actor[] {
                new Owner("owner" + number), new Contender("contender" + number, "owner" + number),
            };
        } else {
            actors = new Actor[2 + dice.below(3)];
            for (int i = 0; i < actors.length; i++) {
                actors[i] = new Many("many" + number + "-" + i, dice.next());
            }
        }
    }

    Actor[] actors() {
        return actors;
    }

    /** Makes it a monitor that threads wait for at once, and not one that they try to get in a loop first. */
    private void inflate() throws Exception {
        synchronized (monitor) {
            monitor.wait(1);
        }
    }

    final class Owner extends Actor {
        Owner(String name) {
            super(name);
        }

        @Override
        void play() throws Exception {
            inflate();
            log.wait(getName(), "object", "timed", null, true);
            for (int i = 1; i <= rounds; i++) {
                synchronized (monitor) {
                    owned = i;
                    while (actors[1].getState() != Thread.State.BLOCKED) {
                        Thread.yield();
                    }
                }
                while (got != i) {
                    Thread.yield();
                }
            }
        }
    }

    final class Contender extends Actor {
        private final String owner;

        Contender(String name, String owner) {
            super(name);
            this.owner = owner;
        }

        @Override
        void play() {
            for (int i = 1; i <= rounds; i++) {
                while (owned != i) {
                    Thread.yield();
                }
                synchronized (monitor) {
                    log.line("lock", getName(), owner, "1");
                }
                got = i;
            }
        }
    }

    final class Many extends Actor {
        private final Dice dice;

        Many(String name, long seed) {
            super(name);
            dice = new Dice(seed);
        }

        @Override
        void play() throws Exception {
            for (int i = 0; i < 20 * rounds; i++) {
                synchronized (monitor) {
                    owners.append(' ').append(getName());
                    pause(dice.below(10));
                }
                pause(dice.below(10));
            }
            // The last one's line is the whole one.
            synchronized (monitor) {
                owners.append(' ').append(getName());
                got++;
                if (got == actors.length) {
                    log.line(owners.toString());
                }
            }
        }
    }
}
