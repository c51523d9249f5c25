// SPDX-License-Identifier: Apache-2.0

import dev.hindsight.Events;

import java.util.Random;

/**
 * What `cargo xtask bench events` measures in Java.
 *
 * <p>{@code stacks}: prints the time of calls, the innermost of which asks for a stack of 32 frames, in nanoseconds. Four
 * numbers: along a new path, the stack is taken; along the same path again, it is taken; and along such paths, it is not due.
 *
 * <p>{@code threads N}: starts N threads, which wait and wake each other, prints {@code ready}, and ends when its input does.
 */
public final class EventCosts {
    private static final int ROUNDS = 41;
    private static final int STACKS = 500;
    /** With the callers of these calls, and the methods that take the stack, there are 32 frames. */
    private static final int CALLS = 27;
    private static int sink;

    private EventCosts() {}

    public static void main(String[] arguments) throws Exception {
        if (arguments[0].equals("stacks")) {
            stacks();
        } else {
            threads(Integer.parseInt(arguments[1]));
        }
    }

    private static void stacks() {
        Random random = new Random(1);
        long[][] paths = new long[STACKS][2];
        for (int round = 0; round < ROUNDS; round++) {
            for (long[] path : paths) {
                path[0] = random.nextLong();
                path[1] = random.nextLong();
            }
            StringBuilder line = new StringBuilder("ns");
            for (int what = 0; what < 4; what++) {
                boolean isNew = what % 2 == 0;
                long begin = System.nanoTime();
                for (long[] path : paths) {
                    // A new path differs from all others near the outermost frame.
                    down(CALLS, isNew ? path[0] : 0, isNew ? path[1] : 0, what < 2);
                }
                line.append(' ').append((System.nanoTime() - begin) / STACKS);
            }
            System.out.println(line);
        }
    }

    /** Calls itself from eight places, as the path says. */
    private static void down(int calls, long path, long next, boolean force) {
        if (calls == 0) {
            Events.sample(force);
            sink++;
            return;
        }
        long rest = path >>> 3 | next << 61;
        switch ((int) path & 7) {
            case 0:
                down(calls - 1, rest, next >>> 3, force);
                break;
            case 1:
                down(calls - 1, rest, next >>> 3, force);
                break;
            case 2:
                down(calls - 1, rest, next >>> 3, force);
                break;
            case 3:
                down(calls - 1, rest, next >>> 3, force);
                break;
            case 4:
                down(calls - 1, rest, next >>> 3, force);
                break;
            case 5:
                down(calls - 1, rest, next >>> 3, force);
                break;
            case 6:
                down(calls - 1, rest, next >>> 3, force);
                break;
            default:
                down(calls - 1, rest, next >>> 3, force);
                break;
        }
        sink++;
    }

    private static void threads(int number) throws Exception {
        final Object[] monitors = new Object[number];
        final int[] waited = new int[1];
        for (int i = 0; i < number; i++) {
            monitors[i] = new Object();
        }
        for (int i = 0; i < number; i++) {
            final Object own = monitors[i];
            final Object next = monitors[(i + 1) % number];
            Thread thread = new Thread("worker" + i) {
                @Override
                public void run() {
                    try {
                        for (int j = 0; j < 500; j++) {
                            synchronized (own) {
                                own.wait(1);
                            }
                            synchronized (next) {
                                next.notifyAll();
                            }
                        }
                        synchronized (waited) {
                            waited[0]++;
                            // Stays alive with its ring.
                            waited.wait();
                        }
                    } catch (InterruptedException e) {
                        throw new IllegalStateException(e);
                    }
                }
            };
            thread.setDaemon(true);
            thread.start();
        }
        while (true) {
            synchronized (waited) {
                if (waited[0] == number) {
                    break;
                }
            }
            Thread.sleep(10);
        }
        System.out.println("ready");
        System.out.flush();
        while (System.in.read() >= 0) {
            // Until its end.
        }
        System.exit(0);
    }
}
