// SPDX-License-Identifier: Apache-2.0

import android.os.Handler;
import android.os.HandlerThread;
import android.os.Message;
import android.os.SystemClock;

import dev.hindsight.Watchdog;

import java.util.concurrent.BlockingQueue;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;

/** Sends slow messages to a looper, and prints the watchdog's reports. */
public final class WatchdogTest {
    private static final long LIMIT_MILLIS = 100;
    private static final int MSG_SLOW = 7;

    private final HandlerThread thread = new HandlerThread("watched");
    private final BlockingQueue<String> reports = new LinkedBlockingQueue<>();

    private WatchdogTest() {
        thread.start();
    }

    public static void main(String[] args) throws Exception {
        new WatchdogTest().reportsWhenTheMessageEnds();
        new WatchdogTest().reportsAMessageThatDoesNotEnd();
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
        watchdog.stop();
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
        watchdog.stop();
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
