// SPDX-License-Identifier: Apache-2.0

import android.os.Handler;
import android.os.HandlerThread;
import android.os.Looper;
import android.os.Message;
import android.os.SystemClock;

import dev.hindsight.Watchdog;

import java.io.File;
import java.io.IOException;
import java.nio.file.Files;
import java.util.List;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;

/** Sends slow messages to a looper, and prints the watchdog's reports. */
public final class WatchdogTest {
    private static final long LIMIT_MILLIS = 100;
    private static final int MSG_SLOW = 7;
    private static final int MANY = 5000;
    /** Far below MANY: for locks and garbage collections that the watchdog's thread waits for. */
    private static final int FEW = 200;
    private static final String REPORTER = "hindsight-watchdog";

    private final HandlerThread thread = new HandlerThread("watched");
    private final BlockingQueue<String> reports = new LinkedBlockingQueue<>();

    private WatchdogTest() {
        thread.start();
    }

    public static void main(String[] args) throws Exception {
        new WatchdogTest().reportsWhenTheMessageEnds();
        new WatchdogTest().reportsAMessageThatDoesNotEnd();
        new WatchdogTest().sleepsWhileTheLooperIsIdle();
        new WatchdogTest().watchesMessagesWithLoopsInside();
        new WatchdogTest().replacesAndIsReplaced();
        System.exit(0);
    }

    /** A message of half the limit, then one of twice the limit: the first report is about the second. */
    private void reportsWhenTheMessageEnds() throws Exception {
        Handler handler = new Handler(thread.getLooper()) {
            @Override
            public void handleMessage(Message msg) {
                SystemClock.sleep(msg.arg1);
            }
        };
        Watchdog watchdog = watch();
        handler.obtainMessage(1, (int) LIMIT_MILLIS / 2, 0).sendToTarget();
        handler.obtainMessage(MSG_SLOW, (int) LIMIT_MILLIS * 2, 0).sendToTarget();
        String reason = awaitReport();
        System.out.println("ended: " + reason.replaceAll("[0-9]{3,} ms, over", "N ms, over"));
        end(watchdog);
    }

    /** A message that waits for its own report ends only if it is reported while it runs. */
    private void reportsAMessageThatDoesNotEnd() throws Exception {
        Handler handler = new Handler(thread.getLooper());
        CountDownLatch reported = new CountDownLatch(1);
        Watchdog watchdog = watch();
        handler.post(() -> awaitQuietly(reported));
        String reason = awaitReport();
        System.out.println("stuck: " + reason.replaceAll("[0-9]{3,} ms, over", "N ms, over")
                .replaceAll("now in .*", "now in ..."));
        reported.countDown();
        end(watchdog);
    }

    /**
     * The watchdog's thread sleeps without a deadline, is woken by a message, does not wake up for each of many messages, and then
     * sleeps again.
     */
    private void sleepsWhileTheLooperIsIdle() throws Exception {
        Handler handler = new Handler(thread.getLooper());
        Watchdog watchdog = watch();
        Thread reporter = reporter();
        System.out.println("idle: " + awaitState(reporter, Thread.State.WAITING));
        CountDownLatch reported = new CountDownLatch(1);
        handler.post(() -> awaitQuietly(reported));
        System.out.println("woken: " + awaitReport().contains("has been running"));
        reported.countDown();
        System.out.println("idle again: " + awaitState(reporter, Thread.State.WAITING));

        long before = sleeps();
        long start = System.nanoTime();
        for (int i = 0; i < MANY; i++) {
            CountDownLatch done = new CountDownLatch(1);
            handler.post(done::countDown);
            done.await();
        }
        long periods = (System.nanoTime() - start) / (Watchdog.STUCK_FACTOR * LIMIT_MILLIS * 1_000_000);
        long sleeps = sleeps() - before;
        System.out.println("busy: " + (sleeps <= periods + FEW ? "few wake-ups" : sleeps + " in " + periods));
        System.out.println("idle at last: " + awaitState(reporter, Thread.State.WAITING));
        end(watchdog);
    }

