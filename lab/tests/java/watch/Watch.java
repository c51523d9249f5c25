// SPDX-License-Identifier: Apache-2.0

import java.io.BufferedReader;
import java.io.InputStreamReader;

/**
 * Reads and writes fields, and waits for one in a loop. Takes commands from standard input, one a line, and answers each with one
 * line: {@code write NAME} writes {@link Flag#done} in a thread of this name, {@code values} writes and reads a field of each type,
 * {@code wait} starts a thread that waits until {@code finish}, {@code count N} runs {@link #count}, {@code load} loads a class.
 */
public final class Watch {
    static final Flag FLAG = new Flag();
    private static Thread waiter;

    private Watch() {}

    public static void main(String[] args) throws Exception {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in));
        System.out.println("ready");
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            String[] command = line.split(" ");
            switch (command[0]) {
                case "write":
                    Thread writer = new Thread(Watch::write, command[1]);
                    writer.start();
                    writer.join();
                    System.out.println(FLAG.isDone());
                    break;
                case "values":
                    System.out.println(values(new Flag()));
                    break;
                case "wait":
                    FLAG.done = false;
                    waiter = new Thread(() -> FLAG.await(), "waiter");
                    waiter.start();
                    System.out.println("waiting");
                    break;
                case "count":
                    System.out.println(count(Integer.parseInt(command[1])));
                    break;
                case "load":
                    System.out.println(Class.forName("Watch$Late").getDeclaredField("flag").getName());
                    break;
                default: // finish
                    FLAG.done = true;
                    waiter.join();
                    System.out.println(FLAG.turns > 0);
            }
        }
    }

    private static void write() {
        FLAG.set(true);
    }

    /** Of each n the evens and odds are counted apart. */
    static int count(int n) {
        int evens = 0;
        for (int i = 0; i < n; i++) {
            if (i % 2 == 0) {
                evens++;
            }
        }
        return evens;
    }

    private static String values(Flag flag) {
        flag.done = true;
        flag.b = -1;
        flag.c = 'x';
        flag.s = -2;
        flag.i = -3;
        flag.j = 1L << 40;
        flag.f = 1.5f;
        flag.d = -0.25;
        flag.o = null;
        flag.o = "text";
        Flag.number = 7;
        return "" + flag.done + flag.b + flag.c + flag.s + flag.i + flag.j + flag.f + flag.d + flag.o + Flag.number;
    }

    static final class Flag {
        static int number;
        volatile boolean done;
        byte b;
        char c;
        short s;
        int i;
        volatile long j;
        float f;
        double d;
        Object o;
        long turns;

        boolean isDone() {
            return done;
        }

        void set(boolean value) {
            done = value;
        }

        void await() {
            while (!done) {
                turns++;
                Thread.yield();
            }
        }
    }

    /** Is loaded when the program is asked to. */
    static final class Late {
        static int flag;
    }
}
