// SPDX-License-Identifier: Apache-2.0
package com.example.rxjava;

import android.os.Handler;
import android.os.Looper;

import dev.hindsight.cases.Case;
import dev.hindsight.cases.Hops;

import io.reactivex.rxjava3.core.Flowable;
import io.reactivex.rxjava3.core.Observable;
import io.reactivex.rxjava3.core.Scheduler;
import io.reactivex.rxjava3.core.Single;
import io.reactivex.rxjava3.schedulers.Schedulers;

import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;

/** Elements go through the schedulers of RxJava to the main thread. */
public final class RxProgram {
    private static final int ELEMENTS = 20;

    public static void main(String[] args) {
        Case run = Case.begin(args);
        Looper.prepareMainLooper();
        CountDownLatch end = Hops.endAfter(run, 3);
        Handler handler = new Handler(Looper.getMainLooper());
        Scheduler main = Schedulers.from(handler::post);
        int begin = Hops.submit();
        Observable.range(1, ELEMENTS)
                .subscribeOn(Schedulers.io())
                .map(i -> {
                    if (i == 1) {
                        Hops.run(begin);
                    }
                    return Hops.submit();
                })
                .observeOn(Schedulers.computation())
                .map(hop -> {
                    Hops.run(hop);
                    return Hops.submit();
                })
                .observeOn(main)
                .subscribe(Hops::run, run::fail, end::countDown);
        Hops.submitted(begin);
        int delayed = Hops.submit();
        Single.timer(30, TimeUnit.MILLISECONDS)
                .map(zero -> {
                    Hops.run(delayed);
                    return Hops.submit();
                })
                .observeOn(Schedulers.single())
                .subscribe(hop -> {
                    Hops.run(hop);
                    end.countDown();
                }, run::fail);
        Hops.submitted(delayed);
        Flowable.range(1, ELEMENTS)
                .parallel(2)
                .map(i -> Hops.submit())
                .runOn(Schedulers.computation())
                .map(hop -> {
                    Hops.run(hop);
                    return hop;
                })
                .sequential()
                .observeOn(main)
                .subscribe(hop -> { }, run::fail, end::countDown);
        run.ready();
        Looper.loop();
    }
}
