// SPDX-License-Identifier: Apache-2.0
package android.app;

import android.content.pm.ApplicationInfo;

/** Only the fields by which the framework binds a process to its app, with the names and types that they have on a device. */
public final class ActivityThread {
    private static volatile ActivityThread sCurrentActivityThread;

    AppBindData mBoundApplication;

    static final class AppBindData {
        ApplicationInfo appInfo;
    }

    /** The process becomes one of an app. */
    public static void attach() {
        sCurrentActivityThread = new ActivityThread();
    }

    /** The process's app is this one. */
    public static void bindApplication(ApplicationInfo app) {
        AppBindData data = new AppBindData();
        data.appInfo = app;
        sCurrentActivityThread.mBoundApplication = data;
    }
}
