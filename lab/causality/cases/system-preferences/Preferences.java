// SPDX-License-Identifier: Apache-2.0
package com.example.preferences;

import android.os.Handler;
import android.os.Looper;
import android.os.Message;

import dev.hindsight.cases.Case;

import java.io.IOException;
import java.net.DatagramPacket;
import java.net.DatagramSocket;
import java.net.InetAddress;
import java.util.concurrent.Semaphore;

/** The settings of displays: its main thread waits in a loop for two flags, which another thread sets. */
public final class Preferences {
    private static final int ARRANGED_BEFORE = 3;

    public static void main(String[] args) throws Exception {
        Case run = Case.begin(args);
        Looper.prepareMainLooper();
        DisplayNotifications notifications = new DisplayNotifications(run.port("window-server", 0));
        run.start("display-notify", notifications::receive);
        DisplayPanel panel = new DisplayPanel(Looper.getMainLooper(), notifications);
        run.start("user", () -> {
            for (int i = 0; i < ARRANGED_BEFORE; i++) {
                panel.arrange(WindowServer.WITH_MONITOR);
                Thread.sleep(20);
            }
            panel.arrange(WindowServer.MONITOR_DISABLED);
            run.done();
        });
        run.ready();
        Looper.loop();
    }
}

/** The state of a reconfiguration, shared by two threads without a lock. */
final class DisplayState {
    static volatile boolean willReconfigureSeen;
    static volatile boolean didReconfigureSeen;

    private DisplayState() {}
}

/** Receives the window server's datagrams. */
final class DisplayNotifications {
    private final DatagramSocket socket = new DatagramSocket(0, InetAddress.getLoopbackAddress());
    private final int server;

    DisplayNotifications(int server) throws IOException {
        this.server = server;
    }

    void receive() throws IOException {
        byte[] data = new byte[1];
        while (true) {
            DatagramPacket packet = new DatagramPacket(data, data.length);
            socket.receive(packet);
            displayNotify(data[0]);
        }
    }

    private static void displayNotify(byte what) {
        if (what == WindowServer.WILL_RECONFIGURE) {
            DisplayState.willReconfigureSeen = true;
        } else if (what == WindowServer.DID_RECONFIGURE) {
            DisplayState.didReconfigureSeen = true;
        }
    }

    void send(int what) {
        try {
            byte[] data = {(byte) what};
            socket.send(new DatagramPacket(data, 1, InetAddress.getLoopbackAddress(), server));
        } catch (IOException error) {
            throw new IllegalStateException(error);
        }
    }
}

/** The panel in which the user arranges displays. */
final class DisplayPanel extends Handler {
    static final int ARRANGE = 1;

    /** After this time the panel gives up. */
    private static final long GIVE_UP_NANOS = 1500 * 1000000L;
    private static final long PING_NANOS = 50 * 1000000L;

    private final DisplayNotifications notifications;
    private final Semaphore arranged = new Semaphore(0);

    DisplayPanel(Looper looper, DisplayNotifications notifications) {
        super(looper);
        this.notifications = notifications;
    }

    /** Waits until it has happened. */
    void arrange(int how) throws InterruptedException {
        obtainMessage(ARRANGE, how, 0).sendToTarget();
        arranged.acquire();
    }

    @Override
    public void handleMessage(Message message) {
        DisplayState.willReconfigureSeen = false;
        DisplayState.didReconfigureSeen = false;
        notifications.send(message.arg1);
        awaitReconfiguration();
        arranged.release();
    }

    private void awaitReconfiguration() {
        long start = System.nanoTime();
        long pings = 0;
        while (!(DisplayState.willReconfigureSeen && DisplayState.didReconfigureSeen)) {
            Thread.yield();
            long passed = System.nanoTime() - start;
            if (passed > GIVE_UP_NANOS) {
                return;
            }
            if (passed > pings * PING_NANOS) {
                notifications.send(WindowServer.PING);
                pings++;
            }
        }
    }
}
