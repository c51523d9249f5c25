// SPDX-License-Identifier: Apache-2.0
package com.example.sublime;

import android.os.Handler;
import android.os.Looper;
import android.os.Message;

import dev.hindsight.cases.Case;

import java.util.concurrent.Semaphore;

/** An editor: the first key in a file of a new language uses a class whose initializer builds large tables. */
public final class Sublime {
    private static final int KEYS_BEFORE = 3;

    public static void main(String[] args) {
        Case run = Case.begin(args);
        Looper.prepareMainLooper();
        KeyHandler keys = new KeyHandler(Looper.getMainLooper());
        run.start("user", () -> {
            for (int i = 0; i < KEYS_BEFORE; i++) {
                keys.type(KeyHandler.PLAIN_TEXT);
                Thread.sleep(20);
            }
            keys.type(KeyHandler.PROGRAM);
            run.done();
        });
        run.ready();
        Looper.loop();
    }
}

/** Handles keys. */
final class KeyHandler extends Handler {
    static final int KEY = 1;
    static final int PLAIN_TEXT = 1;
    static final int PROGRAM = 2;

    private final Semaphore handled = new Semaphore(0);
    private int colour;

    KeyHandler(Looper looper) {
        super(looper);
    }

    void type(int file) throws InterruptedException {
        obtainMessage(KEY, file, 0).sendToTarget();
        handled.acquire();
    }

    @Override
    public void handleMessage(Message message) {
        colour = message.arg1 == PROGRAM ? Grammar.colourOf("while") : 0;
        handled.release();
    }
}

/** The tables of a language. */
final class Grammar {
    private static final int[] STATES = buildStates();

    private Grammar() {}

    static int colourOf(String word) {
        return STATES[(word.hashCode() & 0x7fffffff) % STATES.length];
    }

    private static int[] buildStates() {
        int[] states = new int[1024];
        for (int turn = 0; turn < 750; turn++) {
            Case.Budget budget = new Case.Budget(2);
            while (budget.isLeft()) {
                for (int i = 1; i < states.length; i++) {
                    states[i] = 31 * states[i - 1] + turn;
                }
            }
        }
        return states;
    }
}
