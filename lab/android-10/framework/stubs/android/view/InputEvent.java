// SPDX-License-Identifier: Apache-2.0
package android.view;

/** An input event without its contents: what {@code InputEventReceiver} needs of it. */
public abstract class InputEvent {
    private static int lastSequenceNumber;

    private final int sequenceNumber;
    private final long eventTimeNano;
    private final int action;

    InputEvent(long eventTimeNano, int action) {
        synchronized (InputEvent.class) {
            sequenceNumber = ++lastSequenceNumber;
        }
        this.eventTimeNano = eventTimeNano;
        this.action = action;
    }

    public final int getSequenceNumber() {
        return sequenceNumber;
    }

    /** When it happened, in nanoseconds of uptime. */
    public final long getEventTimeNano() {
        return eventTimeNano;
    }

    final int action() {
        return action;
    }

    public final void recycleIfNeededAfterDispatch() {}
}
