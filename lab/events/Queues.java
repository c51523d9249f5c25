// SPDX-License-Identifier: Apache-2.0

import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.ArrayBlockingQueue;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.DelayQueue;
import java.util.concurrent.Delayed;
import java.util.concurrent.LinkedBlockingDeque;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.LinkedTransferQueue;
import java.util.concurrent.PriorityBlockingQueue;
import java.util.concurrent.SynchronousQueue;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TransferQueue;
import java.util.concurrent.atomic.AtomicInteger;

/**
 * Threads hand elements to others through a queue of any kind. Some elements are removed again, some are refused, some are
 * put into the queue again by the thread that has taken them, and one is in the queue twice.
 */
final class Queues {
    private static final int KINDS = 9;

    private final BlockingQueue<Item> queue;
    /** Whether the queue always has room, so that a consumer may put elements into it. */
    private final boolean hasRoom;
    private final int producers;
    private final int consumers;
    private final int items;
    private final Actor[] actors;
    /** Elements that nobody will put again. */
    private final AtomicInteger finished = new AtomicInteger();
    /** The element that is in the queue twice, if there is one. */
    private final Item twin;

    Queues(int number, Dice dice) {
        int kind = dice.below(KINDS);
        queue = create(kind, dice);
        hasRoom = queue.remainingCapacity() == Integer.MAX_VALUE;
        producers = 1 + dice.below(3);
        consumers = 1 + dice.below(3);
        items = 5 + dice.below(30);
        actors = new Actor[producers + consumers];
        for (int i = 0; i < producers; i++) {
            actors[i] = new Producer("producer" + number + "-" + i, dice.next());
        }
        for (int i = 0; i < consumers; i++) {
            actors[producers + i] = new Consumer("consumer" + number + "-" + i, dice.next());
        }
        twin = queue.remainingCapacity() >= 2 ? new Item(dice.below(items)) : null;
        if (twin != null) {
            queue.add(twin);
            queue.add(twin);
            actors[0].log.line("unpaired", "item", Long.toString(id(twin)));
        }
    }

    private static BlockingQueue<Item> create(int kind, Dice dice) {
        switch (kind) {
            case 0:
                return new LinkedBlockingQueue<>();
            case 1:
                return new LinkedBlockingQueue<>(2 + dice.below(5));
            case 2:
                return new ArrayBlockingQueue<>(2 + dice.below(5));
            case 3:
                return new LinkedBlockingDeque<>();
            case 4:
                return new PriorityBlockingQueue<>();
            case 5:
                return new DelayQueue<>();
            case 6:
                return new LinkedTransferQueue<>();
            default:
                return new SynchronousQueue<>(kind == 7);
        }
    }

    Actor[] actors() {
        return actors;
    }

    /** An element. The thread that puts it into the queue writes its own name into it. */
    private static final class Item implements Delayed {
        private final int rank;
        String from;
        boolean isLast;

        Item(int rank) {
            this.rank = rank;
        }

        @Override
        public int compareTo(Delayed other) {
            return Integer.compare(rank, ((Item) other).rank);
        }

        @Override
        public long getDelay(TimeUnit unit) {
            return 0;
        }
    }

    private long id(Item item) {
        return ((long) System.identityHashCode(queue) << 28) | System.identityHashCode(item);
    }

    /** What producers and consumers do. */
    private abstract class Member extends Actor {
        final Dice dice;

        Member(String name, long seed) {
            super(name);
            dice = new Dice(seed);
        }

        void wroteCancelled(Item item) {
            log.line("cancelled", "item", Long.toString(id(item)), item.from, getName());
        }

        /** An element is finished. If it is the last one, ends all consumers but this many, and returns true. */
        boolean finish(int but) throws Exception {
            if (finished.incrementAndGet() != producers * items) {
                return false;
            }
            for (int i = but; i < consumers; i++) {
                Item last = new Item(Integer.MAX_VALUE);
                last.isLast = true;
                last.from = getName();
                queue.put(last);
            }
            return true;
        }
    }

    private final class Producer extends Member {
        Producer(String name, long seed) {
            super(name, seed);
        }

        @Override
        void play() throws Exception {
            for (int i = 0; i < items; i++) {
                Item item = new Item(dice.below(items));
                item.from = getName();
                while (!put(item)) {
                    pause(1 + dice.below(5));
                }
                // DelayQueue and LinkedTransferQueue do not say what was removed from them. LinkedBlockingDeque removes an
                // element at one of its ends by taking it, and says so.
                boolean mayBeRemoved = !(queue instanceof DelayQueue || queue instanceof LinkedTransferQueue
                        || queue instanceof LinkedBlockingDeque);
                if (mayBeRemoved && dice.below(5) == 0 && queue.remove(item)) {
                    wroteCancelled(item);
                    finish(0);
                }
                pause(dice.below(5));
            }
        }

        private boolean put(Item item) throws Exception {
            boolean taken;
            switch (dice.below(4)) {
                case 0:
                    taken = queue.offer(item);
                    break;
                case 1:
                    taken = queue.offer(item, 50, TimeUnit.MICROSECONDS);
                    break;
                case 2:
                    if (queue instanceof TransferQueue) {
                        taken = ((TransferQueue<Item>) queue).tryTransfer(item);
                        break;
                    } else if (queue instanceof LinkedBlockingDeque) {
                        ((LinkedBlockingDeque<Item>) queue).putFirst(item);
                        return true;
                    }
                    // Fall through.
                default:
                    queue.put(item);
                    return true;
            }
            // Other queues know that they are full before they take the element.
            if (!taken && (queue instanceof SynchronousQueue || queue instanceof TransferQueue)) {
                wroteCancelled(item);
            }
            return taken;
        }
    }

    private final class Consumer extends Member {
        private boolean over;

        Consumer(String name, long seed) {
            super(name, seed);
        }

        @Override
        void play() throws Exception {
            List<Item> taken = new ArrayList<>();
            while (!over) {
                take(taken);
                for (Item item : taken) {
                    handle(item);
                }
                taken.clear();
            }
        }

        private void take(List<Item> taken) throws Exception {
            Item item;
            switch (dice.below(5)) {
                case 0:
                    item = queue.poll();
                    break;
                case 1:
                    item = queue.poll(50, TimeUnit.MICROSECONDS);
                    break;
                case 2:
                    queue.drainTo(taken, 1 + dice.below(3));
                    item = null;
                    break;
                case 3:
                    if (queue instanceof LinkedBlockingDeque) {
                        item = ((LinkedBlockingDeque<Item>) queue).takeLast();
                        break;
                    }
                    // Fall through.
                default:
                    item = queue.take();
                    break;
            }
            if (item != null) {
                taken.add(item);
            } else {
                pause(1);
            }
        }

        private void handle(Item item) throws Exception {
            if (item == twin) {
                return;
            }
            log.line("item", Long.toString(id(item)), item.from, getName());
            if (item.isLast && !over) {
                over = true;
            } else if (item.isLast || (hasRoom && dice.below(4) == 0)) {
                item.from = getName();
                queue.put(item);
            } else {
                over |= finish(1);
            }
        }
    }
}
