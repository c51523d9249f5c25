// SPDX-License-Identifier: Apache-2.0

import dev.hindsight.Events;

import java.util.Random;

/**
 * What `cargo xtask bench events` measures in Java.
 *
 * <p>{@code stacks}: prints the time of a stack of 32 frames, in nanoseconds: of calls that end with a new stack, with the
 * same stack again, and with none.
 *
 * <p>{@code threads N}: starts N threads, which wait and wake each other, prints {@code ready}, and ends when its input does.
 */
public final class EventCosts {
    private static final int ROUNDS = 41;
    private static final int STACKS = 500;
    private static final int CALLS = 30;
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
            for (int what = 0; what < 3; what++) {
                long begin = System.nanoTime();
                for (long[] path : paths) {
                    // The first one differs from the others by the caller's dex pc near the root.
                    down(CALLS, what == 1 ? 0 : path[0], what == 1 ? 0 : path[1], what != 2);
                }
                line.append(' ').append((System.nanoTime() - begin) / STACKS);
            }
            System.out.println(line);
        }
    }

    /** Calls itself from eight places, as the path says. */
    private static void down(int calls, long path, long next, boolean sample) {
        if (calls == 0) {
            if (sample) {
                Events.sample(true);
            }
            sink++;
            return;
        }
        long rest = path >>> 3 | next << 61;
        switch ((int) path & 7) {
            case 0:
                down(calls - 1, rest, next >>> 3, sample);
                break;
            case 1:
                down(calls - 1, rest, next >>> 3, sample);
                break;
            case 2:
                down(calls - 1, rest, next >>> 3, sample);
                break;
            case 3:
                down(calls - 1, rest, next >>> 3, sample);
                break;
            case 4:
                down(calls - 1, rest, next >>> 3, sample);
                break;
            case 5:
                down(calls - 1, rest, next >>> 3, sample);
                break;
            case 6:
                down(calls - 1, rest, next >>> 3, sample);
                break;
            default:
                down(calls - 1, rest, next >>> 3, sample);
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
