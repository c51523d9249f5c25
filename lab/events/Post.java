// SPDX-License-Identifier: Apache-2.0

import dev.hindsight.Events;

/** A program with a queue of its own, which it shows by events of its own. */
final class Post {
    private static final String NAME = "hand-over";
    private static final int NUMBER = Events.register(NAME);

    private final long[] slots = new long[8];
    private final int items;
    private final long base;
    private final Actor[] actors;
    private volatile int put;
    private volatile int taken;

    Post(int number, Dice dice) {
        items = 5 + dice.below(50);
        base = (number + 1) * 1000L;
        actors = new Actor[] {new Sender("sender" + number), new Receiver("receiver" + number, "sender" + number)};
    }

    Actor[] actors() {
        return actors;
    }

    final class Sender extends Actor {
        Sender(String name) {
            super(name);
        }

        @Override
        void play() {
            for (int i = 0; i < items; i++) {
                while (i - taken >= slots.length) {
                    Thread.yield();
                }
                slots[i % slots.length] = base + i;
                Events.post(NUMBER, base + i);
                Events.mark(NUMBER);
                put = i + 1;
            }
        }
    }

    final class Receiver extends Actor {
        private final String sender;

        Receiver(String name, String sender) {
            super(name);
            this.sender = sender;
        }

        @Override
        void play() {
            for (int i = 0; i < items; i++) {
                while (put <= i) {
                    Thread.yield();
                }
                long id = slots[i % slots.length];
                Events.begin(NUMBER, id);
                log.line("post", NAME, Long.toString(id), sender, getName());
                Events.end(NUMBER, id);
                taken = i + 1;
            }
        }
    }
}
