// SPDX-License-Identifier: Apache-2.0
package dev.hindsight;

import android.os.Looper;

/** What the framework calls while an app starts (by reflection: its jar comes before this one). */
public final class AppStart {
    private AppStart() {}

    /** The main looper has been prepared: it is watched for stalls if the thread is traced. */
    public static void mainLooperReady() {
        if (Hindsight.isTracing()) {
            Watchdog.watch(Looper.getMainLooper(), Watchdog.DEFAULT_LIMIT_MILLIS, null);
        }
    }
}
