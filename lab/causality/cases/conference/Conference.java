// SPDX-License-Identifier: Apache-2.0
package com.example.conference;

import android.os.Handler;
import android.os.Looper;
import android.os.Message;

import dev.hindsight.cases.Case;
import dev.hindsight.lab.SocketBinder;

import java.io.IOException;
import java.util.concurrent.Semaphore;

/** A conference: after a call with a headset, the main thread sleeps until the headset's link is there. */
public final class Conference {
    private static final int CALLS_BEFORE = 3;

    public static void main(String[] args) throws Exception {
        Case run = Case.begin(args);
        Looper.prepareMainLooper();
        AudioManager audio = new AudioManager(new SocketBinder.Proxy(run.port("audioserver", 0)));
        CallScreen screen = new CallScreen(Looper.getMainLooper(), audio);
        run.start("user", () -> {
            for (int i = 0; i < CALLS_BEFORE; i++) {
                screen.endCall(false);
                Thread.sleep(20);
            }
            screen.endCall(true);
            run.done();
        });
        run.ready();
        Looper.loop();
    }
}

/** The screen of a call. */
final class CallScreen extends Handler {
    static final int END_CALL = 1;

    private final AudioManager audio;
    private final Semaphore ended = new Semaphore(0);

    CallScreen(Looper looper, AudioManager audio) {
        super(looper);
        this.audio = audio;
    }

    void endCall(boolean hasHeadset) throws InterruptedException {
        obtainMessage(END_CALL, hasHeadset ? 1 : 0, 0).sendToTarget();
        ended.acquire();
    }

    @Override
    public void handleMessage(Message message) {
        audio.stopCall();
        if (message.arg1 == 1) {
            audio.rerouteToHeadset();
        }
        ended.release();
    }
}

/** The app's end of the audio service. */
final class AudioManager {
    private final SocketBinder.Proxy server;

    AudioManager(SocketBinder.Proxy server) {
        this.server = server;
    }

    void stopCall() {
        transact(AudioServer.STOP_CALL);
    }

    void rerouteToHeadset() {
        transact(AudioServer.START_SCO);
        ScoLink.awaitConnection();
    }

    private void transact(int code) {
        try {
            server.transact(code, 0, false);
        } catch (IOException error) {
            throw new IllegalStateException(error);
        }
    }
}

/** The connection to a headset. */
final class ScoLink {
    private static final long CONNECT_MILLIS = 1000;

    private ScoLink() {}

    static void awaitConnection() {
        try {
            Thread.sleep(CONNECT_MILLIS);
        } catch (InterruptedException error) {
            throw new IllegalStateException(error);
        }
    }
}
