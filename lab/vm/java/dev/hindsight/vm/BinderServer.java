// SPDX-License-Identifier: Apache-2.0
package dev.hindsight.vm;

import dalvik.system.VMRuntime;

import java.io.File;
import java.io.IOException;

/** A service in the guest that another process calls through the kernel's binder. */
public final class BinderServer {
    private static final int PERCEPTIBLE = 0;
    /** A transaction that is answered at once, with a number that is greater by 1. */
    static final int NEXT = 1;
    /** A transaction that takes as many milliseconds as its data says. */
    static final int SEARCH = 2;

    private BinderServer() {}

    /**
     * @param arguments the path of the natives
     */
    public static void main(String[] arguments) throws IOException {
        VMRuntime.getRuntime().updateProcessState(PERCEPTIBLE);
        KernelBinder.load(arguments[0]);
        KernelBinder.register(BinderServer::answer);
        System.out.println("joined " + new File("/proc/self").getCanonicalFile().getName());
        KernelBinder.serve();
    }

    private static int answer(int code, int data) {
        switch (code) {
            case NEXT:
                return data + 1;
            case SEARCH:
                return search(data);
            default:
                throw new IllegalArgumentException("transaction " + code);
        }
    }

    /** Computes for a long time; the client waits meanwhile. */
    private static int search(int millis) {
        long end = System.nanoTime() + millis * 1_000_000L;
        int found = 0;
        for (int k = 0; System.nanoTime() < end; k++) {
            found += compare(k);
        }
        return found < 0 ? 0 : millis;
    }

    /** Its loop and calls make it too large to be inlined. */
    private static int compare(int number) {
        StringBuilder text = new StringBuilder();
        for (int k = 0; k < 100; k++) {
            text.append(Integer.toHexString(k * number));
        }
        return text.toString().hashCode() & 1;
    }
}
