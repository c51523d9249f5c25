// SPDX-License-Identifier: Apache-2.0
package dev.hindsight;

import java.io.IOException;

/**
 * When reports may leave the device. For the app of the system that knows whether the device is idle, charging, and on a network
 * that costs nothing, such as a job with these constraints: it needs the right to give the service hindsightd commands, which other
 * apps do not have. What may leave at all is a matter of {@link Consent}.
 *
 * <p>A permission ends with its time, also when the app that gave it has ended, and when the service is started anew. Each method
 * sends one command to the service, and blocks until it has answered, which takes no longer than 150 s; call it from a thread that no
 * other thread waits for. Methods throw {@link IOException} if there is no service, it does not serve this app, it does not answer, or
 * it refuses the command: then nothing is allowed that was not before.
 */
public final class Uploads {
    /** The longest time that can be allowed at once, in minutes. */
    public static final int MOST_MINUTES = 60;

    private final ServiceCommands service;

    /** The service of the device. */
    public Uploads() {
        this(ServiceCommands.SOCKET);
    }

    /** The service whose socket for commands is at this path. */
    public Uploads(String socket) {
        service = new ServiceCommands(socket);
    }

    /**
     * Reports may leave for so many minutes from now on. The time of an earlier call does not count any more.
     *
     * @param minutes from 1 to {@link #MOST_MINUTES}
     */
    public void allow(int minutes) throws IOException {
        if (minutes < 1 || minutes > MOST_MINUTES) {
            throw new IllegalArgumentException("uploads are allowed for 1 to " + MOST_MINUTES + " minutes, not " + minutes);
        }
        service.ask("uploads allow " + minutes);
    }

    /** Nothing may leave any more. A request that is under way (256 KiB) may still arrive. */
    public void stop() throws IOException {
        service.ask("uploads stop");
    }
}
