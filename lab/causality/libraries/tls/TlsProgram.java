// SPDX-License-Identifier: Apache-2.0
package com.example.tls;

import android.os.Handler;
import android.os.Looper;

import dev.hindsight.cases.Case;
import dev.hindsight.cases.Hops;

import java.io.BufferedReader;
import java.io.File;
import java.io.IOException;
import java.io.InputStreamReader;
import java.net.HttpURLConnection;
import java.net.URL;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.util.Collections;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;

import javax.net.ssl.HttpsURLConnection;
import javax.net.ssl.TrustManager;
import javax.net.ssl.X509TrustManager;

import okhttp3.Call;
import okhttp3.Callback;
import okhttp3.ConnectionSpec;
import okhttp3.OkHttpClient;
import okhttp3.OkUrlFactory;
import okhttp3.Request;
import okhttp3.Response;

/** Loads pages by HTTPS: some by OkHttp's own calls, some by {@link HttpsURLConnection}. */
public final class TlsProgram {
    private static final int CALLS = 8;
    private static final int CONNECTIONS = 4;

    public static void main(String[] args) throws Exception {
        Case run = Case.begin(args);
        Looper.prepareMainLooper();
        Handler main = new Handler(Looper.getMainLooper());
        CountDownLatch end = Hops.endAfter(run, CALLS + CONNECTIONS);
        OkHttpClient client = client(new File(run.folder(), TlsServer.CERTIFICATE));
        Tls.handlers = new OkUrlFactory(client);
        String url = "https://localhost:" + run.port("server", 0) + "/";
        for (int i = 0; i < CALLS; i++) {
            call(run, client, url + i, main, end);
        }
        ExecutorService pool = Executors.newFixedThreadPool(2);
        for (int i = 0; i < CONNECTIONS; i++) {
            URL page = new URL(url + "connection/" + i);
            int hop = Hops.submit();
            pool.execute(() -> {
                Hops.run(hop);
                try {
                    show(line((HttpsURLConnection) page.openConnection()), main, end);
                } catch (IOException error) {
                    run.fail(error);
                }
            });
            Hops.submitted(hop);
        }
        run.ready();
        Looper.loop();
    }

    /** Without extensions of TLS: OkHttp would ask for protocols that this version of the provider does not know. */
    private static OkHttpClient client(File certificate) throws Exception {
        TrustManager[] trusted = Tls.trusting(Files.readAllBytes(certificate.toPath()));
        ConnectionSpec plain = new ConnectionSpec.Builder(ConnectionSpec.MODERN_TLS)
                .supportsTlsExtensions(false)
                .build();
        return new OkHttpClient.Builder()
                .connectionSpecs(Collections.singletonList(plain))
                .sslSocketFactory(Tls.client(trusted).getSocketFactory(), (X509TrustManager) trusted[0])
                .build();
    }

    private static void call(Case run, OkHttpClient client, String url, Handler main, CountDownLatch end) {
        int hop = Hops.submit();
        client.newCall(new Request.Builder().url(url).build()).enqueue(new Callback() {
            @Override
            public void onFailure(Call call, IOException error) {
                run.fail(error);
            }

            @Override
            public void onResponse(Call call, Response response) throws IOException {
                Hops.run(hop);
                show(response.body().string(), main, end);
            }
        });
        Hops.submitted(hop);
    }

    private static String line(HttpURLConnection connection) throws IOException {
        try (BufferedReader in = new BufferedReader(
                new InputStreamReader(connection.getInputStream(), StandardCharsets.UTF_8))) {
            return in.readLine();
        }
    }

    private static void show(String text, Handler main, CountDownLatch end) {
        int shown = Hops.submit();
        main.post(() -> {
            Hops.run(shown);
            if (text.startsWith("page")) {
                end.countDown();
            }
        });
        Hops.submitted(shown);
    }
}
