// SPDX-License-Identifier: Apache-2.0
package com.example.noteslist;

import android.os.Handler;
import android.os.Looper;

import dev.hindsight.cases.Case;

import java.util.concurrent.CountDownLatch;

/** A list of notes: a thread brings changes from a server, and the main thread shows them. */
public final class Notes {
    private static final int SHORT_CHANGES = 3;
    private static final int LONG_NOTE_LINES = 750;

    public static void main(String[] args) {
        Case run = Case.begin(args);
        Looper.prepareMainLooper();
        Handler main = new Handler(Looper.getMainLooper());
        run.start("notes-sync", () -> {
            for (int i = 0; i < SHORT_CHANGES; i++) {
                merge(main, 1);
                Thread.sleep(20);
            }
            merge(main, LONG_NOTE_LINES);
            run.done();
        });
        run.ready();
        Looper.loop();
    }

    private static void merge(Handler main, int lines) throws InterruptedException {
        ShowRemoteChange change = new ShowRemoteChange(lines);
        main.post(change);
        change.shown.await();
    }
}

/** Shows a note that was changed elsewhere. */
final class ShowRemoteChange implements Runnable {
    final CountDownLatch shown = new CountDownLatch(1);
    private final int lines;

    ShowRemoteChange(int lines) {
        this.lines = lines;
    }

    @Override
    public void run() {
        NoteLayout layout = new NoteLayout();
        for (int i = 0; i < lines; i++) {
            layout.layOutLine(i);
        }
        shown.countDown();
    }
}

/** Lays out the lines of a note. */
final class NoteLayout {
    private double height;

    void layOutLine(int line) {
        Case.Budget budget = new Case.Budget(2);
        while (budget.isLeft()) {
            for (int i = 1; i < 200; i++) {
                height += Math.sqrt(line * i);
            }
        }
    }
}
