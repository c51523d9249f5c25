// SPDX-License-Identifier: Apache-2.0
package com.example.chromium;

import android.os.Handler;
import android.os.Looper;
import android.os.Message;

import dev.hindsight.cases.Case;
import dev.hindsight.lab.SocketBinder;

import java.net.ServerSocket;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.Semaphore;
import java.util.concurrent.TimeUnit;

/** The browser's process: its main thread asks the renderer for the place of the text that is being typed. */
public final class Browser {
    /** For how long the main thread waits for the renderer, as in Chromium. */
    static final long BOX_TIMEOUT_MILLIS = 1500;

    private static final int KEYS_BEFORE = 3;
    private static final int KEYS_WHILE_LOADING = 2;

    public static void main(String[] args) throws Exception {
        Case run = Case.begin(args);
        Looper.prepareMainLooper();
        ServerSocket boxes = new ServerSocket(0);
        ServerSocket help = new ServerSocket(0);
        SocketBinder.Proxy toRenderer = new SocketBinder.Proxy(run.port("renderer", 0));
        SocketBinder.Proxy control = new SocketBinder.Proxy(run.port("renderer", 1));

        TextInputClient client = new TextInputClient(toRenderer);
        ScriptHelp scripts = new ScriptHelp(Looper.getMainLooper());
        run.start("browser-io", () -> SocketBinder.serve(boxes, client));
        run.start("browser-sync", () -> SocketBinder.serve(help, scripts));
        control.transact(Renderer.CONNECT_BOXES, boxes.getLocalPort(), false);
        control.transact(Renderer.CONNECT_HELP, help.getLocalPort(), false);

        KeyHandler keys = new KeyHandler(Looper.getMainLooper(), client);
        run.start("input-method", () -> type(run, keys, scripts, control));
        run.ready();
        Looper.loop();
    }

    /** The user types, also while a page loads. */
    private static void type(Case run, KeyHandler keys, ScriptHelp scripts, SocketBinder.Proxy control)
            throws Exception {
        for (int i = 0; i < KEYS_BEFORE; i++) {
            keys.send();
            keys.awaitHandled(1);
            Thread.sleep(20);
        }
        control.transact(Renderer.LOAD, 0, true);
        scripts.asked.await();
        for (int i = 0; i < KEYS_WHILE_LOADING; i++) {
            keys.send();
            // The next key is typed while the browser hangs.
            Thread.sleep(BOX_TIMEOUT_MILLIS / 2);
        }
        keys.awaitHandled(KEYS_WHILE_LOADING);
        control.transact(Renderer.LOADED, 0, true);
        run.done();
    }
}

/** Handles keys on the main thread. */
final class KeyHandler extends Handler {
    static final int KEY = 1;

    private final TextInputClient client;
    private final Semaphore handled = new Semaphore(0);

    KeyHandler(Looper looper, TextInputClient client) {
        super(looper);
        this.client = client;
    }

    void send() {
        sendEmptyMessage(KEY);
    }

    void awaitHandled(int keys) throws InterruptedException {
        if (!handled.tryAcquire(keys, 30, TimeUnit.SECONDS)) {
            throw new IllegalStateException("keys were not handled");
        }
    }

    @Override
    public void handleMessage(Message message) {
        client.firstRectForCharacterRange();
        handled.release();
    }
}

/** Asks the renderer for the bounding box of a string, and waits for it with a timeout. */
final class TextInputClient implements SocketBinder.Service {
    static final int BOX = 1;

    private final SocketBinder.Proxy renderer;
    private final Object lock = new Object();
    private int asked;
    private int answered;

    TextInputClient(SocketBinder.Proxy renderer) {
        this.renderer = renderer;
    }

    boolean firstRectForCharacterRange() {
        try {
            int request;
            synchronized (lock) {
                request = ++asked;
            }
            renderer.transact(Renderer.GET_BOX, request, true);
            return awaitBox(request);
        } catch (java.io.IOException | InterruptedException error) {
            throw new IllegalStateException(error);
        }
    }

    private boolean awaitBox(int request) throws InterruptedException {
        long end = System.nanoTime() + Browser.BOX_TIMEOUT_MILLIS * 1000000;
        synchronized (lock) {
            while (answered < request) {
                long left = (end - System.nanoTime()) / 1000000;
                if (left <= 0) {
                    return false;
                }
                lock.wait(left);
            }
            return true;
        }
    }

    /** The renderer's answer, on a thread of the browser. */
    @Override
    public int onTransact(int code, int request) {
        synchronized (lock) {
            answered = Math.max(answered, request);
            lock.notifyAll();
        }
        return 0;
    }
}

/** Helps the renderer with scripts: what they ask for happens on the browser's main thread. */
final class ScriptHelp extends Handler implements SocketBinder.Service {
    static final int HELP = 2;

    /** A script has asked for the first time. */
    final CountDownLatch asked = new CountDownLatch(1);

    ScriptHelp(Looper looper) {
        super(looper);
    }

    @Override
    public int onTransact(int code, int data) {
        asked.countDown();
        Semaphore answer = new Semaphore(0);
        obtainMessage(HELP, answer).sendToTarget();
        answer.acquireUninterruptibly();
        return 0;
    }

    @Override
    public void handleMessage(Message message) {
        ((Semaphore) message.obj).release();
    }
}
