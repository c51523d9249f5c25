// SPDX-License-Identifier: Apache-2.0
package dev.hindsight;

import android.os.Looper;

/** Called by the framework while an app starts; by reflection, because the framework's jar is before this one. */
public final class AppStart {
    private AppStart() {}

    /** Called when the main looper is prepared. Watches it for stalls if the thread records anything. */
    public static void mainLooperReady() {
        if (Hindsight.isTracing()) {
            Watchdog.watch(Looper.getMainLooper(), Watchdog.LIMIT_OF_SERVICE, null);
            MemoryTrim.listen(Looper.getMainLooper());
        }
    }
}
