// SPDX-License-Identifier: Apache-2.0

import android.system.Os;

import java.io.BufferedReader;
import java.io.FileInputStream;
import java.io.InputStreamReader;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.locks.LockSupport;

/**
 * Threads to be traced from outside. Takes commands from standard input, one a line, and answers each with one
 * line; ends, with all its threads, at the end of the input.
 *
 * <p>{@code thread KIND NAME [ARGUMENT]} starts a thread and answers with its id; the kinds are at
 * {@link Subject#run}. {@code poke NAME} lets a waiting thread continue, {@code join NAME} also waits for its end; both,
 * and {@code calls NAME}, answer with the number of its calls of {@link #step}.
 */
public final class Control {
    static volatile boolean ending;
    static volatile int sink;

    private Control() {}

    public static void main(String[] args) throws Exception {
        List<Subject> subjects = new ArrayList<>();
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in));
        System.out.println("ready " + Os.gettid());
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            System.out.println(answer(line.split(" "), subjects));
        }
        ending = true;
        for (Subject subject : subjects) {
            subject.poke();
            subject.interrupt();
            subject.join();
        }
    }

    private static String answer(String[] command, List<Subject> subjects) throws InterruptedException {
        if (command[0].equals("thread")) {
            Subject subject = new Subject(command[1], command[2], command.length > 3 ? command[3] : "");
            subjects.add(subject);
            subject.start();
            return "" + subject.awaitTid();
        }
        for (Subject subject : subjects) {
            if (subject.getName().equals(command[1])) {
                if (!command[0].equals("calls")) {
                    subject.poke();
                }
                if (command[0].equals("join")) {
                    subject.join();
                }
                return "" + subject.calls;
            }
        }
        return "unknown " + command[1];
    }

    /** The method whose calls are counted. */
    static int step(int n) {
        int x = n;
        for (int i = 0; i < 1000; i++) {
            x = x * 31 + i;
        }
        return x;
    }

    static final class Subject extends Thread {
        private final String kind;
        private final String argument;
        private int tid;
        private int pokes;
        private volatile byte[] last;
        volatile long calls;

        Subject(String kind, String name, String argument) {
            super(name);
            this.kind = kind;
            this.argument = argument;
        }

        synchronized int awaitTid() throws InterruptedException {
            while (tid == 0) {
                wait();
            }
            return tid;
        }

        synchronized void poke() {
            pokes++;
            notifyAll();
            LockSupport.unpark(this);
        }

        /** Waits until it is poked; false if the program ends. */
        private synchronized boolean awaitPoke() {
            while (pokes == 0 && !ending) {
                try {
                    wait();
                } catch (InterruptedException e) {
                    // Ending says whether it was meant.
                }
            }
            pokes = 0;
            return !ending;
        }

        private synchronized boolean poked() {
            return pokes != 0 || ending;
        }

        @Override
        public void run() {
            synchronized (this) {
                tid = Os.gettid();
                notifyAll();
            }
            try {
                switch (kind) {
                    case "busy": // Calls step() until it is poked.
                        busy();
                        break;
                    case "fill": // Each time it is poked calls step() ARGUMENT times.
                        while (awaitPoke()) {
                            call(Integer.parseInt(argument));
                        }
                        break;
                    case "collect": // Each time it is poked makes ARGUMENT arrays of 1000 bytes, and collects them.
                        while (awaitPoke()) {
                            for (int i = 0; i < Integer.parseInt(argument); i++) {
                                last = new byte[1000];
                            }
                            Runtime.getRuntime().gc();
                            call(1);
                        }
                        break;
                    case "asleep":
                        while (!ending) {
                            quietly(() -> Thread.sleep(1000000));
                        }
                        break;
                    case "parked": // Each time it is unparked calls step().
                        while (!ending) {
                            LockSupport.park(this);
                            call(1);
                        }
                        break;
                    case "waiting":
                        while (awaitPoke()) {
                            call(1);
                        }
                        break;
                    case "native": // Blocks in read(2) of the file ARGUMENT.
                        readAll(argument);
                        break;
                    case "gc":
                        while (!poked()) {
                            System.gc();
                            call(1);
                        }
                        break;
                    case "allocating":
                        while (!poked()) {
                            sink += new int[256].length;
                            call(1);
                        }
                        break;
                    case "churn": // Starts threads that live for one call each.
                        while (!poked()) {
                            Thread short_lived = new Thread(() -> step(7));
                            short_lived.start();
                            quietly(() -> short_lived.join());
                        }
                        break;
                    case "throwing": // Exceptions through five frames.
                        while (!poked()) {
                            try {
                                thrower(5);
                            } catch (IllegalStateException e) {
                                call(1);
                            }
                        }
                        break;
                    case "marks": // Sleeps ARGUMENT ms between four marks.
                        for (int i = 0; i < 4; i++) {
                            if (i != 0) {
                                Thread.sleep(Integer.parseInt(argument));
                            }
                            long before = System.nanoTime();
                            mark();
                            System.out.println("mark " + before + " " + System.nanoTime());
                        }
                        break;
                    default:
                        throw new IllegalArgumentException(kind);
                }
            } catch (Exception e) {
                e.printStackTrace();
            }
        }

        private void busy() {
            while (!poked()) {
                call(1000);
            }
        }

        private void call(int count) {
            int x = 0;
            for (int i = 0; i < count; i++) {
                x += step(i);
            }
            sink += x;
            calls += count;
        }

        private static void thrower(int depth) {
            if (depth == 0) {
                throw new IllegalStateException();
            }
            thrower(depth - 1);
        }

        private static void mark() {
            sink++;
        }

        private static void readAll(String path) throws Exception {
            try (FileInputStream in = new FileInputStream(path)) {
                while (in.read() >= 0) {
                    sink++;
                }
            }
        }

        interface Interruptible {
            void run() throws InterruptedException;
        }

        private static void quietly(Interruptible action) {
            try {
                action.run();
            } catch (InterruptedException e) {
                // Ending says whether it was meant.
            }
        }
    }
}
