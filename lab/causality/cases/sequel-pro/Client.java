// SPDX-License-Identifier: Apache-2.0
package com.example.sequel;

import android.os.Handler;
import android.os.Looper;
import android.os.Message;

import dev.hindsight.cases.Case;

import java.io.IOException;
import java.io.InputStream;
import java.net.InetAddress;
import java.net.Socket;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Semaphore;

/** A client of a database: the main thread waits for a thread of a pool, which waits for the thread of the connection. */
public final class Client {
    private static final int QUERIES_BEFORE = 3;

    public static void main(String[] args) throws Exception {
        Case run = Case.begin(args);
        Looper.prepareMainLooper();
        SshTunnel tunnel = new SshTunnel(run.port("database", 0));
        run.start("ssh-tunnel", tunnel::run);
        QueryEditor editor = new QueryEditor(Looper.getMainLooper(), tunnel);
        run.start("user", () -> {
            for (int i = 0; i < QUERIES_BEFORE; i++) {
                editor.query(Database.SELECT);
                Thread.sleep(20);
            }
            editor.query(Database.LOSE_CONNECTION);
            run.done();
        });
        run.ready();
        Looper.loop();
    }
}

/** The window with the query; runs on the main thread. */
final class QueryEditor extends Handler {
    static final int RUN_QUERY = 1;

    private final SshTunnel tunnel;
    private final ExecutorService pool = Executors.newFixedThreadPool(2, body -> new Thread(body, "query-pool"));
    private final Semaphore finished = new Semaphore(0);

    QueryEditor(Looper looper, SshTunnel tunnel) {
        super(looper);
        this.tunnel = tunnel;
    }

    void query(int text) throws InterruptedException {
        obtainMessage(RUN_QUERY, text, 0).sendToTarget();
        finished.acquire();
    }

    @Override
    public void handleMessage(Message message) {
        try {
            pool.submit(new Query(tunnel, message.arg1)).get();
        } catch (InterruptedException | ExecutionException error) {
            throw new IllegalStateException(error);
        }
        finished.release();
    }
}

/** A query, on a thread of the pool. */
final class Query implements Runnable {
    private final SshTunnel tunnel;
    private final int text;

    Query(SshTunnel tunnel, int text) {
        this.tunnel = tunnel;
        this.text = text;
    }

    @Override
    public void run() {
        tunnel.execute(text);
    }
}

/** The connection: one thread writes the requests and reads the answers. */
final class SshTunnel {
    private final int port;
    private final Object lock = new Object();
    private int request;
    private boolean isAnswered;

    SshTunnel(int port) {
        this.port = port;
    }

    /** Hands a request to the connection's thread, and waits for the answer. */
    void execute(int text) {
        synchronized (lock) {
            request = text;
            isAnswered = false;
            lock.notifyAll();
            while (!isAnswered) {
                try {
                    lock.wait();
                } catch (InterruptedException error) {
                    throw new IllegalStateException(error);
                }
            }
        }
    }

    void run() throws Exception {
        Socket socket = new Socket(InetAddress.getLoopbackAddress(), port);
        while (true) {
            int text;
            synchronized (lock) {
                while (request == 0) {
                    lock.wait();
                }
                text = request;
                request = 0;
            }
            socket.getOutputStream().write(text);
            if (!readReply(socket.getInputStream())) {
                // The connection was lost.
                socket.close();
                socket = new Socket(InetAddress.getLoopbackAddress(), port);
            }
            synchronized (lock) {
                isAnswered = true;
                lock.notifyAll();
            }
        }
    }

    /** Waits for the network. */
    private static boolean readReply(InputStream in) throws IOException {
        return in.read() >= 0;
    }
}
