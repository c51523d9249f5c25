// SPDX-License-Identifier: Apache-2.0
package dev.hindsight.vm;

import dalvik.system.VMRuntime;

import java.io.File;
import java.io.IOException;

/** An app in the guest that the user sees, and that works until it is killed. */
public final class Killed {
    private static final int PERCEPTIBLE = 0;

    private Killed() {}

    public static void main(String[] arguments) throws IOException, InterruptedException {
        VMRuntime.getRuntime().updateProcessState(PERCEPTIBLE);
        System.out.println("joined " + new File("/proc/self").getCanonicalFile().getName());
        for (int number = 1; ; number++) {
            work(number);
            System.out.println("round " + number);
            Thread.sleep(20);
        }
    }

    /** Its loop and calls make it too large to be inlined. */
    private static int work(int number) {
        StringBuilder text = new StringBuilder();
        for (int k = 0; k < 100; k++) {
            text.append(Integer.toHexString(k * number));
        }
        return text.toString().hashCode() & 0xff;
    }
}
