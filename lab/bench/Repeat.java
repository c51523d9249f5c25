// SPDX-License-Identifier: Apache-2.0

import java.io.OutputStream;
import java.io.PrintStream;
import java.lang.reflect.Method;

/** Runs the main method of a class several times. Arguments: how often, the class. Only the first run prints. */
public final class Repeat {
    private Repeat() {}

    public static void main(String[] arguments) throws Exception {
        int times = Integer.parseInt(arguments[0]);
        Method main = Class.forName(arguments[1]).getMethod("main", String[].class);
        PrintStream nowhere = new PrintStream(new OutputStream() {
            @Override
            public void write(int b) {}

            @Override
            public void write(byte[] bytes, int from, int count) {}
        });
        for (int i = 0; i < times; i++) {
            main.invoke(null, (Object) new String[0]);
            System.out.flush();
            System.setOut(nowhere);
        }
    }
}
