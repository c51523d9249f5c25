// SPDX-License-Identifier: Apache-2.0
package dev.hindsight;

/**
 * The interface of the tracing runtime inside ART. It is on the boot class path, so that apps, the framework and the
 * system server share one copy.
 *
 * <p>ART registers the native methods at start-up. On an ART without Hindsight they stay unlinked, and all methods
 * answer as if tracing were off: callers need no check of their own.
 */
public final class Hindsight {
    /** Cleared by the first call that finds its native method unlinked, so that later calls do not try again. */
    private static volatile boolean linked = true;

    /** {@code ComponentCallbacks2.TRIM_MEMORY_RUNNING_CRITICAL}. */
    private static final int RUNNING_CRITICAL = 15;

    /** {@code ComponentCallbacks2.TRIM_MEMORY_COMPLETE}. */
    private static final int COMPLETE = 80;

    // No initial values. Written by ART when the system service says so; 0: no service has said anything; negative: off.

    /** A message of the main looper that takes longer is reported, in milliseconds. */
    static volatile long slowMillis;

    /** A message of the main looper that runs for longer is reported before it ends, in milliseconds. */
    static volatile long stuckMillis;

    /** For so long after a report no message is reported, in milliseconds. */
    static volatile long quietMillis;

    private Hindsight() {}

    /**
     * Saves a snapshot of all traced threads, as they were just before this call, in one file. Blocks until the file
     * has its final name, which takes from tens of milliseconds to a second; call it from a thread that no other thread
     * waits for. Traced threads go on meanwhile. With a connection to the system service, the service is told instead, and
     * decides whether to save a report.
     *
     * @param reason one line for the reader of the trace: the event, and the limit that it exceeded
     * @return the path of the file; null if tracing is off, if the service was told, if the file could not be written, or
     *     if it was not complete after 30 seconds and may still appear (the log says which)
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
     * Traces the calling thread from now on. If all rings are in use, takes the ring of the thread whose tracing was
     * requested least recently. Waits until the thread is traced.
     *
     * @return whether the thread is traced; if not, the log says why, unless tracing is off
     */
    public static boolean start() {
        return request(true);
    }

    /**
     * Stops tracing the calling thread and discards its recording. To keep the recording, call {@link #anomaly} first.
     *
     * @return whether the thread was traced until now
     */
    public static boolean stop() {
        return request(false);
    }

    /**
     * Gives the memory of the rings of calls back if the system is about to end processes to get some. Their threads go on in
     * empty rings. Does not wait for that.
     *
     * @param level as for {@code ComponentCallbacks2.onTrimMemory}. Only {@code TRIM_MEMORY_RUNNING_CRITICAL} (15) and
     *     {@code TRIM_MEMORY_COMPLETE} (80) and above count: what an app did before it went to the background is kept.
     */
    public static void trimMemory(int level) {
        if (!linked || (level != RUNNING_CRITICAL && level < COMPLETE)) {
            return;
        }
        try {
            nativeTrimMemory();
        } catch (UnsatisfiedLinkError e) {
            linked = false;
        }
    }

    /**
     * The framework has bound the process to its app: from now on its name and the version of the app can be found. The recorder
     * looks for them at other times, too; without this call a process that is killed meanwhile may leave neither. Does not wait
     * for that.
     */
    public static void appIsKnown() {
        if (!linked) {
            return;
        }
        try {
            nativeAppIsKnown();
        } catch (UnsatisfiedLinkError e) {
            linked = false;
        }
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

    /** Whether the calling thread records its calls, or events. */
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

    private static native void nativeAppIsKnown();

    private static native boolean nativeIsTracing();

    private static native boolean nativeTrace(boolean trace);

    private static native void nativeTrimMemory();
}
