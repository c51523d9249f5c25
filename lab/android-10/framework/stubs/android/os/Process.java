// SPDX-License-Identifier: Apache-2.0
package android.os;

import android.system.Os;

/** The ids of this process and the niceness of its threads; the original also starts processes. */
public class Process {
    public static final int INVALID_UID = -1;
    public static final int SYSTEM_UID = 1000;

    public static final int THREAD_PRIORITY_DEFAULT = 0;
    public static final int THREAD_PRIORITY_LOWEST = 19;
    public static final int THREAD_PRIORITY_BACKGROUND = 10;
    public static final int THREAD_PRIORITY_FOREGROUND = -2;
    public static final int THREAD_PRIORITY_DISPLAY = -4;
    public static final int THREAD_PRIORITY_URGENT_DISPLAY = -8;

    public static final int myPid() {
        return Os.getpid();
    }

    public static final int myTid() {
        return Os.gettid();
    }

    public static final int myUid() {
        return Os.getuid();
    }

    public static final native void setThreadPriority(int priority);

    public static final native void setThreadPriority(int tid, int priority);
}
