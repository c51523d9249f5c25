// SPDX-License-Identifier: Apache-2.0
package dev.hindsight;

import dalvik.annotation.optimization.CriticalNative;
import dalvik.annotation.optimization.FastNative;

/**
 * Records a program's own events, beside those that the runtime, libcore and the framework record by themselves. A
 * program with a task queue of its own makes it visible by {@link #post}, {@link #begin} and {@link #end}.
 *
 * <pre>
 * private static final int DECODE = Events.register("decode a tile");
 * …
 * Events.post(DECODE, tile.number);      // where the work is handed over
 * …
 * Events.begin(DECODE, tile.number);     // on the thread that does it
 * try {
 *     decode(tile);
 * } finally {
 *     Events.end(DECODE, tile.number);
 * }
 * </pre>
 *
 * <p>Names are registered once. An event has the name's number, so that recording allocates nothing and takes no lock;
 * it costs a load and a branch while the category {@code marks} is off. A name becomes part of the trace: it must not
 * have personal data in it.
 *
 * <p>On an ART without Hindsight, or while tracing is off, all methods do nothing. They may be called on any thread.
 */
public final class Events {
    // No initial value: a class with an initializer would be tested for being initialized at every use.

    /** Whether events of this class are recorded. Written by ART. */
    private static boolean marks;

    /** Whether stacks are recorded. Written by ART. */
    private static boolean stacks;

    /** Set by the first call that finds its native method unlinked, so that later calls do not try again. */
    private static volatile boolean unlinked;

    private Events() {}

    /**
     * Registers a name for the methods below. The same name has the same number. Not to be called where time matters:
     * it takes a lock.
     *
     * @param name of at most 200 bytes; the rest is cut off
     * @return its number; 0 if tracing is off, or 4,096 names are registered: its events have no name then
     */
    public static int register(String name) {
        if (name == null) {
            throw new NullPointerException("name");
        }
        if (unlinked) {
            return 0;
        }
        try {
            return nativeRegister(name);
        } catch (UnsatisfiedLinkError e) {
            unlinked = true;
            return 0;
        }
    }

    /** Records that this happened now. */
    public static void mark(int name) {
        if (marks) {
            nativeMark(name);
        }
    }

    /**
     * Records that work is handed to another thread, or put off.
     *
     * @param id connects it with the {@link #begin} of this name: unique while the work is pending, not 0
     */
    public static void post(int name, long id) {
        if (marks) {
            nativePost(name, id);
        }
    }

    /**
     * Records that the calling thread begins a piece of work.
     *
     * @param id the id that was given to {@link #post}; 0 if the work was not posted
     */
    public static void begin(int name, long id) {
        if (marks) {
            nativeBegin(name, id);
        }
    }

    /** Records that the calling thread ends the piece of work. */
    public static void end(int name, long id) {
        if (marks) {
            nativeEnd(name, id);
        }
    }

    /**
     * Takes the stack of the calling thread, if the category {@code stacks} is on.
     *
     * @param force take it also if the thread's last stack is younger than the configured interval
     */
    public static void sample(boolean force) {
        if (stacks) {
            nativeSample(force);
        }
    }

    private static native int nativeRegister(String name);

    @CriticalNative
    private static native void nativeMark(int name);

    @CriticalNative
    private static native void nativePost(int name, long id);

    @CriticalNative
    private static native void nativeBegin(int name, long id);

    @CriticalNative
    private static native void nativeEnd(int name, long id);

    @FastNative
    private static native void nativeSample(boolean force);
}
