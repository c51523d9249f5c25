// SPDX-License-Identifier: Apache-2.0
package com.example.conference;

import dev.hindsight.cases.Case;
import dev.hindsight.lab.SocketBinder;

import java.net.ServerSocket;

/** The process of the audio service. */
public final class AudioServer {
    static final int STOP_CALL = 1;
    static final int START_SCO = 2;

    public static void main(String[] args) throws Exception {
        Case run = Case.begin(args);
        ServerSocket listening = new ServerSocket(0);
        run.start("audio-binder", () -> SocketBinder.serve(listening, (code, data) -> 0));
        run.ready(listening.getLocalPort());
        run.stay();
    }
}
