// SPDX-License-Identifier: Apache-2.0
package com.example.device;

import android.os.Handler;
import android.os.Looper;
import android.system.ErrnoException;
import android.system.Os;
import android.system.OsConstants;

import com.android.internal.os.TraceEvents;

import dalvik.system.VMRuntime;

import dev.hindsight.Hindsight;
import dev.hindsight.Watchdog;
import dev.hindsight.lab.BoundApp;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;

/**
 * An app of the lab's device. Its main thread runs a looper; commands come by standard input, one a line, and each is answered by
 * one line when the main thread has done it:
 *
 * <ul>
 *   <li>{@code foreground}, {@code background}: the framework tells the runtime that the user sees the app, or no more;
 *   <li>{@code bind VERSION}: the framework binds the process to an app of this version;
 *   <li>{@code bound}: the framework tells the runtime that it has done so;
 *   <li>{@code activity start}, {@code activity stop}: an activity begins to start, or to stop;
 *   <li>{@code work N}: N rounds of calls;
 *   <li>{@code fill N}: N calls of one short method;
 *   <li>{@code busy}: goes on with such rounds, message after message, until the next command;
 *   <li>{@code spin}: notes its own pauses, message after message, until {@code gaps}, which prints each as
 *       {@code data START LENGTH DELAY} (ns, {@code CLOCK_MONOTONIC}; so long of it the thread waited for a processor);
 *   <li>{@code spin BYTES}: as {@code spin}, and it uses so much new memory each time it has looked;
 *   <li>{@code tick}: does a little every 100 ms, until the next command;
 *   <li>{@code stall MILLIS}: a message that sleeps for so long;
 *   <li>{@code lock MILLIS}: a message that waits for a lock, which another thread holds for so long while it sleeps;
 *   <li>{@code stuck}: a message that never ends: it waits for a lock that another thread does not give back;
 *   <li>{@code crash}: an exception that nobody catches ends the process;
 *   <li>{@code exit}: the process ends by itself.
 * </ul>
 *
 * {@code stuck}, {@code crash} and {@code exit} are answered before they begin.
 */
public final class DeviceApp implements Watchdog.Listener {
    private static final int IMPERCEPTIBLE = 1;
    private static final int PERCEPTIBLE = 0;
    private static final long TICK_MILLIS = 100;

    private final Handler handler = new Handler(Looper.getMainLooper());
    private final Store store = new Store();
    private final Gaps gaps = new Gaps();
    private boolean busy;
    private int sum;

    private DeviceApp() {}

    /** Takes no arguments. */
    public static void main(String[] args) {
        Looper.prepareMainLooper();
        Thread.setDefaultUncaughtExceptionHandler((thread, exception) -> {
            System.err.println("device app: " + thread.getName() + ": " + exception);
            // As the framework does: the process kills itself, and nothing of it ends in order.
            try {
                Os.kill(Os.getpid(), OsConstants.SIGKILL);
            } catch (ErrnoException e) {
                Runtime.getRuntime().halt(10);
            }
        });
        DeviceApp app = new DeviceApp();
        Watchdog.watch(Looper.getMainLooper(), Watchdog.DEFAULT_LIMIT_MILLIS, app);
        Thread commands = new Thread(app::readCommands, "commands");
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
                handler.post(() -> execute(command));
            }
        } catch (IOException e) {
            say("error " + e);
        }
        // Whoever has started the app is gone.
        Runtime.getRuntime().halt(0);
    }

    private void execute(String[] command) {
        busy = false;
        switch (command[0]) {
            case "foreground":
                VMRuntime.getRuntime().updateProcessState(PERCEPTIBLE);
                break;
            case "background":
                VMRuntime.getRuntime().updateProcessState(IMPERCEPTIBLE);
                break;
            case "bind":
                BoundApp.bind(Long.parseLong(command[1]));
                break;
            case "bound":
                Hindsight.appIsKnown();
                // Waits until the recorder has done what it was told before.
                Hindsight.start();
                break;
            case "activity":
                // As the framework's class Activity does.
                if (TraceEvents.lifecycle) {
                    boolean starts = command[1].equals("start");
                    TraceEvents.lifecycleBegin(starts ? TraceEvents.START : TraceEvents.STOP, store);
                }
                break;
            case "work":
                Work.rounds(Integer.parseInt(command[1]));
                break;
            case "fill":
                sum += Fill.calls(Integer.parseInt(command[1]));
                break;
            case "busy":
                busy = true;
                handler.post(this::goOn);
                break;
            case "tick":
                busy = true;
                handler.postDelayed(this::tick, TICK_MILLIS);
                break;
            case "spin":
                busy = true;
                gaps.begin(command.length > 1 ? Integer.parseInt(command[1]) : 0);
                handler.post(this::spin);
                break;
            case "gaps":
                gaps.print();
                break;
            case "stall":
                store.flush(Long.parseLong(command[1]));
                break;
            case "lock":
                store.readWhileWritten(Long.parseLong(command[1]));
                break;
            case "stuck":
                say("ok");
                store.readWhileWritten(Long.MAX_VALUE);
                return;
            case "crash":
                say("ok");
                throw new IllegalStateException("as told");
            case "exit":
                say("ok");
                System.exit(0);
                return;
            default:
                say("error unknown command " + command[0]);
                return;
        }
        say("ok");
    }

    private void tick() {
        if (busy) {
            Work.rounds(1);
            handler.postDelayed(this::tick, TICK_MILLIS);
        }
    }

    private void goOn() {
        if (busy) {
            Work.rounds(20);
            handler.post(this::goOn);
        }
    }

    private void spin() {
        if (busy) {
            gaps.spin(1_000_000);
            handler.post(this::spin);
        }
    }

    @Override
    public void onStall(String reason, String file) {
        say("stall " + reason);
    }
}
