// SPDX-License-Identifier: Apache-2.0
package com.example.guava;

import android.os.Handler;
import android.os.Looper;

import com.google.common.eventbus.AsyncEventBus;
import com.google.common.eventbus.Subscribe;
import com.google.common.util.concurrent.FutureCallback;
import com.google.common.util.concurrent.Futures;
import com.google.common.util.concurrent.ListenableFuture;
import com.google.common.util.concurrent.ListeningExecutorService;
import com.google.common.util.concurrent.MoreExecutors;
import com.google.common.util.concurrent.SettableFuture;

import dev.hindsight.cases.Case;
import dev.hindsight.cases.Hops;

import java.util.concurrent.CountDownLatch;
import java.util.concurrent.Executor;
import java.util.concurrent.Executors;

/** Futures and events that go from pool to pool, and to the main thread. */
public final class GuavaProgram {
    private static final int ROUNDS = 20;

    public static void main(String[] args) {
        Case run = Case.begin(args);
        Looper.prepareMainLooper();
        Handler handler = new Handler(Looper.getMainLooper());
        CountDownLatch end = Hops.endAfter(run, 2 * ROUNDS);
        Executor main = handler::post;
        ListeningExecutorService load = MoreExecutors.listeningDecorator(Executors.newFixedThreadPool(2));
        Executor parse = MoreExecutors.newSequentialExecutor(Executors.newFixedThreadPool(2));
        AsyncEventBus bus = new AsyncEventBus(parse);
        bus.register(new Listener(end));
        for (int i = 0; i < ROUNDS; i++) {
            int loaded = Hops.submit();
            ListenableFuture<Integer> page = load.submit(() -> {
                Hops.run(loaded);
                return Hops.submit();
            });
            Hops.submitted(loaded);
            ListenableFuture<Integer> parsed = Futures.transformAsync(page, hop -> {
                Hops.run(hop);
                SettableFuture<Integer> later = SettableFuture.create();
                int toLoad = Hops.submit();
                load.execute(() -> {
                    Hops.run(toLoad);
                    int toMain = Hops.submit();
                    later.set(toMain);
                    Hops.submitted(toMain);
                });
                Hops.submitted(toLoad);
                return later;
            }, parse);
            Futures.addCallback(parsed, new FutureCallback<Integer>() {
                @Override
                public void onSuccess(Integer hop) {
                    Hops.run(hop);
                    int event = Hops.submit();
                    bus.post(event);
                    Hops.submitted(event);
                    end.countDown();
                }

                @Override
                public void onFailure(Throwable error) {
                    run.fail(error);
                }
            }, main);
        }
        run.ready();
        Looper.loop();
    }

    /** Receives events. */
    public static final class Listener {
        private final CountDownLatch end;

        Listener(CountDownLatch end) {
            this.end = end;
        }

        @Subscribe
        public void on(Integer hop) {
            Hops.run(hop);
            end.countDown();
        }
    }
}
