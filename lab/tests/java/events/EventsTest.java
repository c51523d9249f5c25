// SPDX-License-Identifier: Apache-2.0

import android.os.AsyncTask;
import android.os.Handler;
import android.os.HandlerThread;
import android.os.Looper;
import android.os.Message;
import android.view.Choreographer;
import android.view.InputChannel;
import android.view.InputEvent;
import android.view.InputEventReceiver;

import com.android.internal.os.TraceEvents;

import dev.hindsight.Events;
import dev.hindsight.Hindsight;
import dev.hindsight.lab.InputSource;

import java.util.Timer;
import java.util.TimerTask;
import java.util.concurrent.Callable;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.ForkJoinPool;
import java.util.concurrent.Future;
import java.util.concurrent.RecursiveTask;
import java.util.concurrent.ScheduledExecutorService;
import java.util.concurrent.ThreadPoolExecutor;
import java.util.concurrent.TimeUnit;

/** Does each kind of work whose events are recorded, a known number of times, then saves a snapshot. */
public final class EventsTest {
    static final int TASKS = 20;
    static final int MESSAGES = 10;

    /** Work of an executor: its class is in the events. */
    static final class Work implements Callable<Integer> {
        @Override
        public Integer call() {
            return 1;
        }
    }

    /** Work of a thread. */
    static final class ThreadWork implements Runnable {
        @Override
        public void run() {}
    }

    /** Work that waits until it may end. */
    static class Held implements Runnable {
        final CountDownLatch begun = new CountDownLatch(1);
        final CountDownLatch end = new CountDownLatch(1);

        @Override
        public void run() {
            begun.countDown();
            try {
                end.await();
            } catch (InterruptedException e) {
                throw new AssertionError(e);
            }
        }
    }

    /** Work that is cancelled while it runs. */
    static final class CancelledLate extends Held {}

    /** Work that is cancelled before it runs. */
    static final class CancelledEarly implements Runnable {
        @Override
        public void run() {
            throw new AssertionError();
        }
    }

    /** Work that is taken out of its queue. */
    static final class Removed implements Runnable {
        @Override
        public void run() {
            throw new AssertionError();
        }
    }

    static final class Delayed implements Runnable {
        @Override
        public void run() {}
    }

    static final class Sum extends RecursiveTask<Integer> {
        final int leaves;

        Sum(int leaves) {
            this.leaves = leaves;
        }

        @Override
        protected Integer compute() {
            if (leaves == 1) {
                return 1;
            }
            Sum left = new Sum(leaves / 2);
            Sum right = new Sum(leaves - leaves / 2);
            left.fork();
            int sum = right.compute();
            return sum + left.join();
        }
    }

    static final class Alarm extends TimerTask {
        final CountDownLatch fired = new CountDownLatch(1);

        @Override
        public void run() {
            fired.countDown();
        }
    }

    static final class Thrower implements Runnable {
        @Override
        public void run() {
            throw new IllegalStateException("nothing catches it");
        }
    }

    static final class Receiver extends Handler {
        final CountDownLatch received;

        Receiver(Looper looper, int count) {
            super(looper);
            received = new CountDownLatch(count);
        }

        @Override
        public void handleMessage(Message msg) {
            received.countDown();
        }
    }

    /** Handles each second event. */
    static final class Window extends InputEventReceiver {
        private int events;

        Window(InputChannel channel, Looper looper) {
            super(channel, looper);
        }

        @Override
        public void onInputEvent(InputEvent event) {
            finishInputEvent(event, ++events % 2 == 0);
        }
    }

    static final class Background extends AsyncTask<Void, Void, Void> {
        @Override
        protected Void doInBackground(Void... nothing) {
            return null;
        }
    }

    public static void main(String[] args) throws Exception {
        Looper.prepareMainLooper();
        executors();
        forkJoin();
        timers();
        threads();
        messages();
        input();
        frames();
        lifecycle();
        asyncTasks();
        marks();
        System.out.println(Hindsight.anomaly("all is done"));
        System.exit(0);
    }

    private static void executors() throws Exception {
        ExecutorService pool = Executors.newFixedThreadPool(2);
        for (int i = 0; i < TASKS; i++) {
            pool.submit(new Work()).get();
        }
        pool.shutdown();
        pool.awaitTermination(1, TimeUnit.HOURS);

        ThreadPoolExecutor one = (ThreadPoolExecutor) Executors.newFixedThreadPool(1);
        Held held = new Held();
        Removed removed = new Removed();
        one.execute(held);
        held.begun.await();
        one.execute(removed);
        check(one.remove(removed));
        held.end.countDown();
        CancelledLate late = new CancelledLate();
        Future<?> running = one.submit(late);
        late.begun.await();
        Future<?> queued = one.submit(new CancelledEarly());
        check(queued.cancel(false) && running.cancel(false));
        late.end.countDown();
        one.shutdown();
        one.awaitTermination(1, TimeUnit.HOURS);

        ScheduledExecutorService scheduled = Executors.newScheduledThreadPool(1);
        scheduled.schedule(new Delayed(), 20, TimeUnit.MILLISECONDS).get();
        scheduled.shutdown();
        scheduled.awaitTermination(1, TimeUnit.HOURS);
    }

