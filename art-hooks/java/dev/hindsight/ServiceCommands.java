// SPDX-License-Identifier: Apache-2.0
package dev.hindsight;

import android.net.LocalSocket;
import android.net.LocalSocketAddress;

import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.InputStream;

/** Commands to the system service hindsightd, each on a connection of its own. */
final class ServiceCommands {
    /** Where init puts the service's socket for commands. */
    static final String SOCKET = "/dev/socket/hindsightd_commands";

    /** The longest time of one send or receive, in milliseconds. The service itself answers within 120 s. */
    private static final int LIMIT_MILLIS = 150_000;

    /** Path of the service's socket. */
    final String socket;

    ServiceCommands(String socket) {
        if (socket == null) {
            throw new NullPointerException("socket");
        }
        this.socket = socket;
    }

    /**
     * Sends a command, and returns the answer without its first line, which is {@code ok}.
     *
     * @throws ConsentException if the service refuses the command
     * @throws IOException if there is no service, it does not serve this app, or it does not answer
     */
    String ask(String command) throws IOException {
        String answer;
        try {
            answer = exchange(command);
        } catch (IOException e) {
            throw new IOException(socket + ": " + e.getMessage()
                    + "; does hindsightd run (persist.hindsight.service), and may this app give it commands?", e);
        }
        if (answer.startsWith("ok\n")) {
            return answer.substring("ok\n".length());
        }
        if (answer.startsWith("error ")) {
            throw new ConsentException(answer.substring("error ".length()).trim());
        }
        throw new IOException(socket + ": the answer to '" + command + "' is neither 'ok' nor 'error'");
    }

    private String exchange(String command) throws IOException {
        ByteArrayOutputStream answer = new ByteArrayOutputStream();
        try (LocalSocket connection = new LocalSocket()) {
            connection.connect(new LocalSocketAddress(socket, LocalSocketAddress.Namespace.FILESYSTEM));
            connection.setSoTimeout(LIMIT_MILLIS);
            connection.getOutputStream().write((command + "\n").getBytes("UTF-8"));
            InputStream in = connection.getInputStream();
            byte[] bytes = new byte[8192];
            for (int count = in.read(bytes); count > 0; count = in.read(bytes)) {
                answer.write(bytes, 0, count);
            }
        }
        if (answer.size() == 0) {
            throw new IOException("the connection was closed without an answer");
        }
        return answer.toString("UTF-8");
    }
}
