// SPDX-License-Identifier: Apache-2.0
package com.example.okhttp;

import android.os.Handler;
import android.os.Looper;

import dev.hindsight.cases.Case;
import dev.hindsight.cases.Hops;

import java.io.IOException;
import java.util.Collections;
import java.util.concurrent.CountDownLatch;

import okhttp3.Call;
import okhttp3.Callback;
import okhttp3.ConnectionSpec;
import okhttp3.OkHttpClient;
import okhttp3.Request;
import okhttp3.Response;

/** Requests to a server, whose answers are shown on the main thread. */
public final class HttpProgram {
    private static final int REQUESTS = 12;

    public static void main(String[] args) {
        Case run = Case.begin(args);
        Looper.prepareMainLooper();
        Handler main = new Handler(Looper.getMainLooper());
        CountDownLatch end = Hops.endAfter(run, REQUESTS);
        OkHttpClient client = new OkHttpClient.Builder()
                .connectionSpecs(Collections.singletonList(ConnectionSpec.CLEARTEXT))
                .build();
        String url = "http://localhost:" + run.port("server", 0) + "/";
        for (int i = 0; i < REQUESTS; i++) {
            int hop = Hops.submit();
            client.newCall(new Request.Builder().url(url + i).build()).enqueue(new Callback() {
                @Override
                public void onFailure(Call call, IOException error) {
                    run.fail(error);
                }

                @Override
                public void onResponse(Call call, Response response) throws IOException {
                    Hops.run(hop);
                    String text = response.body().string();
                    int shown = Hops.submit();
                    main.post(() -> {
                        Hops.run(shown);
                        if (text.startsWith("page")) {
                            end.countDown();
                        }
                    });
                    Hops.submitted(shown);
                }
            });
            Hops.submitted(hop);
        }
        run.ready();
        Looper.loop();
    }
}
