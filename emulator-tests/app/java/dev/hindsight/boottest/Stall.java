// SPDX-License-Identifier: Apache-2.0
package dev.hindsight.boottest;

import android.os.Handler;
import android.os.Looper;
import android.os.SystemClock;

/** A message on the main looper that takes too long, as the watchdog finds it. */
final class Stall {
    /** Over the watchdog's limit. Equal to APP_STALL in emulator-tests/src/app_steps.rs. */
    private static final long MILLIS = 700;

    private Stall() {}

    static void post() {
        new Handler(Looper.getMainLooper()).post(Stall::stall);
    }

    private static void stall() {
        SystemClock.sleep(MILLIS);
    }
}
