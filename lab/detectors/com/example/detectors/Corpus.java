// SPDX-License-Identifier: Apache-2.0
package com.example.detectors;

import android.os.Handler;
import android.os.Looper;
import android.system.Os;
import android.system.OsConstants;

import dalvik.system.VMRuntime;

import dev.hindsight.Watchdog;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;

/**
 * The program of {@code cargo xtask verify detectors}: does on its main thread what a detector looks for, as long as it is told.
 * Commands come by standard input, one a line. Each is answered by {@code ok MILLIS} when it is done: so long it took. Those that
 * end the process are answered before.
 *
 * <ul>
 *   <li>{@code foreground}, {@code background}: the user sees the app, or no more;
 *   <li>{@code message MILLIS}: a message that sleeps for so long;
 *   <li>{@code frames COUNT MILLIS}: so many frames in a row, each of which takes so long;
 *   <li>{@code touch BEFORE AFTER}: a touch that is delivered after so long, and then answered after so long;
 *   <li>{@code draw MILLIS}: a touch that is answered at once by a frame that takes so long;
 *   <li>{@code lock MILLIS}, {@code park MILLIS}: waits for a monitor, or a lock of java.util.concurrent, that another thread holds
 *       for so long;
 *   <li>{@code transaction MILLIS}: waits for a service that takes so long;
 *   <li>{@code serve}: serves one other process; the answer is {@code port PORT};
 *   <li>{@code call PORT MILLIS}: waits for the service at this port, which takes so long;
 *   <li>{@code collect COUNT}: collects garbage so often;
 *   <li>{@code method MILLIS}: calls {@link Store#load}, which takes so long;
 *   <li>{@code stacks MILLIS}: another thread sends SIGQUIT while a message runs that takes so long;
 *   <li>{@code steady KIND MILLIS}: from now on, message after message, {@code sleep}s, waits for a {@code lock} or {@code compute}s
 *       for so long; {@code off} ends that;
 *   <li>{@code caught}: throws an exception, and catches it;
 *   <li>{@code uncaught}, {@code segv}, {@code abort}, {@code exit}: the process ends in this way.
 * </ul>
 */
public final class Corpus {
    private static final int IMPERCEPTIBLE = 1;
    private static final int PERCEPTIBLE = 0;

    private final Handler handler = new Handler(Looper.getMainLooper());
    private final Screen screen = new Screen();
    private final Store store = new Store();
    private final Steady steady = new Steady(handler, store);

    private Corpus() {}

    /** Takes no arguments. */
    public static void main(String[] args) {
        Looper.prepareMainLooper();
        Thread.setDefaultUncaughtExceptionHandler((thread, exception) -> {
            System.err.println("corpus: " + thread.getName() + ": " + exception);
            // As the framework does: the process kills itself.
            kill(OsConstants.SIGKILL);
        });
        // As dev.hindsight.AppStart does on a device.
        Watchdog.watch(Looper.getMainLooper(), Watchdog.LIMIT_OF_SERVICE, null);
        Corpus corpus = new Corpus();
        Thread commands = new Thread(corpus::readCommands, "commands");
        commands.setDaemon(true);
        commands.start();
        say("ready");
        Looper.loop();
    }

    private static synchronized void say(String line) {
        System.out.println(line);
        System.out.flush();
    }

    private void readCommands() {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in));
        try {
            for (String line = in.readLine(); line != null; line = in.readLine()) {
                String[] command = line.split(" ");
                long begin = System.nanoTime();
                Runnable done = () -> say("ok " + (System.nanoTime() - begin) / 1_000_000);
                handler.post(() -> execute(command, done));
            }
        } catch (IOException e) {
            say("error " + e);
        }
        // Whoever has started the app is gone.
        Runtime.getRuntime().halt(0);
    }

    private static long number(String[] command, int place) {
        return Long.parseLong(command[place]);
    }

    /** The main thread is busy when the touch comes: in one message, as a looper takes input between messages. */
    private void touch(long before, long after, Runnable done) {
        screen.touch(() -> Store.sleep(after), () -> handler.post(done));
        Store.sleep(before);
    }

    private void execute(String[] command, Runnable done) {
        switch (command[0]) {
            case "foreground":
                VMRuntime.getRuntime().updateProcessState(PERCEPTIBLE);
                break;
            case "background":
                VMRuntime.getRuntime().updateProcessState(IMPERCEPTIBLE);
                break;
            case "message":
                Store.sleep(number(command, 1));
                // The message must have ended.
                handler.post(done);
                return;
            case "frames":
                screen.draw(number(command, 1), number(command, 2), done);
                return;
            case "touch":
                touch(number(command, 1), number(command, 2), done);
                return;
            case "draw":
                screen.touch(() -> screen.draw(1, number(command, 1), done), () -> {});
                return;
            case "lock":
                store.waitForMonitor(number(command, 1));
                break;
            case "park":
                store.waitForLock(number(command, 1));
                break;
            case "transaction":
                store.transact(number(command, 1));
                break;
            case "serve":
                say("port " + store.serve());
                return;
            case "call":
                store.call((int) number(command, 1), number(command, 2));
                break;
            case "collect":
                for (long i = number(command, 1); i > 0; i--) {
                    Runtime.getRuntime().gc();
                }
                break;
            case "method":
                store.load(number(command, 1));
                break;
            case "stacks":
                stacks(number(command, 1));
                break;
            case "steady":
                steady.set(command[1], number(command, 2));
                break;
            case "caught":
                try {
                    throw new IllegalStateException("as told");
                } catch (IllegalStateException e) {
                    break;
                }
            case "uncaught":
                done.run();
                throw new IllegalStateException("as told");
            case "segv":
                done.run();
                Store.writeNowhere();
                return;
            case "abort":
                done.run();
                kill(OsConstants.SIGABRT);
                return;
            case "exit":
                done.run();
                System.exit(0);
                return;
            default:
                say("error unknown command " + command[0]);
                return;
        }
        done.run();
    }

    /** The stacks are asked for at half of the time, so that the message was busy before and is busy after. */
    private static void stacks(long millis) {
        new Thread(() -> {
            Store.sleep(millis / 2);
            kill(OsConstants.SIGQUIT);
        }, "system").start();
        Store.sleep(millis);
    }

    private static void kill(int signal) {
        try {
            Os.kill(Os.getpid(), signal);
        } catch (android.system.ErrnoException e) {
            throw new AssertionError(e);
        }
    }
}
