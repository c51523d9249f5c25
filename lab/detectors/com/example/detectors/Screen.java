// SPDX-License-Identifier: Apache-2.0
package com.example.detectors;

import android.os.Looper;
import android.view.Choreographer;
import android.view.InputChannel;
import android.view.InputEvent;
import android.view.InputEventReceiver;

import dev.hindsight.lab.InputSource;

/** Frames and touches of the main thread. */
final class Screen {
    private final InputSource source = new InputSource();
    private final Window window = new Window(source.channel(), Looper.getMainLooper());

    /** Runs what a touch does, on the main thread. */
    private static final class Window extends InputEventReceiver {
        private Runnable action;
        private Runnable done;

        Window(InputChannel channel, Looper looper) {
            super(channel, looper);
        }

        synchronized void next(Runnable action, Runnable done) {
            this.action = action;
            this.done = done;
        }

        @Override
        public void onInputEvent(InputEvent event) {
            Runnable nextAction;
            Runnable nextDone;
            synchronized (this) {
                nextAction = action;
                nextDone = done;
            }
            nextAction.run();
            finishInputEvent(event, true);
            nextDone.run();
        }
    }

    /** The user touches the screen now. Then the main thread does {@code action}, and after the touch was handled {@code done}. */
    void touch(Runnable action, Runnable done) {
        window.next(action, done);
        source.send(InputSource.MOTION, 0);
    }

    /** Draws so many frames in a row, each for so long. On the main thread. */
    void draw(long count, long millis, Runnable done) {
        Choreographer.getInstance()
                .postFrameCallback(
                        time -> {
                            Store.sleep(millis);
                            if (count > 1) {
                                draw(count - 1, millis, done);
                            } else {
                                // The frame must have ended.
                                new android.os.Handler(Looper.myLooper()).post(done);
                            }
                        });
    }
}
