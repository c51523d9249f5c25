// SPDX-License-Identifier: Apache-2.0

import dev.hindsight.Hindsight;

import java.io.File;

/** A thread that starts its own tracing: by Hindsight's class, and by Nanoscope's thread names. */
public final class ApiTest {
    private ApiTest() {}

    public static void main(String[] args) throws Exception {
        System.out.println("before: " + Hindsight.isTracing() + " " + Hindsight.stop());
        System.out.println("start: " + Hindsight.start() + " " + Hindsight.start() + " " + Hindsight.isTracing());
        traced();
        File saved = new File(Hindsight.anomaly("api"));
        System.out.println("saved: " + saved.exists() + " " + Hindsight.isTracing());
        saved.renameTo(new File(args[0], "api.hindsight"));
        System.out.println("stop: " + Hindsight.stop() + " " + Hindsight.stop() + " " + Hindsight.isTracing());

        Thread self = Thread.currentThread();
        // Names that are not UTF-8 inside ART: a lone surrogate, U+0000, and a pair.
        for (String name : new String[] {"a\uD83D", "a\u0000b", "\uD83D\uDE00"}) {
            self.setName(name);
            System.out.println("odd name: " + self.getName().equals(name));
        }
        self.setName("a name");
        self.setName("START_TRACING");
        System.out.println("named: " + self.getName() + " " + Hindsight.isTracing());
        traced();
        self.setName("STOP_TRACING:" + args[0] + "/named.hindsight");
        System.out.println("stopped: " + self.getName() + " " + Hindsight.isTracing());
    }

    /** Methods with a handler are not inlined. */
    private static void traced() {
        try {
            Thread.sleep(1);
        } catch (InterruptedException e) {
            throw new AssertionError(e);
        }
    }
}
