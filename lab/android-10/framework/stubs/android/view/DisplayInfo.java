// SPDX-License-Identifier: Apache-2.0
package android.view;

/** From which {@code Choreographer} takes the refresh rate. */
public final class DisplayInfo {
    public Display.Mode getMode() {
        return new Display.Mode();
    }
}
