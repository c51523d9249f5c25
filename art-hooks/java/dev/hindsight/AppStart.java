// SPDX-License-Identifier: Apache-2.0
package dev.hindsight;

import android.os.Looper;
import android.os.MessageQueue;

/** Called by the framework while an app starts; by reflection, because the framework's jar is before this one. */
public final class AppStart {
    private AppStart() {}

    /** Called when the main looper is prepared. Watches it for stalls if the thread records anything. */
    public static void mainLooperReady() {
        if (Hindsight.isTracing()) {
            Looper main = Looper.getMainLooper();
            Watchdog.watch(main, Watchdog.LIMIT_OF_SERVICE, null);
            main.getQueue()
                    .addIdleHandler(
                            new MessageQueue.IdleHandler() {
                                @Override
                                public boolean queueIdle() {
                                    return !started();
                                }
                            });
        }
    }

    /** Returns whether no further attempt is needed: there is an application, or there will be none. */
    private static boolean started() {
        try {
            // By reflection, because the classes of components are not part of every build of this package.
            Object application =
                    Class.forName("android.app.ActivityThread")
                            .getMethod("currentApplication")
                            .invoke(null);
            if (application == null) {
                return false;
            }
            Hindsight.appIsKnown();
            MemoryTrim.listen(application);
        } catch (ReflectiveOperationException e) {
            // No framework, or another one: nobody tells of trims.
        }
        return true;
    }
}
