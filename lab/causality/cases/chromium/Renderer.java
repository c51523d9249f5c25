// SPDX-License-Identifier: Apache-2.0
package com.example.chromium;

import android.os.Handler;
import android.os.Looper;
import android.os.Message;

import dev.hindsight.cases.Case;
import dev.hindsight.lab.SocketBinder;

import java.io.IOException;
import java.net.ServerSocket;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.Semaphore;

/** The renderer's process: its main thread runs scripts, and computes the places of strings. */
public final class Renderer extends Handler implements SocketBinder.Service {
    static final int GET_BOX = 1;
    static final int LOAD = 2;
    static final int LOADED = 3;
    static final int CONNECT_BOXES = 4;
    static final int CONNECT_HELP = 5;

    private final Case run;
    private final SocketBinder.Proxy fonts;
    private final LinkedBlockingQueue<Integer> boxes = new LinkedBlockingQueue<>();
    private final LinkedBlockingQueue<Semaphore> requests = new LinkedBlockingQueue<>();
    private volatile boolean loading;

    private Renderer(Case run, Looper looper) throws IOException {
        super(looper);
        this.run = run;
        fonts = new SocketBinder.Proxy(run.port("fontd", 0));
    }

    public static void main(String[] args) throws Exception {
        Case run = Case.begin(args);
        Looper.prepareMainLooper();
        ServerSocket requests = new ServerSocket(0);
        ServerSocket control = new ServerSocket(0);
        Renderer renderer = new Renderer(run, Looper.getMainLooper());
        run.start("child-io", () -> SocketBinder.serve(requests, renderer));
        run.start("child-control", () -> SocketBinder.serve(control, renderer));
        run.ready(requests.getLocalPort(), control.getLocalPort());
        Looper.loop();
    }

    /** The browser's requests, on threads that only hand them on. */
    @Override
    public int onTransact(int code, int data) {
        switch (code) {
            case GET_BOX:
                obtainMessage(GET_BOX, data, 0).sendToTarget();
                break;
            case LOAD:
                loading = true;
                sendEmptyMessage(LOAD);
                break;
            case LOADED:
                loading = false;
                break;
            case CONNECT_BOXES:
                run.start("box-worker", () -> sendBoxes(data));
                break;
            case CONNECT_HELP:
                run.start("sync-worker", () -> sendRequests(data));
                break;
            default:
                throw new IllegalArgumentException();
        }
        return 0;
    }

    @Override
    public void handleMessage(Message message) {
        if (message.what == GET_BOX) {
            try {
                fonts.transact(Fonts.MEASURE, message.arg1, false);
            } catch (IOException error) {
                throw new IllegalStateException(error);
            }
            boxes.add(message.arg1);
        } else {
            executeScript();
        }
    }

    /** A page's script: asks for the browser's help as long as the page loads. */
    private void executeScript() {
        while (loading) {
            requestHelp();
        }
    }

    /** Asks the browser, and waits for the answer without a timeout. */
    private void requestHelp() {
        Semaphore answer = new Semaphore(0);
        requests.add(answer);
        answer.acquireUninterruptibly();
    }

    private void sendBoxes(int port) throws Exception {
        SocketBinder.Proxy browser = new SocketBinder.Proxy(port);
        while (true) {
            browser.transact(TextInputClient.BOX, boxes.take(), true);
        }
    }

    private void sendRequests(int port) throws Exception {
        SocketBinder.Proxy browser = new SocketBinder.Proxy(port);
        while (true) {
            Semaphore answer = requests.take();
            browser.transact(ScriptHelp.HELP, 0, false);
            answer.release();
        }
    }
}
