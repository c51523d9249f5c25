// SPDX-License-Identifier: Apache-2.0
package com.example.coteditor;

import android.os.Handler;
import android.os.Looper;
import android.os.Message;

import com.android.internal.os.TraceEvents;

import dev.hindsight.cases.Case;

import java.util.concurrent.Semaphore;

/**
 * An editor with two screens: the browser of documents asks for pictures of all documents, and does not cancel them when the user
 * goes on to the editor. The lab has no {@code Activity}; {@link Screen} records the steps of its life as the framework's
 * {@code ActivityThread} does.
 */
public final class CotEditor {
    private static final int KEYS_BEFORE = 3;
    /** The user types again after this time; the pictures take longer. */
    private static final long USER_MILLIS = 150;

    public static void main(String[] args) {
        Case run = Case.begin(args);
        Looper.prepareMainLooper();
        ActivityHandler activities = new ActivityHandler(Looper.getMainLooper());
        KeyHandler keys = new KeyHandler(Looper.getMainLooper());
        run.start("user", () -> {
            activities.show(ActivityHandler.SHOW_EDITOR);
            for (int i = 0; i < KEYS_BEFORE; i++) {
                keys.type();
                Thread.sleep(20);
            }
            activities.show(ActivityHandler.SHOW_BROWSER);
            activities.show(ActivityHandler.SHOW_EDITOR);
            Thread.sleep(USER_MILLIS);
            keys.type();
            run.done();
        });
        run.ready();
        Looper.loop();
    }
}

/** What {@code ActivityThread} does: one screen follows another. */
final class ActivityHandler extends Handler {
    static final int SHOW_BROWSER = 1;
    static final int SHOW_EDITOR = 2;

    private final Semaphore shown = new Semaphore(0);
    private Screen current;

    ActivityHandler(Looper looper) {
        super(looper);
    }

    void show(int screen) throws InterruptedException {
        sendEmptyMessage(screen);
        shown.acquire();
    }

    @Override
    public void handleMessage(Message message) {
        Screen last = current;
        if (last != null) {
            last.step(TraceEvents.PAUSE);
        }
        current = message.what == SHOW_BROWSER ? new DocumentBrowser() : new EditorScreen();
        current.step(TraceEvents.CREATE);
        current.step(TraceEvents.START);
        current.step(TraceEvents.RESUME);
        if (last != null) {
            last.step(TraceEvents.STOP);
            last.step(TraceEvents.DESTROY);
        }
        shown.release();
    }
}

/** In place of {@code Activity}. */
abstract class Screen {
    final void step(int step) {
        TraceEvents.lifecycleBegin(step, this);
        if (step == TraceEvents.RESUME) {
            onResume();
        }
        TraceEvents.lifecycleEnd(step, this);
    }

    abstract void onResume();
}

/** The list of documents, with their pictures. */
final class DocumentBrowser extends Screen {
    private static final int DOCUMENTS = 5;
    /** Until the list has scrolled to its place. */
    private static final long SETTLE_MILLIS = 100;

    private final Handler handler = new Handler(Looper.getMainLooper());

    @Override
    void onResume() {
        for (int i = 0; i < DOCUMENTS; i++) {
            handler.postDelayed(new DrawPicture(i), SETTLE_MILLIS);
        }
    }
}

/** The editor. */
final class EditorScreen extends Screen {
    @Override
    void onResume() {}
}

/** Draws the picture of a document. */
final class DrawPicture implements Runnable {
    private final int document;
    private double ink;

    DrawPicture(int document) {
        this.document = document;
    }

    @Override
    public void run() {
        for (int page = 0; page < 160; page++) {
            drawPage(page);
        }
    }

    private void drawPage(int page) {
        Case.Budget budget = new Case.Budget(2);
        while (budget.isLeft()) {
            for (int i = 1; i < 200; i++) {
                ink += Math.sqrt(document + page + i);
            }
        }
    }
}

/** Handles keys in the editor. */
final class KeyHandler extends Handler {
    static final int KEY = 1;

    private final Semaphore handled = new Semaphore(0);

    KeyHandler(Looper looper) {
        super(looper);
    }

    void type() throws InterruptedException {
        sendEmptyMessage(KEY);
        handled.acquire();
    }

    @Override
    public void handleMessage(Message message) {
        handled.release();
    }
}
