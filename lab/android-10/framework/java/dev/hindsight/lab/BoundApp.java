// SPDX-License-Identifier: Apache-2.0
package dev.hindsight.lab;

import android.app.ActivityThread;
import android.content.pm.ApplicationInfo;

/** Binds the process to an app, as the activity manager does on a device. */
public final class BoundApp {
    private BoundApp() {}

    /**
     * @param version the app's {@code longVersionCode}
     */
    public static void bind(long version) {
        ApplicationInfo app = new ApplicationInfo();
        app.longVersionCode = version;
        ActivityThread.attach();
        ActivityThread.bindApplication(app);
    }
}
