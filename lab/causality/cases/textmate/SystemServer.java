// SPDX-License-Identifier: Apache-2.0
package com.example.textmate;

import dev.hindsight.cases.Case;
import dev.hindsight.lab.SocketBinder;

/** The process that sends broadcasts. */
public final class SystemServer {
    static final int SAME_LANGUAGE = 1;
    static final int NEW_LANGUAGE = 2;

    private static final int SHORT_BROADCASTS = 3;

    public static void main(String[] args) throws Exception {
        Case run = Case.begin(args);
        SocketBinder.Proxy app = new SocketBinder.Proxy(run.port("editor", 0));
        run.start("broadcasts", () -> {
            for (int i = 0; i < SHORT_BROADCASTS; i++) {
                app.transact(ReceiverDispatcher.SCHEDULE_RECEIVER, SAME_LANGUAGE, true);
                Thread.sleep(50);
            }
            app.transact(ReceiverDispatcher.SCHEDULE_RECEIVER, NEW_LANGUAGE, true);
        });
        run.ready();
        run.stay();
    }
}
