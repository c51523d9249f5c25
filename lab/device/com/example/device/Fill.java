// SPDX-License-Identifier: Apache-2.0
package com.example.device;

/** Many short calls, to fill a ring. */
final class Fill {
    private Fill() {}

    /** Returns something that depends on all calls. */
    static int calls(int count) {
        int sum = 0;
        for (int i = 0; i < count; i++) {
            sum += leaf(i);
        }
        return sum;
    }

    /** Not inlined, as it has a handler of exceptions. */
    private static int leaf(int i) {
        try {
            return i / (i | 1);
        } catch (ArithmeticException e) {
            return 1;
        }
    }
}
