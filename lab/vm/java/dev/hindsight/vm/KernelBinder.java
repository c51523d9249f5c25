// SPDX-License-Identifier: Apache-2.0
package dev.hindsight.vm;

import com.android.internal.os.TraceEvents;

import java.io.IOException;

/**
 * Transactions between two processes through the kernel's binder, in the way of {@code BinderProxy.transact} and {@code
 * Binder.execTransact}, and with the same calls of {@link TraceEvents}: the server's side has no identity of a transaction,
 * because the kernel passes none on. The natives are in {@code testing/kernel-binder}.
 */
final class KernelBinder {
    private KernelBinder() {}

    /** The server's side of a transaction. */
    interface Service {
        /** Serves a transaction; {@code code} and the data are the client's. */
        int onTransact(int code, int data);
    }

    /**
     * Loads the natives.
     *
     * @param library the path of the library
     */
    static void load(String library) {
        System.load(library);
    }

    /** Sends a transaction to the context manager, and waits for the reply. */
    static int transact(int code, int data) throws IOException {
        final long traceId = TraceEvents.binder ? TraceEvents.binderSend(code, false) : 0;
        try {
            return nativeTransact(code, data);
        } finally {
            if (traceId != 0) TraceEvents.binderReply(traceId);
        }
    }

    /** Makes this process the context manager, to which transactions can be sent from now on. */
    static void register(Service service) throws IOException {
        nativeRegister(service);
    }

    /** Serves transactions on the calling thread; does not return. */
    static void serve() throws IOException {
        nativeServe();
    }

    /** Called by the native side, on the thread that the kernel has given a transaction to. */
    private static int execTransact(Service service, int code, int data, int pid, int uid) {
        try {
            if (TraceEvents.binder) {
                TraceEvents.binderServe(0, code, false, pid, uid);
            }
            return service.onTransact(code, data);
        } finally {
            if (TraceEvents.binder) TraceEvents.binderServed(0);
        }
    }

    private static native int nativeTransact(int code, int data) throws IOException;

    private static native void nativeRegister(Service service) throws IOException;

    private static native void nativeServe() throws IOException;
}
