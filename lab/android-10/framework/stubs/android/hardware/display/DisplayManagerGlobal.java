// SPDX-License-Identifier: Apache-2.0
package android.hardware.display;

import android.view.DisplayInfo;

/** A display manager with one display, from which {@code Choreographer} takes the refresh rate. */
public final class DisplayManagerGlobal {
    private static final DisplayManagerGlobal INSTANCE = new DisplayManagerGlobal();

    private DisplayManagerGlobal() {}

    public static DisplayManagerGlobal getInstance() {
        return INSTANCE;
    }

    public DisplayInfo getDisplayInfo(int displayId) {
        return new DisplayInfo();
    }
}
