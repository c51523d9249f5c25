// SPDX-License-Identifier: Apache-2.0
package dev.hindsight.boottest;

/**
 * The program that the suite traces: a known sequence of calls, and a stall. With the argument
 * {@code start} it ends at once, which measures start-up.
 */
public final class BootTest {
    /** Equal to ROUNDS in suite.rs. */
    private static final int ROUNDS = 7;

    private BootTest() {}

    public static void main(String[] arguments) throws Exception {
        if (arguments.length == 1 && arguments[0].equals("start")) {
            System.out.println("boottest: started");
            return;
        }
        int sum = 0;
        for (int i = 0; i < ROUNDS; i++) {
            sum += round(i);
        }
        stall();
        String file = null;
        try {
            // By reflection: the class path at compile time has no such class, nor does an ART without Hindsight.
            file = (String) Class.forName("dev.hindsight.Hindsight")
                    .getMethod("anomaly", String.class)
                    .invoke(null, "boot test: a stall of 500 ms");
        } catch (ClassNotFoundException e) {
            System.out.println("boottest: no dev.hindsight.Hindsight");
        }
        System.out.println("boottest: sum=" + sum + " file=" + file);
    }

    /** Its loop and calls make it too large to be inlined. */
    private static int round(int i) throws Exception {
        StringBuilder text = new StringBuilder();
        for (int k = 0; k < 100; k++) {
            text.append(Integer.toHexString(k * i));
        }
        return text.toString().hashCode() & 0xff;
    }

    private static void stall() throws Exception {
        synchronized (BootTest.class) {
            Thread.sleep(500);
        }
    }
}
