// SPDX-License-Identifier: Apache-2.0

import java.io.BufferedReader;
import java.io.InputStreamReader;

/**
 * Methods that compilers inline into each other, over the dex files of a jar: {@code First} and {@code Last} are in the
 * first one, {@code Middle} is in the second. Answers each line with the sum of so many calls.
 */
public final class Chain {
    private Chain() {}

    public static void main(String[] args) throws Exception {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in));
        System.out.println("ready");
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            Work work = new Work(Integer.parseInt(line));
            work.start();
            work.join();
            System.out.println(work.sum);
        }
    }

    /** A thread, so that no call that runs already has these methods inlined. */
    static final class Work extends Thread {
        private final int calls;
        int sum;

        Work(int calls) {
            this.calls = calls;
        }

        @Override
        public void run() {
            Last last = new Last();
            for (int i = 0; i < calls; i++) {
                sum += last.last();
            }
        }
    }

    /** The methods are called on {@code this}, so that no check of a receiver keeps them from being inlined. */
    static class First {
        private int value = 1;

        final int first() {
            return value;
        }
    }

    static class Middle extends First {
        final int middle() {
            return first();
        }
    }

    static final class Last extends Middle {
        int last() {
            return middle();
        }
    }
}