    private static void forkJoin() throws Exception {
        ForkJoinPool pool = new ForkJoinPool(2);
        check(pool.submit(new Sum(TASKS)).get() == TASKS);
        CompletableFuture.supplyAsync(() -> 1, pool).get();
        pool.shutdown();
        pool.awaitTermination(1, TimeUnit.HOURS);
    }

    private static void timers() throws Exception {
        Timer timer = new Timer("timer");
        Alarm alarm = new Alarm();
        Alarm cancelled = new Alarm();
        timer.schedule(cancelled, 1000 * 1000);
        check(cancelled.cancel());
        timer.schedule(alarm, 10);
        alarm.fired.await();
        timer.cancel();
    }

    private static void threads() throws Exception {
        for (int i = 0; i < TASKS; i++) {
            Thread thread = new Thread(new ThreadWork());
            thread.start();
            thread.join();
        }
        Thread thrower = new Thread(new Thrower());
        thrower.setUncaughtExceptionHandler((thread, exception) -> {});
        thrower.start();
        thrower.join();
    }

    private static void messages() throws Exception {
        HandlerThread thread = new HandlerThread("looper");
        thread.start();
        Receiver receiver = new Receiver(thread.getLooper(), MESSAGES + 1);
        for (int i = 0; i < MESSAGES; i++) {
            receiver.sendEmptyMessage(100 + i);
        }
        receiver.sendEmptyMessageDelayed(200, 50);
        receiver.sendEmptyMessageDelayed(300, 1000 * 1000);
        receiver.removeMessages(300);
        receiver.received.await();
        thread.quitSafely();
        thread.join();
    }

    private static void input() throws Exception {
        HandlerThread thread = new HandlerThread("input");
        thread.start();
        InputSource source = new InputSource();
        Window window = new Window(source.channel(), thread.getLooper());
        for (int i = 0; i < MESSAGES; i++) {
            int type = i < MESSAGES / 2 ? InputSource.KEY : InputSource.MOTION;
            int sequence = source.send(type, i % 3);
            check(source.awaitFinished() == (i % 2 == 0 ? -sequence : sequence));
        }
        Handler handler = new Handler(thread.getLooper());
        handler.post(window::dispose);
        thread.quitSafely();
        thread.join();
    }

    private static void frames() {
        Choreographer choreographer = Choreographer.getInstance();
        choreographer.postFrameCallback(frameTimeNanos -> quit());
        choreographer.postCallback(Choreographer.CALLBACK_TRAVERSAL, new Drawing(), null);
        Never never = new Never();
        choreographer.postFrameCallbackDelayed(never, 1000 * 1000);
        choreographer.removeFrameCallback(never);
        try {
            Looper.loop();
        } catch (Left e) {
            // As intended.
        }
    }

    /** The main looper cannot quit: its loop is left by an exception. */
    private static void quit() {
        new Handler(Looper.getMainLooper()).post(() -> {
            throw new Left();
        });
    }

    /** Leaves the main looper's loop. */
    static final class Left extends RuntimeException {}

    static final class Drawing implements Runnable {
        @Override
        public void run() {}
    }

    /** Is removed. */
    static final class Never implements Choreographer.FrameCallback {
        @Override
        public void doFrame(long frameTimeNanos) {}
    }

    static final class Page {}

    /** What Activity's hooks call: the lab has no activities. */
    private static void lifecycle() {
        Page page = new Page();
        if (TraceEvents.lifecycle) {
            for (int step = TraceEvents.CREATE; step <= TraceEvents.DESTROY; step++) {
                // Resuming may include a start.
                TraceEvents.lifecycleBegin(step, page);
                if (step == TraceEvents.RESUME) {
                    TraceEvents.lifecycleBegin(TraceEvents.START, page);
                    TraceEvents.lifecycleEnd(TraceEvents.START, page);
                }
                TraceEvents.lifecycleEnd(step, page);
            }
        }
    }

    private static void asyncTasks() throws Exception {
        Background first = new Background();
        Background second = new Background();
        first.execute();
        second.execute();
        first.get();
        second.get();
    }

    private static void marks() {
        int name = Events.register("a mark");
        check(name != 0 && Events.register("a mark") == name);
        Events.mark(name);
        Events.post(name, 7);
        Events.begin(name, 7);
        Events.end(name, 7);
        Events.sample(true);
    }

    private static void check(boolean holds) {
        if (!holds) {
            throw new AssertionError();
        }
    }
}
