// SPDX-License-Identifier: Apache-2.0

import dev.hindsight.Hindsight;
import dev.hindsight.lab.SocketBinder;

import java.net.InetAddress;
import java.net.ServerSocket;

/** Two processes with transactions between them: {@code serve} prints its port, {@code call PORT} calls it. */
public final class BinderTest {
    static final int CALLS = 10;

    public static void main(String[] args) throws Exception {
        if (args[0].equals("serve")) {
            ServerSocket socket = new ServerSocket(0, 1, InetAddress.getLoopbackAddress());
            System.out.println(socket.getLocalPort());
            System.out.flush();
            SocketBinder.serve(socket, (code, data) -> data + 1);
        } else {
            try (SocketBinder.Proxy proxy = new SocketBinder.Proxy(Integer.parseInt(args[1]))) {
                for (int i = 0; i < CALLS; i++) {
                    boolean oneWay = i % 5 == 4;
                    if (proxy.transact(100 + i, i, oneWay) != (oneWay ? 0 : i + 1)) {
                        throw new AssertionError();
                    }
                }
            }
        }
        System.out.println(Hindsight.anomaly("all is done"));
        System.out.flush();
        System.exit(0);
    }
}
