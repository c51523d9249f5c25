// SPDX-License-Identifier: Apache-2.0
package android.view;

/** One end of a socket pair, as on a device. The other end belongs to {@code dev.hindsight.lab.InputSource}. */
public final class InputChannel {
    private final int fd;

    /** Takes over the file descriptor. */
    public InputChannel(int fd) {
        this.fd = fd;
    }

    public int getFd() {
        return fd;
    }
}
