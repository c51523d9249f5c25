// SPDX-License-Identifier: Apache-2.0
package com.example.installer;

import android.os.Handler;
import android.os.Looper;
import android.os.Message;

import dev.hindsight.cases.Case;
import dev.hindsight.lab.SocketBinder;

import java.io.IOException;
import java.util.concurrent.Semaphore;

/** An installer: while the pointer moves, its main thread asks a daemon for a right, and waits for the answer. */
public final class Installer {
    private static final int MOVES_BEFORE = 3;

    public static void main(String[] args) throws Exception {
        Case run = Case.begin(args);
        Looper.prepareMainLooper();
        RunnerProxy runner = new RunnerProxy(new SocketBinder.Proxy(run.port("authd", 0)));
        PointerHandler pointer = new PointerHandler(Looper.getMainLooper(), runner);
        run.start("pointer", () -> {
            for (int i = 0; i < MOVES_BEFORE; i++) {
                pointer.move(AuthorizationDaemon.KNOWN_RIGHT);
                Thread.sleep(20);
            }
            pointer.move(AuthorizationDaemon.ASK_USER);
            run.done();
        });
        run.ready();
        Looper.loop();
    }
}

/** Handles moves of the pointer. */
final class PointerHandler extends Handler {
    static final int MOVED = 1;

    private final RunnerProxy runner;
    private final Semaphore handled = new Semaphore(0);

    PointerHandler(Looper looper, RunnerProxy runner) {
        super(looper);
        this.runner = runner;
    }

    void move(int right) throws InterruptedException {
        obtainMessage(MOVED, right, 0).sendToTarget();
        handled.acquire();
    }

    @Override
    public void handleMessage(Message message) {
        runner.requestKeyForRights(message.arg1);
        handled.release();
    }
}

/** The installer's end of the connection to the daemon. */
final class RunnerProxy {
    private final SocketBinder.Proxy authd;

    RunnerProxy(SocketBinder.Proxy authd) {
        this.authd = authd;
    }

    int requestKeyForRights(int right) {
        try {
            return authd.transact(right, 0, false);
        } catch (IOException error) {
            throw new IllegalStateException(error);
        }
    }
}
