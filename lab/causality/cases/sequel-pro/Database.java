// SPDX-License-Identifier: Apache-2.0
package com.example.sequel;

import dev.hindsight.cases.Case;

import java.io.InputStream;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.net.Socket;

/** The database's process, and the network before it: one request is never answered, and the connection ends at last. */
public final class Database {
    static final int SELECT = 1;
    static final int LOSE_CONNECTION = 2;

    private static final long LOST_MILLIS = 1200;

    public static void main(String[] args) throws Exception {
        Case run = Case.begin(args);
        ServerSocket listening = new ServerSocket(0, 0, InetAddress.getLoopbackAddress());
        run.start("connection", () -> {
            while (true) {
                serve(listening.accept());
            }
        });
        run.ready(listening.getLocalPort());
        run.stay();
    }

    private static void serve(Socket client) throws Exception {
        try (Socket socket = client) {
            InputStream in = socket.getInputStream();
            for (int request = in.read(); request >= 0; request = in.read()) {
                if (request == LOSE_CONNECTION) {
                    Thread.sleep(LOST_MILLIS);
                    return;
                }
                socket.getOutputStream().write(1);
            }
        }
    }
}
