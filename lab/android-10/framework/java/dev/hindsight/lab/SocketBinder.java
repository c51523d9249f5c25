// SPDX-License-Identifier: Apache-2.0
package dev.hindsight.lab;

import android.os.Process;

import com.android.internal.os.TraceEvents;

import java.io.Closeable;
import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.IOException;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.net.Socket;

/**
 * Transactions between two processes of the lab, which has no binder driver: through a socket, in the way of {@code
 * BinderProxy.transact} and {@code Binder.execTransact}, and with the same calls of {@link TraceEvents}. Other than the
 * kernel's driver, it passes on the transaction's identity.
 */
public final class SocketBinder {
    private SocketBinder() {}

    /** The server's side of a transaction. */
    public interface Service {
        /** Serves a transaction; {@code code} and the data are the client's. */
        int onTransact(int code, int data);
    }

    /** The client's side. One thread at a time may use it. */
    public static final class Proxy implements Closeable {
        private final Socket socket;
        private final DataInputStream in;
        private final DataOutputStream out;

        public Proxy(int port) throws IOException {
            socket = new Socket(InetAddress.getLoopbackAddress(), port);
            socket.setTcpNoDelay(true);
            in = new DataInputStream(socket.getInputStream());
            out = new DataOutputStream(socket.getOutputStream());
        }

        /** Sends a transaction; returns the reply, or 0 at once if it is one-way. */
        public int transact(int code, int data, boolean oneWay) throws IOException {
            final long traceId = TraceEvents.binder ? TraceEvents.binderSend(code, oneWay) : 0;
            try {
                out.writeLong(traceId);
                out.writeInt(code);
                out.writeInt(data);
                out.writeBoolean(oneWay);
                out.writeInt(Process.myPid());
                out.writeInt(Process.myUid());
                out.flush();
                return oneWay ? 0 : in.readInt();
            } finally {
                if (traceId != 0) TraceEvents.binderReply(traceId);
            }
        }

        @Override
        public void close() throws IOException {
            socket.close();
        }
    }

    /** Serves one client on the calling thread, until it closes its side. */
    public static void serve(ServerSocket listening, Service service) throws IOException {
        try (Socket socket = listening.accept()) {
            socket.setTcpNoDelay(true);
            DataInputStream in = new DataInputStream(socket.getInputStream());
            DataOutputStream out = new DataOutputStream(socket.getOutputStream());
            while (true) {
                long traceId;
                try {
                    traceId = in.readLong();
                } catch (java.io.EOFException e) {
                    return;
                }
                int code = in.readInt();
                int data = in.readInt();
                boolean oneWay = in.readBoolean();
                int pid = in.readInt();
                int uid = in.readInt();
                int reply;
                try {
                    if (TraceEvents.binder) {
                        TraceEvents.binderServe(traceId, code, oneWay, pid, uid);
                    }
                    reply = service.onTransact(code, data);
                } finally {
                    if (TraceEvents.binder) TraceEvents.binderServed(traceId);
                }
                if (!oneWay) {
                    out.writeInt(reply);
                    out.flush();
                }
            }
        }
    }
}
