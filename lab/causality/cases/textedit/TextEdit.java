// SPDX-License-Identifier: Apache-2.0
package com.example.textedit;

import android.os.Handler;
import android.os.Looper;
import android.os.Message;

import dev.hindsight.cases.Case;

import java.util.concurrent.Semaphore;

/** An editor that saves a document some time after it was changed: a timer starts the work on the main thread. */
public final class TextEdit {
    private static final int SMALL_DOCUMENTS = 3;
    private static final int LARGE_PARAGRAPHS = 750;

    public static void main(String[] args) {
        Case run = Case.begin(args);
        Looper.prepareMainLooper();
        DocumentWindow window = new DocumentWindow(Looper.getMainLooper());
        run.start("user", () -> {
            for (int i = 0; i < SMALL_DOCUMENTS; i++) {
                window.type(1);
            }
            window.type(LARGE_PARAGRAPHS);
            run.done();
        });
        run.ready();
        Looper.loop();
    }
}

/** The window of a document. */
final class DocumentWindow extends Handler {
    static final int TYPED = 1;

    private static final long AUTOSAVE_MILLIS = 150;

    private final Semaphore saved = new Semaphore(0);

    DocumentWindow(Looper looper) {
        super(looper);
    }

    /** Types into a document of this length, and waits until it was saved. */
    void type(int paragraphs) throws InterruptedException {
        obtainMessage(TYPED, paragraphs, 0).sendToTarget();
        saved.acquire();
    }

    @Override
    public void handleMessage(Message message) {
        postDelayed(new AutoSave(message.arg1, saved), AUTOSAVE_MILLIS);
    }
}

/** Saves a document. */
final class AutoSave implements Runnable {
    private final int paragraphs;
    private final Semaphore saved;
    private long checksum;

    AutoSave(int paragraphs, Semaphore saved) {
        this.paragraphs = paragraphs;
        this.saved = saved;
    }

    @Override
    public void run() {
        for (int i = 0; i < paragraphs; i++) {
            serializeParagraph(i);
        }
        saved.release();
    }

    private void serializeParagraph(int number) {
        Case.Budget budget = new Case.Budget(2);
        while (budget.isLeft()) {
            for (int i = 0; i < 200; i++) {
                checksum = 31 * checksum + (number ^ i);
            }
        }
    }
}
