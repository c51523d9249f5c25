// SPDX-License-Identifier: Apache-2.0
package com.example.installer;

import dev.hindsight.cases.Case;
import dev.hindsight.lab.SocketBinder;

import java.net.ServerSocket;
import java.util.concurrent.SynchronousQueue;

/** The daemon that grants rights: some only after the user has typed a password. */
public final class AuthorizationDaemon implements SocketBinder.Service {
    static final int KNOWN_RIGHT = 1;
    static final int ASK_USER = 2;

    private final PasswordPrompt prompt;

    private AuthorizationDaemon(PasswordPrompt prompt) {
        this.prompt = prompt;
    }

    public static void main(String[] args) throws Exception {
        Case run = Case.begin(args);
        ServerSocket listening = new ServerSocket(0);
        PasswordPrompt prompt = new PasswordPrompt();
        run.start("password-dialog", prompt::showDialogs);
        run.start("authd-worker", () -> SocketBinder.serve(listening, new AuthorizationDaemon(prompt)));
        run.ready(listening.getLocalPort());
        run.stay();
    }

    @Override
    public int onTransact(int right, int data) {
        if (right == ASK_USER) {
            prompt.askUser();
        }
        return 1;
    }
}

/** A dialog: the user needs a while to answer. */
final class PasswordPrompt {
    private static final long USER_MILLIS = 1200;

    private final SynchronousQueue<Object> questions = new SynchronousQueue<>();
    private final Object lock = new Object();
    private int answers;

    void askUser() {
        try {
            int before;
            synchronized (lock) {
                before = answers;
            }
            questions.put(this);
            synchronized (lock) {
                while (answers == before) {
                    lock.wait();
                }
            }
        } catch (InterruptedException error) {
            throw new IllegalStateException(error);
        }
    }

    void showDialogs() throws InterruptedException {
        while (true) {
            questions.take();
            awaitPassword();
            synchronized (lock) {
                answers++;
                lock.notifyAll();
            }
        }
    }

    /** The user types. */
    private static void awaitPassword() throws InterruptedException {
        Thread.sleep(USER_MILLIS);
    }
}
