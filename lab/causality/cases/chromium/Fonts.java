// SPDX-License-Identifier: Apache-2.0
package com.example.chromium;

import dev.hindsight.cases.Case;
import dev.hindsight.lab.SocketBinder;

import java.net.ServerSocket;

/** The font service, which all processes ask for the sizes of strings. */
public final class Fonts {
    static final int MEASURE = 1;

    public static void main(String[] args) throws Exception {
        Case run = Case.begin(args);
        ServerSocket listening = new ServerSocket(0);
        run.ready(listening.getLocalPort());
        SocketBinder.serve(listening, (code, data) -> 8 * data);
    }
}
