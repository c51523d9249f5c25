// SPDX-License-Identifier: Apache-2.0
package android.view;

/** A key was pressed or released. */
public final class KeyEvent extends InputEvent {
    public KeyEvent(long eventTimeNano, int action) {
        super(eventTimeNano, action);
    }

    public int getAction() {
        return action();
    }
}
