// SPDX-License-Identifier: Apache-2.0
package com.example.detectors;

import android.os.Handler;

/** Work that goes on, message after message, with a pause of {@link #PAUSE_MILLIS} after each. On the main thread. */
final class Steady {
    private static final long PAUSE_MILLIS = 50;

    private final Handler handler;
    private final Store store;
    private final Runnable next = this::work;
    private String kind = "off";
    private long millis;

    Steady(Handler handler, Store store) {
        this.handler = handler;
        this.store = store;
    }

    /** From now on each message does this for so long, in place of what it did before. */
    void set(String kind, long millis) {
        this.kind = kind;
        this.millis = millis;
        handler.removeCallbacks(next);
        if (!kind.equals("off")) {
            handler.postDelayed(next, PAUSE_MILLIS);
        }
    }

    private void work() {
        switch (kind) {
            case "sleep":
                Store.sleep(millis);
                break;
            case "lock":
                store.waitForMonitor(millis);
                break;
            case "compute":
                long end = System.nanoTime() + millis * 1_000_000;
                while (System.nanoTime() < end) {
                    // Computes.
                }
                break;
            default:
                throw new IllegalArgumentException(kind);
        }
        handler.postDelayed(next, PAUSE_MILLIS);
    }
}