    /**
     * A message runs a loop, which first waits for messages longer than any limit and is not reported, then ends by an exception.
     * After that the message waits for its own report.
     */
    private void watchesMessagesWithLoopsInside() throws Exception {
        Handler handler = new Handler(thread.getLooper());
        CountDownLatch looping = new CountDownLatch(1);
        CountDownLatch reported = new CountDownLatch(1);
        Watchdog watchdog = watch();
        handler.post(() -> {
            handler.post(looping::countDown);
            try {
                Looper.loop();
            } catch (IllegalStateException e) {
                awaitQuietly(reported);
            }
        });
        looping.await();
        System.out.println("idle inside: " + awaitState(reporter(), Thread.State.WAITING) + " " + reports.size());
        handler.post(() -> {
            throw new IllegalStateException("leave the inner loop");
        });
        System.out.println("outer: " + awaitReport().contains("has been running"));
        reported.countDown();
        end(watchdog);
    }

    /** Watchdogs and observers that replace each other: who is stopped removes nobody else. */
    private void replacesAndIsReplaced() throws Exception {
        Handler handler = new Handler(thread.getLooper());
        Watchdog first = watch();
        Thread reporterOfFirst = reporter();
        Watchdog second = watch();
        reporterOfFirst.join();
        System.out.println("replaced: ended");
        first.stop();
        CountDownLatch reported = new CountDownLatch(1);
        handler.post(() -> awaitQuietly(reported));
        System.out.println("second: " + awaitReport().contains("has been running"));
        reported.countDown();

        CountDownLatch observed = new CountDownLatch(1);
        Looper.setObserver(new Looper.Observer() {
            @Override
            public Object messageDispatchStarting() {
                observed.countDown();
                return null;
            }

            @Override
            public void messageDispatched(Object token, Message msg) {}

            @Override
            public void dispatchingThrewException(Object token, Message msg, Exception exception) {}
        });
        end(second);
        handler.post(() -> {});
        System.out.println("another observer: " + observed.await(20, TimeUnit.SECONDS));
        Looper.setObserver(null);
    }

    /** Ends the watch and its thread, so that the next test finds one such thread. */
    private static void end(Watchdog watchdog) throws InterruptedException {
        Thread reporter = reporter();
        watchdog.stop();
        reporter.join();
    }

    private static Thread reporter() {
        for (Thread thread : Thread.getAllStackTraces().keySet()) {
            if (thread.getName().equals(REPORTER)) {
                return thread;
            }
        }
        throw new AssertionError("no thread " + REPORTER);
    }

    /** How often the living watchdogs' threads have gone to sleep so far. */
    private static long sleeps() throws IOException {
        long sleeps = 0;
        for (File task : new File("/proc/self/task").listFiles()) {
            List<String> status = Files.readAllLines(task.toPath().resolve("status"));
            if (status.get(0).endsWith(REPORTER.substring(0, 15))) {
                for (String line : status) {
                    if (line.startsWith("voluntary_ctxt_switches:")) {
                        sleeps += Long.parseLong(line.split("\\s+")[1]);
                    }
                }
            }
        }
        return sleeps;
    }

    /** Waits until the thread is in this state, for longer than any machine needs. */
    private static boolean awaitState(Thread thread, Thread.State state) {
        long end = System.nanoTime() + TimeUnit.SECONDS.toNanos(20);
        while (thread.getState() != state && System.nanoTime() < end) {
            Thread.yield();
        }
        return thread.getState() == state;
    }

    private Watchdog watch() {
        return Watchdog.watch(thread.getLooper(), LIMIT_MILLIS, (reason, file) -> {
            reports.add(reason);
            if (file != null) {
                System.out.println("saved although tracing is off: " + file);
            }
        });
    }

    /** Far longer than any report takes, so that only a silent watchdog reaches it. */
    private String awaitReport() throws InterruptedException {
        return String.valueOf(reports.poll(20, TimeUnit.SECONDS));
    }

    private static void awaitQuietly(CountDownLatch latch) {
        try {
            latch.await();
        } catch (InterruptedException e) {
            throw new AssertionError(e);
        }
    }
}
