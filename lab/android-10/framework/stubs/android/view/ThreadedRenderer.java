// SPDX-License-Identifier: Apache-2.0
package android.view;

/** The switch of the render thread that {@code Choreographer} forwards; nothing is rendered here. */
public final class ThreadedRenderer {
    public static final String DEBUG_FPS_DIVISOR = "debug.hwui.fps_divisor";

    private ThreadedRenderer() {}

    public static void setFPSDivisor(int divisor) {}
}
