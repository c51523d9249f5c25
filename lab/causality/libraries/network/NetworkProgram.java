// SPDX-License-Identifier: Apache-2.0
package com.example.network;

import android.os.Handler;
import android.os.Looper;

import dev.hindsight.cases.Case;
import dev.hindsight.cases.Hops;

import java.io.IOException;
import java.io.InputStream;
import java.net.URL;
import java.nio.charset.StandardCharsets;
import java.security.GeneralSecurityException;
import java.security.MessageDigest;
import java.util.Arrays;
import java.util.Collections;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;

import okhttp3.ConnectionSpec;
import okhttp3.OkHttpClient;
import okhttp3.OkUrlFactory;

/**
 * Loads pages by {@code URL.openStream}, and computes their checksums. The lab's core libraries have neither a handler of URLs nor
 * providers of cryptography, which are separate parts of Android: the handler is OkHttp's, as on a device, the provider Bouncy
 * Castle's.
 */
public final class NetworkProgram {
    private static final int PAGES = 12;

    public static void main(String[] args) throws Exception {
        Case run = Case.begin(args);
        Looper.prepareMainLooper();
        OkHttpClient client = new OkHttpClient.Builder()
                .connectionSpecs(Collections.singletonList(ConnectionSpec.CLEARTEXT))
                .build();
        URL.setURLStreamHandlerFactory(new OkUrlFactory(client));

        Handler main = new Handler(Looper.getMainLooper());
        CountDownLatch end = Hops.endAfter(run, PAGES);
        ExecutorService pool = Executors.newFixedThreadPool(3);
        for (int i = 0; i < PAGES; i++) {
            URL url = new URL("http://localhost:" + run.port("server", 0) + "/" + i);
            int hop = Hops.submit();
            pool.execute(() -> {
                Hops.run(hop);
                try {
                    byte[] sum = checksum(url);
                    int shown = Hops.submit();
                    main.post(() -> {
                        Hops.run(shown);
                        if (Arrays.equals(sum, expected(url))) {
                            end.countDown();
                        }
                    });
                    Hops.submitted(shown);
                } catch (IOException | GeneralSecurityException error) {
                    run.fail(error);
                }
            });
            Hops.submitted(hop);
        }
        run.ready();
        Looper.loop();
    }

    private static byte[] checksum(URL url) throws IOException, GeneralSecurityException {
        MessageDigest digest = MessageDigest.getInstance("SHA-256");
        byte[] buffer = new byte[512];
        try (InputStream in = url.openStream()) {
            for (int read = in.read(buffer); read >= 0; read = in.read(buffer)) {
                digest.update(buffer, 0, read);
            }
        }
        return digest.digest();
    }

    private static byte[] expected(URL url) {
        try {
            byte[] body = ("page " + url.getPath() + "\n").getBytes(StandardCharsets.UTF_8);
            return MessageDigest.getInstance("SHA-256").digest(body);
        } catch (GeneralSecurityException error) {
            throw new IllegalStateException(error);
        }
    }
}
