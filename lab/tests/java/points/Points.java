// SPDX-License-Identifier: Apache-2.0

import java.io.IOException;

/** Passes each kind of place where a thread takes its stack: {@code Points LIBRARY}. Ends at the end of its input. */
public final class Points {
    private static volatile Object kept;

    private Points() {}

    public static void main(String[] args) throws Exception {
        load(args[0]);
        allocate();
        Thread[] collectors = {new Thread(Points::collect), new Thread(Points::collect)};
        for (Thread thread : collectors) {
            thread.start();
        }
        for (Thread thread : collectors) {
            thread.join();
        }
        System.out.println("done");
        System.out.flush();
        awaitEnd();
    }

    private static void load(String library) {
        System.load(library);
    }

    private static void allocate() {
        for (int i = 0; i < 1 << 14; i++) {
            kept = new byte[1 << 10];
        }
    }

    /** Two threads that do this at the same time wait for each other's collection. */
    private static void collect() {
        for (int i = 0; i < 50; i++) {
            Runtime.getRuntime().gc();
        }
    }

    private static void awaitEnd() throws IOException {
        while (System.in.read() >= 0) {
            // Until its end.
        }
    }
}
