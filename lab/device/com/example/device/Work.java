// SPDX-License-Identifier: Apache-2.0
package com.example.device;

/** Calls in a known order: each {@link #round} calls {@link #first}, which calls {@link #second}, which calls {@link #third} twice. */
final class Work {
    private static int sum;

    private Work() {}

    static void rounds(int count) {
        for (int i = 0; i < count; i++) {
            round(i);
        }
    }

    private static void round(int i) {
        sum += first(i);
    }

    private static int first(int i) {
        return second(i) + 1;
    }

    private static int second(int i) {
        return third(i) ^ third(i + 1);
    }

    private static int third(int i) {
        int hash = i;
        for (int k = 0; k < 50; k++) {
            hash = hash * 31 + k;
        }
        return hash;
    }
}
