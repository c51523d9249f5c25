// SPDX-License-Identifier: Apache-2.0
package com.example.preferences;

import dev.hindsight.cases.Case;

import java.io.IOException;
import java.net.DatagramPacket;
import java.net.DatagramSocket;
import java.net.InetAddress;

/** The window server's process: it says when a reconfiguration of displays begins and ends, but forgets the end if a display is
 * disabled. */
public final class WindowServer {
    static final int WITH_MONITOR = 1;
    static final int MONITOR_DISABLED = 2;
    static final int PING = 3;
    static final int WILL_RECONFIGURE = 4;
    static final int DID_RECONFIGURE = 5;

    private static final long RECONFIGURATION_MILLIS = 20;

    public static void main(String[] args) throws Exception {
        Case run = Case.begin(args);
        DatagramSocket socket = new DatagramSocket(0, InetAddress.getLoopbackAddress());
        run.start("window-server", () -> serve(socket));
        run.ready(socket.getLocalPort());
        run.stay();
    }

    private static void serve(DatagramSocket socket) throws Exception {
        byte[] data = new byte[1];
        while (true) {
            DatagramPacket packet = new DatagramPacket(data, data.length);
            socket.receive(packet);
            int what = data[0];
            if (what == PING) {
                continue;
            }
            answer(socket, packet, WILL_RECONFIGURE);
            if (what == WITH_MONITOR) {
                Thread.sleep(RECONFIGURATION_MILLIS);
                answer(socket, packet, DID_RECONFIGURE);
            }
        }
    }

    private static void answer(DatagramSocket socket, DatagramPacket to, int what) throws IOException {
        byte[] data = {(byte) what};
        socket.send(new DatagramPacket(data, 1, to.getSocketAddress()));
    }
}
