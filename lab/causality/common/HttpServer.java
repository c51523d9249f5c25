// SPDX-License-Identifier: Apache-2.0
package dev.hindsight.cases;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.OutputStream;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.nio.charset.StandardCharsets;

/** A server that answers each GET with a line of text. */
public final class HttpServer {
    private HttpServer() {}

    public static void main(String[] args) throws Exception {
        Case run = Case.begin(args);
        serve(run, new ServerSocket(0, 50, InetAddress.getByName("localhost")));
    }

    /** Answers what comes to this socket. Does not return. */
    public static void serve(Case run, ServerSocket listening) throws InterruptedException {
        run.start("http-accept", () -> {
            for (int number = 0; ; number++) {
                Socket socket = listening.accept();
                run.start("http-" + number, () -> serve(socket));
            }
        });
        run.ready(listening.getLocalPort());
        run.stay();
    }

    private static void serve(Socket socket) throws IOException {
        BufferedReader in =
                new BufferedReader(new InputStreamReader(socket.getInputStream(), StandardCharsets.UTF_8));
        OutputStream out = socket.getOutputStream();
        for (String request = in.readLine(); request != null; request = in.readLine()) {
            String line = in.readLine();
            while (line != null && !line.isEmpty()) {
                line = in.readLine();
            }
            String path = request.split(" ")[1];
            byte[] body = ("page " + path + "\n").getBytes(StandardCharsets.UTF_8);
            String head = "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: " + body.length + "\r\n\r\n";
            out.write(head.getBytes(StandardCharsets.UTF_8));
            out.write(body);
            out.flush();
        }
    }
}
