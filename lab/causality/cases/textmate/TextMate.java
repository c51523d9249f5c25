// SPDX-License-Identifier: Apache-2.0
package com.example.textmate;

import android.os.Handler;
import android.os.Looper;

import dev.hindsight.cases.Case;
import dev.hindsight.lab.SocketBinder;

import java.net.ServerSocket;

/**
 * An editor that reads its bundles again when the system says that the language has changed. The system's process sends a
 * broadcast as on Android: a transaction without a reply to a thread of the app, which posts the receiver's call to the main thread. The
 * lab has no {@code BroadcastReceiver}; the three classes here do what {@code ApplicationThread}, {@code
 * LoadedApk.ReceiverDispatcher} and it do.
 */
public final class TextMate {
    public static void main(String[] args) throws Exception {
        Case run = Case.begin(args);
        Looper.prepareMainLooper();
        ServerSocket listening = new ServerSocket(0);
        ReceiverDispatcher dispatcher =
                new ReceiverDispatcher(new Handler(Looper.getMainLooper()), new LocaleReceiver(run));
        run.start("binder-1", () -> SocketBinder.serve(listening, dispatcher));
        run.ready(listening.getLocalPort());
        Looper.loop();
    }
}

/** Hands broadcasts to the main thread. */
final class ReceiverDispatcher implements SocketBinder.Service {
    static final int SCHEDULE_RECEIVER = 1;

    private final Handler main;
    private final LocaleReceiver receiver;

    ReceiverDispatcher(Handler main, LocaleReceiver receiver) {
        this.main = main;
        this.receiver = receiver;
    }

    @Override
    public int onTransact(int code, int language) {
        main.post(new Args(receiver, language));
        return 0;
    }

    /** A broadcast. */
    static final class Args implements Runnable {
        private final LocaleReceiver receiver;
        private final int language;

        Args(LocaleReceiver receiver, int language) {
            this.receiver = receiver;
            this.language = language;
        }

        @Override
        public void run() {
            receiver.onReceive(language);
        }
    }
}

/** Receives broadcasts, on the main thread. */
final class LocaleReceiver {
    private final Case run;
    private int checksum;

    LocaleReceiver(Case run) {
        this.run = run;
    }

    void onReceive(int language) {
        int bundles = language == SystemServer.NEW_LANGUAGE ? 750 : 1;
        for (int i = 0; i < bundles; i++) {
            loadBundle(i);
        }
        if (language == SystemServer.NEW_LANGUAGE) {
            run.done();
        }
    }

    private void loadBundle(int number) {
        Case.Budget budget = new Case.Budget(2);
        while (budget.isLeft()) {
            for (int i = 0; i < 200; i++) {
                checksum = 31 * checksum + (number ^ i);
            }
        }
    }
}
