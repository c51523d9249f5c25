// SPDX-License-Identifier: Apache-2.0
package com.example.notes;

import android.os.Handler;
import android.os.HandlerThread;
import android.os.Message;
import android.os.Process;
import android.os.SystemClock;

import java.io.IOException;
import java.util.Random;

/** Brings edits from "other devices" into the store, on a thread of its own, and now and then saves. */
final class SyncWorker implements Handler.Callback {
    private static final int MSG_SYNC = 1;
    private static final long SYNC_PERIOD_MILLIS = 200;
    private static final int EDITS_PER_SYNC = 12;
    private static final int SYNCS_PER_SAVE = 8;

    private final NoteStore store;
    private final Handler ui;
    private final Random random;
    private final HandlerThread thread;
    private Handler handler;
    private int syncs;

    SyncWorker(NoteStore store, Handler ui, long seed) {
        this.store = store;
        this.ui = ui;
        this.random = new Random(seed);
        this.thread = new HandlerThread("notes-sync", Process.THREAD_PRIORITY_BACKGROUND);
    }

    void start() {
        thread.start();
        handler = new Handler(thread.getLooper(), this);
        handler.sendEmptyMessageDelayed(MSG_SYNC, SYNC_PERIOD_MILLIS);
    }

    @Override
    public boolean handleMessage(Message msg) {
        if (msg.what != MSG_SYNC) {
            return false;
        }
        applyRemoteEdits();
        if (++syncs % SYNCS_PER_SAVE == 0) {
            save();
        }
        handler.sendEmptyMessageDelayed(MSG_SYNC, SYNC_PERIOD_MILLIS);
        return true;
    }

    private void applyRemoteEdits() {
        int size = store.snapshot().size();
        for (int i = 0; i < EDITS_PER_SYNC; i++) {
            Note note = store.find(random.nextInt(size));
            store.put(note.withText(note.text + '.', SystemClock.uptimeMillis()));
        }
        store.publish();
        ui.obtainMessage(NoteListScreen.MSG_LIST_CHANGED, EDITS_PER_SYNC, 0).sendToTarget();
    }

    private void save() {
        try {
            store.saveAll();
        } catch (IOException e) {
            ui.obtainMessage(NoteListScreen.MSG_SAVE_FAILED, e).sendToTarget();
        }
    }
}
