// SPDX-License-Identifier: Apache-2.0
package android.view;

/** A pointer went down, moved or went up. */
public final class MotionEvent extends InputEvent {
    public MotionEvent(long eventTimeNano, int action) {
        super(eventTimeNano, action);
    }

    public int getActionMasked() {
        return action();
    }
}
