// SPDX-License-Identifier: Apache-2.0
package dev.hindsight.vm;

import dev.hindsight.Hindsight;

/** The app in the guest: a known sequence of calls, then a snapshot. Its exit status is 3 if nothing was saved. */
public final class Snapshot {
    /** Equal to ROUNDS in xtask/src/vm.rs. */
    private static final int ROUNDS = 7;

    private Snapshot() {}

    public static void main(String[] arguments) {
        int sum = 0;
        for (int i = 0; i < ROUNDS; i++) {
            sum += round(i);
        }
        String file = Hindsight.anomaly("vm: " + arguments[0]);
        System.out.println("vm: sum=" + sum + " file=" + file);
        System.exit(file == null ? 3 : 0);
    }

    /** Its loop and calls make it too large to be inlined. */
    private static int round(int i) {
        StringBuilder text = new StringBuilder();
        for (int k = 0; k < 100; k++) {
            text.append(Integer.toHexString(k * i));
        }
        return text.toString().hashCode() & 0xff;
    }
}
