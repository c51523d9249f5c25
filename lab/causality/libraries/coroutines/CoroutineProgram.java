// SPDX-License-Identifier: Apache-2.0
package com.example.coroutines;

import android.os.Handler;
import android.os.Looper;

import dev.hindsight.cases.Case;
import dev.hindsight.cases.Hops;

import java.util.concurrent.CountDownLatch;
import java.util.concurrent.Executors;

import kotlin.Unit;
import kotlin.coroutines.CoroutineContext;
import kotlinx.coroutines.BuildersKt;
import kotlinx.coroutines.CoroutineStart;
import kotlinx.coroutines.Dispatchers;
import kotlinx.coroutines.DelayKt;
import kotlinx.coroutines.ExecutorsKt;
import kotlinx.coroutines.GlobalScope;

/**
 * Coroutines that change their dispatcher: from the default one to a single thread, and on to the main thread. In Java: a suspending
 * function is called last in each block, so that the blocks need no state of their own.
 */
public final class CoroutineProgram {
    private static final int COROUTINES = 20;

    public static void main(String[] args) {
        Case run = Case.begin(args);
        Looper.prepareMainLooper();
        Handler handler = new Handler(Looper.getMainLooper());
        CountDownLatch end = Hops.endAfter(run, COROUTINES);
        CoroutineContext main = ExecutorsKt.from(handler::post);
        CoroutineContext single = ExecutorsKt.from(Executors.newSingleThreadExecutor(r -> new Thread(r, "single")));
        for (int i = 0; i < COROUTINES; i++) {
            boolean isDelayed = i % 4 == 0;
            int started = Hops.submit();
            BuildersKt.launch(GlobalScope.INSTANCE, Dispatchers.getDefault(), CoroutineStart.DEFAULT,
                    (scope, continuation) -> {
                        Hops.run(started);
                        if (isDelayed) {
                            return DelayKt.delay(5, new Then(continuation, () -> hop(single, main, end, continuation)));
                        }
                        return hop(single, main, end, continuation);
                    });
            Hops.submitted(started);
        }
        run.ready();
        Looper.loop();
    }

    private static Object hop(CoroutineContext single, CoroutineContext main, CountDownLatch end,
            kotlin.coroutines.Continuation<? super Unit> continuation) {
        int toSingle = Hops.submit();
        return BuildersKt.withContext(single, (scope, inSingle) -> {
            Hops.run(toSingle);
            int toMain = Hops.submit();
            return BuildersKt.withContext(main, (inner, inMain) -> {
                Hops.run(toMain);
                end.countDown();
                return Unit.INSTANCE;
            }, inSingle);
        }, continuation);
    }
}

/** Goes on with a function when a suspended one resumes, as the compiler's state machine does. */
final class Then implements kotlin.coroutines.Continuation<Unit> {
    private final kotlin.coroutines.Continuation<? super Unit> last;
    private final java.util.function.Supplier<Object> next;

    Then(kotlin.coroutines.Continuation<? super Unit> last, java.util.function.Supplier<Object> next) {
        this.last = last;
        this.next = next;
    }

    @Override
    public CoroutineContext getContext() {
        return last.getContext();
    }

    @Override
    public void resumeWith(Object result) {
        Object value = next.get();
        if (value != kotlin.coroutines.intrinsics.IntrinsicsKt.getCOROUTINE_SUSPENDED()) {
            last.resumeWith(value);
        }
    }
}
