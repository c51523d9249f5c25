// SPDX-License-Identifier: Apache-2.0
package com.android.internal.os;

import android.os.IBinder;

/** Where {@code Log.wtf} reports to; the original tells the activity manager. */
public final class RuntimeInit {
    private RuntimeInit() {}

    public static void wtf(String tag, Throwable cause, boolean system) {
        System.err.println("WTF " + tag + ": " + cause);
    }

    public static IBinder getApplicationObject() {
        return null;
    }
}
