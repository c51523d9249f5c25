// SPDX-License-Identifier: Apache-2.0

import java.util.concurrent.BlockingQueue;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.CyclicBarrier;
import java.util.concurrent.FutureTask;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.Semaphore;
import java.util.concurrent.SynchronousQueue;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.Condition;
import java.util.concurrent.locks.ReentrantLock;

/** A thread waits with each of the classes that Java has for it, and another one ends the wait. */
final class Meet {
    private static final int JOIN = 0;
    private static final int LATCH = 1;
    private static final int LATCH_INTERRUPTED = 2;
    private static final int SEMAPHORE = 3;
    private static final int LOCK = 4;
    private static final int CONDITION = 5;
    private static final int BARRIER = 6;
    private static final int TASK = 7;
    private static final int FUTURE = 8;
    /** A future that depends on the one that is completed. */
    private static final int DEPENDENT = 9;
    private static final int QUEUE = 10;
    private static final int HAND_OVER = 11;
    static final int KINDS = 12;

    private static final long LONG_MS = 600000;

    private final int[] kinds;
    private final boolean[] limited;
    private final Waiter waiter;
    private final Waker waker;
    /** The round in which the waiter is about to wait, with what it waits for. */
    private volatile int ready;
    private volatile Object meeting;
    /** The round in which the waker has the lock that the waiter wants. */
    private volatile int locked;
    /** The round in which the waker has done its part. */
    private volatile int acted;

    private final ReentrantLock lock = new ReentrantLock();
    private final Condition condition = lock.newCondition();

    Meet(int number, int[] kinds, Dice dice) {
        this.kinds = kinds;
        limited = new boolean[kinds.length];
        for (int i = 0; i < kinds.length; i++) {
            limited[i] = dice.below(2) == 0;
        }
        waiter = new Waiter("meets" + number);
        waker = new Waker("met" + number);
    }

    static Meet random(int number, Dice dice) {
        int[] kinds = new int[4 + dice.below(16)];
        for (int i = 0; i < kinds.length; i++) {
            kinds[i] = dice.below(KINDS);
        }
        return new Meet(number, kinds, dice);
    }

    /** Uses all classes once, so that no thread waits until another one has initialized a class. */
    static void prepare(Dice dice) throws Exception {
        int[] kinds = new int[KINDS];
        for (int i = 0; i < KINDS; i++) {
            kinds[i] = i;
        }
        Actor[] actors = new Meet(0, kinds, dice).actors();
        for (Actor actor : actors) {
            actor.setName("prepares");
            actor.start();
        }
        for (Actor actor : actors) {
            actor.join();
        }
    }

    Actor[] actors() {
        return new Actor[] {waiter, waker};
    }

    /** Ends when another thread waits for that. */
    private static final class Joined extends Actor {
        private final Thread joins;

        Joined(String name, Thread joins) {
            super(name);
            this.joins = joins;
        }

        @Override
        void play() {
            awaitWaiting(joins);
        }
    }

    final class Waiter extends Actor {
        Waiter(String name) {
            super(name);
        }

        @Override
        void play() throws Exception {
            for (int i = 0; i < kinds.length; i++) {
                int round = i + 1;
                step(kinds[i], round, limited[i]);
                while (kinds[i] != JOIN && acted != round) {
                    Thread.yield();
                }
            }
        }

        private <T> T meet(int round, T what) {
            meeting = what;
            ready = round;
            return what;
        }

        private void step(int kind, int round, boolean limited) throws Exception {
            String result = "signalled";
            switch (kind) {
                case JOIN:
                    join(round, limited);
                    return;
                case LATCH:
                case LATCH_INTERRUPTED:
                    CountDownLatch latch = meet(round, new CountDownLatch(1));
                    try {
                        if (limited) {
                            latch.await(LONG_MS, TimeUnit.MILLISECONDS);
                        } else {
                            latch.await();
                        }
                    } catch (InterruptedException expected) {
                        result = "interrupted";
                    }
                    break;
                case SEMAPHORE:
                    Semaphore semaphore = meet(round, new Semaphore(0, limited));
                    semaphore.acquire();
                    break;
                case LOCK:
                    meet(round, lock);
                    while (locked != round) {
                        Thread.yield();
                    }
                    lock.lock();
                    lock.unlock();
                    break;
                case CONDITION:
                    meet(round, condition);
                    lock.lock();
                    condition.await();
                    lock.unlock();
                    break;
                case BARRIER:
                    meet(round, new CyclicBarrier(2)).await();
                    break;
                case TASK:
                    meet(round, new FutureTask<>(() -> null)).get();
                    break;
                case FUTURE:
                    meet(round, new CompletableFuture<Integer>()).get();
                    break;
                case DEPENDENT:
                    CompletableFuture<Integer> future = new CompletableFuture<>();
                    CompletableFuture<Integer> dependent = future.thenApply(number -> number + 1);
                    meet(round, future);
                    dependent.get();
                    break;
                case QUEUE:
                    take(meet(round, new LinkedBlockingQueue<>()), limited);
                    break;
                case HAND_OVER:
                    take(meet(round, new SynchronousQueue<>(round % 2 == 0)), limited);
                    break;
                default:
                    throw new IllegalStateException();
            }
            log.wait(getName(), "park", result, waker.getName(), true);
        }

        private void take(BlockingQueue<Object> queue, boolean limited) throws Exception {
            Object item = limited ? queue.poll(LONG_MS, TimeUnit.MILLISECONDS) : queue.take();
            long id = ((long) System.identityHashCode(queue) << 28) | System.identityHashCode(item);
            log.line("item", Long.toString(id), waker.getName(), getName());
        }

        private void join(int round, boolean limited) throws Exception {
            Joined joined = new Joined(getName() + "-" + round, this);
            log.task("thread", joined.getId(), getName(), joined.getName());
            joined.start();
            joined.join(limited ? LONG_MS : 0);
            log.wait(getName(), "object", "signalled", joined.getName(), true);
        }
    }

    final class Waker extends Actor {
        Waker(String name) {
            super(name);
        }

        @Override
        void play() throws Exception {
            for (int i = 0; i < kinds.length; i++) {
                if (kinds[i] != JOIN) {
                    while (ready != i + 1) {
                        Thread.yield();
                    }
                    step(kinds[i], i + 1);
                    acted = i + 1;
                }
            }
        }

        @SuppressWarnings("unchecked")
        private void step(int kind, int round) throws Exception {
            if (kind == LOCK) {
                lock.lock();
                locked = round;
            }
            awaitWaiting(waiter);
            switch (kind) {
                case LATCH:
                    ((CountDownLatch) meeting).countDown();
                    break;
                case LATCH_INTERRUPTED:
                    waiter.interrupt();
                    break;
                case SEMAPHORE:
                    ((Semaphore) meeting).release();
                    break;
                case LOCK:
                    lock.unlock();
                    break;
                case CONDITION:
                    lock.lock();
                    condition.signal();
                    lock.unlock();
                    break;
                case BARRIER:
                    ((CyclicBarrier) meeting).await();
                    break;
                case TASK:
                    ((FutureTask<?>) meeting).run();
                    break;
                case FUTURE:
                case DEPENDENT:
                    ((CompletableFuture<Integer>) meeting).complete(round);
                    break;
                default:
                    ((BlockingQueue<Object>) meeting).put(new Object());
                    break;
            }
        }
    }
}
