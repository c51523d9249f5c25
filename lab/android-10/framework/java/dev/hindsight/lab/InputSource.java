// SPDX-License-Identifier: Apache-2.0
package dev.hindsight.lab;

import android.view.InputChannel;

/**
 * Takes the place of a device's InputDispatcher: sends input events through a channel to an {@code InputEventReceiver},
 * and waits until they are finished. Its natives are in {@code jni/input.cpp}.
 */
public final class InputSource {
    /** A type of event: a key. */
    public static final int KEY = 1;

    /** A type of event: a pointer. */
    public static final int MOTION = 2;

    private final int fd;
    private final InputChannel channel;
    private int lastSequence;

    public InputSource() {
        int[] fds = new int[2];
        nativeOpenPair(fds);
        fd = fds[0];
        channel = new InputChannel(fds[1]);
    }

    /** The receiver's end. */
    public InputChannel channel() {
        return channel;
    }

    /**
     * Sends an event that happened now.
     *
     * @return its sequence number
     */
    public synchronized int send(int type, int action) {
        nativeSend(fd, ++lastSequence, type, action, System.nanoTime());
        return lastSequence;
    }

    /**
     * Waits until the receiver has finished an event.
     *
     * @return its sequence number; negative if the receiver did not handle it
     */
    public int awaitFinished() {
        return nativeAwaitFinished(fd);
    }

    private static native void nativeOpenPair(int[] fds);

    private static native void nativeSend(int fd, int sequence, int type, int action, long nanos);

    private static native int nativeAwaitFinished(int fd);
}
