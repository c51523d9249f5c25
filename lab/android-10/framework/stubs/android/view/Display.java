// SPDX-License-Identifier: Apache-2.0
package android.view;

/** A display that refreshes 60 times a second, which is also the rate of the lab's vsync source. */
public final class Display {
    public static final int DEFAULT_DISPLAY = 0;

    private Display() {}

    public static final class Mode {
        public float getRefreshRate() {
            return 60f;
        }
    }
}
