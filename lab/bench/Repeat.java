// SPDX-License-Identifier: Apache-2.0

import dalvik.system.VMDebug;

import java.io.BufferedReader;
import java.io.FileOutputStream;
import java.io.InputStreamReader;
import java.io.OutputStream;
import java.io.PrintStream;
import java.lang.reflect.Method;

/**
 * Runs the main method of a class several times.
 *
 * <p>{@code TIMES CLASS}: this often. Only the first run prints.
 *
 * <p>{@code asked CLASS}: prints {@code ready}, then reads lines with a number, runs the method this often, and prints
 * {@code done}, until its input ends. The runs print nothing. The line {@code art} starts ART's own method tracing, with its
 * defaults, as a stream that is thrown away.
 */
public final class Repeat {
    private Repeat() {}

    public static void main(String[] arguments) throws Exception {
        Method main = Class.forName(arguments[1]).getMethod("main", String[].class);
        PrintStream output = System.out;
        PrintStream nowhere = new PrintStream(new OutputStream() {
            @Override
            public void write(int b) {}

            @Override
            public void write(byte[] bytes, int from, int count) {}
        });
        if (arguments[0].equals("asked")) {
            System.setOut(nowhere);
            output.println("ready");
            BufferedReader input = new BufferedReader(new InputStreamReader(System.in));
            for (String line = input.readLine(); line != null; line = input.readLine()) {
                if (line.equals("art")) {
                    startArtsTracing();
                } else {
                    run(main, Long.parseLong(line), nowhere);
                }
                output.println("done");
            }
        } else {
            run(main, Long.parseLong(arguments[0]), nowhere);
        }
    }

    private static void startArtsTracing() throws Exception {
        // By a descriptor: ART removes a file that it is given by its name.
        FileOutputStream file = new FileOutputStream("/dev/null");
        VMDebug.startMethodTracing("stream", file.getFD(), 0, 0, false, 0, true);
    }

    private static void run(Method main, long times, PrintStream after) throws Exception {
        for (long i = 0; i < times; i++) {
            main.invoke(null, (Object) new String[0]);
            System.out.flush();
            System.setOut(after);
        }
    }
}
