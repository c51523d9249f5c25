// SPDX-License-Identifier: Apache-2.0
package dev.hindsight.vm;

import android.os.Handler;
import android.os.Looper;

import dalvik.system.VMRuntime;

import java.io.File;
import java.io.IOException;

/** An app in the guest whose main thread calls a service through the kernel's binder, and waits long for its last answer. */
public final class BinderClient {
    private static final int PERCEPTIBLE = 0;
    /** Transactions that are answered at once. One less than TRANSACTIONS in xtask/src/vm/transactions.rs. */
    private static final int QUICK = 5;
    /** How long the last transaction takes, ms. The detector's limit is 4000 ms, by POLICY_FILE in lab/src/vm/service.rs. */
    private static final int SEARCH_MS = 5000;

    private BinderClient() {}

    /**
     * @param arguments the path of the natives, and the file that says when to begin
     */
    public static void main(String[] arguments) throws IOException {
        VMRuntime.getRuntime().updateProcessState(PERCEPTIBLE);
        KernelBinder.load(arguments[0]);
        Looper.prepareMainLooper();
        Handler handler = new Handler();
        File begin = new File(arguments[1]);
        new Thread(() -> await(begin, handler), "starter").start();
        System.out.println("joined " + new File("/proc/self").getCanonicalFile().getName());
        // Until it is killed.
        Looper.loop();
    }

    private static void await(File begin, Handler handler) {
        try {
            while (!begin.exists()) {
                Thread.sleep(20);
            }
        } catch (InterruptedException e) {
            throw new AssertionError(e);
        }
        for (int i = 0; i < QUICK; i++) {
            int number = i;
            handler.post(() -> ask(BinderServer.NEXT, number, number + 1));
        }
        handler.post(() -> ask(BinderServer.SEARCH, SEARCH_MS, SEARCH_MS));
        handler.post(() -> System.out.println("answered"));
    }

    private static void ask(int code, int data, int expected) {
        int answer;
        try {
            answer = KernelBinder.transact(code, data);
        } catch (IOException e) {
            throw new AssertionError(e);
        }
        if (answer != expected) {
            throw new AssertionError("transaction " + code + ": " + answer);
        }
    }
}
