// SPDX-License-Identifier: Apache-2.0
package dev.hindsight.boottest;

/**
 * What the suite traces: calls that it knows the number and order of, and a stall. With the argument
 * {@code start} it ends at once, for the time that starting takes.
 */
public final class BootTest {
    /** As in suite.rs. */
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
            // Not there on an ART without Hindsight, nor on the class path this is compiled against.
            file = (String) Class.forName("dev.hindsight.Hindsight")
                    .getMethod("anomaly", String.class)
                    .invoke(null, "boot test: a stall of 500 ms");
        } catch (ClassNotFoundException e) {
            System.out.println("boottest: no dev.hindsight.Hindsight");
        }
        System.out.println("boottest: sum=" + sum + " file=" + file);
    }

    /** Too large to be inlined: it has a loop and calls. */
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
