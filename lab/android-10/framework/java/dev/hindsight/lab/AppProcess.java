// SPDX-License-Identifier: Apache-2.0
package dev.hindsight.lab;

import java.lang.reflect.InvocationTargetException;
import java.util.Arrays;

/**
 * Starts a program that uses the framework, as {@code app_process} does on a device: loads the natives of the
 * framework, then calls the program's {@code main}.
 */
public final class AppProcess {
    private AppProcess() {}

    /**
     * @param args the program's class, then its arguments
     */
    public static void main(String[] args) throws Throwable {
        if (args.length == 0) {
            System.err.println("usage: dev.hindsight.lab.AppProcess CLASS [ARGUMENT…]");
            System.exit(2);
        }
        // Loaded by a class of the boot class path: the natives belong to classes that are there, too.
        System.loadLibrary("android_runtime");
        Class<?> program = Class.forName(args[0], true, ClassLoader.getSystemClassLoader());
        Object programArgs = Arrays.copyOfRange(args, 1, args.length);
        try {
            program.getMethod("main", String[].class).invoke(null, programArgs);
        } catch (InvocationTargetException e) {
            throw e.getCause();
        }
    }
}
