// SPDX-License-Identifier: Apache-2.0
package com.example.chat;

import android.os.Looper;
import android.view.Choreographer;
import android.view.InputChannel;
import android.view.InputEvent;
import android.view.InputEventReceiver;

import com.android.internal.os.TraceEvents;

import dev.hindsight.cases.Case;
import dev.hindsight.lab.InputSource;

import java.util.concurrent.Semaphore;

/**
 * A chat: the user swipes back, the keyboard comes up, the chat gets smaller, and its list is laid out again on the main thread. The lab has
 * no views; {@link ChatWindow} records its traversals as {@code ViewRootImpl} does.
 */
public final class Chat {
    private static final int SWIPES_BEFORE = 3;
    private static final int SHORT_CHAT = 1;
    private static final int LONG_CHAT = 40;

    public static void main(String[] args) {
        Case run = Case.begin(args);
        Looper.prepareMainLooper();
        InputSource source = new InputSource();
        ChatWindow window = new ChatWindow();
        SwipeReceiver receiver = new SwipeReceiver(source.channel(), Looper.getMainLooper(), window);
        run.start("input-dispatcher", () -> {
            for (int i = 0; i < SWIPES_BEFORE; i++) {
                swipe(source, window, SHORT_CHAT);
                Thread.sleep(20);
            }
            swipe(source, window, LONG_CHAT);
            run.done();
        });
        run.ready();
        Looper.loop();
        receiver.dispose();
    }

    private static void swipe(InputSource source, ChatWindow window, int items) throws InterruptedException {
        window.items = items;
        source.send(InputSource.MOTION, 1);
        source.awaitFinished();
        window.drawn.acquire();
    }
}

/** Receives the user's swipes. */
final class SwipeReceiver extends InputEventReceiver {
    private final ChatWindow window;

    SwipeReceiver(InputChannel channel, Looper looper, ChatWindow window) {
        super(channel, looper);
        this.window = window;
    }

    @Override
    public void onInputEvent(InputEvent event) {
        window.swipeBack();
        finishInputEvent(event, true);
    }
}

/** The window: a chat above a keyboard. */
final class ChatWindow implements Runnable {
    final Semaphore drawn = new Semaphore(0);
    volatile int items;

    private final ChattingContent content = new ChattingContent();

    void swipeBack() {
        showKeyboard();
    }

    private void showKeyboard() {
        requestLayout();
    }

    private void requestLayout() {
        TraceEvents.traversalScheduled(this);
        Choreographer.getInstance().postCallback(Choreographer.CALLBACK_TRAVERSAL, this, null);
    }

    /** A frame lays the window out. */
    @Override
    public void run() {
        TraceEvents.traversalBegin(this);
        content.onLayout(items);
        TraceEvents.traversalEnd(this);
        drawn.release();
    }
}

/** The chat. */
final class ChattingContent {
    private final ChatAdapter adapter = new ChatAdapter();

    void onLayout(int items) {
        for (int i = 0; i < items; i++) {
            obtainView(i);
        }
    }

    private void obtainView(int item) {
        adapter.setupListItem(item);
    }
}

/** Makes the views of messages. */
final class ChatAdapter {
    private double width;

    void setupListItem(int item) {
        for (int i = 0; i < 20; i++) {
            formatMessage(item, i);
        }
    }

    private void formatMessage(int item, int part) {
        Case.Budget budget = new Case.Budget(2);
        while (budget.isLeft()) {
            for (int i = 1; i < 200; i++) {
                width += Math.sqrt(item + part + i);
            }
        }
    }
}
