// SPDX-License-Identifier: Apache-2.0
package dev.hindsight;

/**
 * What a program may ask of the tracing runtime inside ART. On the boot class path, so that apps, the
 * framework and the system server share one copy.
 *
 * <p>ART registers the natives at start-up. On an ART without Hindsight they stay unlinked, and all
 * methods answer as if tracing were off: callers need no check of their own.
 */
public final class Hindsight {
    /** Cleared by the first call that finds no native: then no later call throws inside again. */
    private static volatile boolean linked = true;

    private Hindsight() {}

    /**
     * Saves the traces of all traced threads, as they were just before this call, in one file. Blocks until
     * the file has its final name (tens of milliseconds to a second: the rings are written out), so call it
     * from a thread that nobody waits for. Traced threads go on meanwhile.
     *
     * @param reason one line for the reader of the trace: what happened, and the limit that it broke
     * @return the path of the file; null if tracing is off or the file could not be written (then the log
     *     says why)
     */
    public static String anomaly(String reason) {
        if (reason == null) {
            throw new NullPointerException("reason");
        }
        if (!linked) {
            return null;
        }
        try {
            return nativeAnomaly(reason);
        } catch (UnsatisfiedLinkError e) {
            linked = false;
            return null;
        }
    }

    /**
     * Traces the calling thread from now on, if need be with the ring of the thread that was wanted least
     * recently. Waits until it is traced.
     *
     * @return whether it is; if not, the log says why, unless tracing is off
     */
    public static boolean start() {
        return request(true);
    }

    /**
     * Traces the calling thread no more. What was recorded of it is thrown away: save it before, by
     * {@link #anomaly}, if it is wanted.
     *
     * @return whether it was traced until now
     */
    public static boolean stop() {
        return request(false);
    }

    private static boolean request(boolean trace) {
        if (!linked) {
            return false;
        }
        try {
            return nativeTrace(trace);
        } catch (UnsatisfiedLinkError e) {
            linked = false;
            return false;
        }
    }

    /** Whether the calling thread is being traced. */
    public static boolean isTracing() {
        if (!linked) {
            return false;
        }
        try {
            return nativeIsTracing();
        } catch (UnsatisfiedLinkError e) {
            linked = false;
            return false;
        }
    }

    private static native String nativeAnomaly(String reason);

    private static native boolean nativeIsTracing();

    private static native boolean nativeTrace(boolean trace);
}
