// SPDX-License-Identifier: Apache-2.0
package dev.hindsight.boottest;

import android.os.Looper;

import dev.hindsight.AppStart;

/** The app in the lab, which has no activities: does what ActivityThread does until the looper runs. */
public final class LabMain {
    private LabMain() {}

    public static void main(String[] arguments) {
        Looper.prepareMainLooper();
        AppStart.mainLooperReady();
        Stall.post();
        Looper.loop();
    }
}
