// SPDX-License-Identifier: Apache-2.0

import android.os.Handler;
import android.os.HandlerThread;
import android.os.Message;

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.locks.LockSupport;

/**
 * 100,000 messages a second, from one thread to another: a hundred each millisecond. Each has a microsecond or two of work.
 *
 * <p>Prints {@code ready}, then reads lines with a number of milliseconds, sends their messages, waits until all are
 * handled, and prints {@code done}, until its input ends.
 */
public final class MessageStorm {
    private static final int PER_MILLISECOND = 100;
    private static final int WORK = 1;
    private static final int LAST = 2;

    private int sink;

    private MessageStorm() {}

    public static void main(String[] arguments) throws Exception {
        new MessageStorm().run();
        System.exit(0);
    }

    private void run() throws Exception {
        HandlerThread thread = new HandlerThread("storm");
        thread.start();
        final CountDownLatch[] done = new CountDownLatch[1];
        Handler handler = new Handler(thread.getLooper()) {
            @Override
            public void handleMessage(Message message) {
                if (message.what == LAST) {
                    done[0].countDown();
                    return;
                }
                for (int i = 0; i < 1000; i++) {
                    sink = sink * 31 + i;
                }
            }
        };
        System.out.println("ready");
        BufferedReader input = new BufferedReader(new InputStreamReader(System.in));
        for (String line = input.readLine(); line != null; line = input.readLine()) {
            done[0] = new CountDownLatch(1);
            send(handler, Long.parseLong(line));
            handler.sendEmptyMessage(LAST);
            done[0].await();
            System.out.println("done");
        }
    }

    private static void send(Handler handler, long milliseconds) {
        long next = System.nanoTime();
        for (long i = 0; i < milliseconds; i++) {
            for (int j = 0; j < PER_MILLISECOND; j++) {
                handler.sendEmptyMessage(WORK);
            }
            next += 1_000_000;
            for (long rest = next - System.nanoTime(); rest > 0; rest = next - System.nanoTime()) {
                LockSupport.parkNanos(rest);
            }
        }
    }
}
