// SPDX-License-Identifier: Apache-2.0

/**
 * Listing 1 of the Hubble paper (OSDI 2022): a method that calls itself and does an adjustable amount of work, to
 * relate the cost of tracing to the length of a method.
 */
final class Listing1 {
    /** Calls that one call of {@link #recurse} with this depth makes in all, itself included. */
    static final int DEPTH = 10;

    private Listing1() {}

    static int recurse(int depth, int work) {
        int sum = depth;
        for (int i = 0; i < work; i++) {
            sum *= i - 1;
            sum /= i + 2;
        }
        if (depth > 1) {
            sum += recurse(depth - 1, work);
        }
        return sum;
    }

    /** Returns a value that depends on all results, so that no call can be left out. */
    static int repeat(int recursions, int work) {
        int sum = 0;
        for (int i = 0; i < recursions; i++) {
            sum += recurse(DEPTH, work);
        }
        return sum;
    }
}
