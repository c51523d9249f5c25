// SPDX-License-Identifier: Apache-2.0
package dev.hindsight.cases;

import android.os.Handler;
import android.os.Looper;
import android.os.SystemClock;

import dev.hindsight.Hindsight;

import java.io.File;
import java.io.IOException;

/**
 * A process of a case, and the program that runs it ({@code testing/verify/src/cases}). The runner starts the processes of a
 * case one after the other, each when the one before has printed {@code ready}, with a folder and the ports of the earlier
 * processes as arguments. When one process prints {@code done}, the runner closes the standard input of all of them, and
 * each saves its snapshot and ends: also a process whose main thread hangs.
 */
public final class Case {
    private final String[] args;

    private Case(String[] args) {
        this.args = args;
    }

    /** Begins, with the arguments of {@code main}. */
    public static Case begin(String[] args) {
        Case run = new Case(args);
        Thread.setDefaultUncaughtExceptionHandler((thread, error) -> run.fail(error));
        Thread reporter = new Thread(run::report, "case-reporter");
        reporter.start();
        return run;
    }

    /** The folder that all processes share. */
    public File folder() {
        return new File(args[0]);
    }

    /** A port on which an earlier process listens: the first one has the index 0. */
    public int port(String process, int index) {
        String prefix = process + "=";
        for (String arg : args) {
            if (arg.startsWith(prefix)) {
                return Integer.parseInt(arg.substring(prefix.length()).split(",")[index]);
            }
        }
        throw new IllegalArgumentException("no ports of " + process);
    }

    /** The next process may be started; this one listens on these ports. */
    public void ready(int... ports) {
        StringBuilder line = new StringBuilder("ready");
        for (int port : ports) {
            line.append(line.length() == 5 ? ' ' : ',').append(port);
        }
        print(line.toString());
    }

    /** For a process whose main thread does nothing more: a process whose {@code main} has returned saves no snapshot. */
    public void stay() throws InterruptedException {
        Thread.currentThread().join();
    }

    /** What the case shows has happened: the case ends when the main thread has handled its messages so far. */
    public void done() {
        new Handler(Looper.getMainLooper()).post(() -> print("done"));
    }

    /** Ends the case with an error. */
    public void fail(Throwable error) {
        error.printStackTrace();
        print("failed " + error);
    }

    /** Starts a thread. An error in it ends the case. */
    public Thread start(String name, Body body) {
        Thread thread = new Thread(() -> {
            try {
                body.run();
            } catch (Throwable error) {
                fail(error);
            }
        }, name);
        thread.start();
        return thread;
    }

    /** What a thread does. */
    public interface Body {
        void run() throws Exception;
    }

    private static void print(String line) {
        System.out.println(line);
        System.out.flush();
    }

    /** Waits for the end of the standard input, then saves the snapshot and ends the process. */
    private void report() {
        try {
            while (System.in.read() >= 0) {
                continue;
            }
        } catch (IOException error) {
            error.printStackTrace();
        }
        String file = Hindsight.anomaly("the case is over");
        print("saved " + file);
        Runtime.getRuntime().halt(file == null ? 1 : 0);
    }

    /** CPU time that the calling thread may use, so that a busy thread is as busy on a slow machine. */
    public static final class Budget {
        private final long end;

        public Budget(long cpuMillis) {
            end = SystemClock.currentThreadTimeMillis() + cpuMillis;
        }

        public boolean isLeft() {
            return SystemClock.currentThreadTimeMillis() < end;
        }
    }
}
