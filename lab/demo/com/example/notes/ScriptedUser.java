// SPDX-License-Identifier: Apache-2.0
package com.example.notes;

import android.os.Handler;

import java.util.Random;

/** A simulated user: opens a note ten times a second, and searches; the same in each run. */
final class ScriptedUser implements Runnable {
    private static final long TAP_PERIOD_MILLIS = 100;
    private static final int TAPS_PER_SEARCH = 5;
    private static final String[] WORDS = {"milk", "train", "garden", "birthday"};

    private final NoteStore store;
    private final NoteListScreen screen;
    private final Handler handler;
    private final Random random;
    private int taps;

    ScriptedUser(NoteStore store, NoteListScreen screen, long seed) {
        this.store = store;
        this.screen = screen;
        this.handler = screen.handler;
        this.random = new Random(seed);
    }

    void start() {
        handler.postDelayed(this, TAP_PERIOD_MILLIS);
    }

    @Override
    public void run() {
        int id = random.nextInt(store.snapshot().size());
        handler.obtainMessage(NoteListScreen.MSG_OPEN_NOTE, id, 0).sendToTarget();
        if (++taps % TAPS_PER_SEARCH == 0) {
            new SearchTask(store, screen).execute(WORDS[random.nextInt(WORDS.length)]);
        }
        handler.postDelayed(this, TAP_PERIOD_MILLIS);
    }
}
