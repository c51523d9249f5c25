// SPDX-License-Identifier: Apache-2.0
package com.android.internal.os;

import dalvik.annotation.optimization.CriticalNative;
import dalvik.annotation.optimization.FastNative;

/**
 * Records events of messages, frames, input and binder, for the framework's own classes. libcore's class is
 * {@code libcore.hindsight.TraceEvents}, programs use {@code dev.hindsight.Events}.
 *
 * <p>A caller reads the field of the category first, in its own code, so that a hook costs a load and a branch while
 * the category is off:
 *
 * <pre>if (TraceEvents.frames) TraceEvents.frameCallbacks(callbackType);</pre>
 *
 * <p>ART registers the natives when it starts, and then sets the fields. On an ART without Hindsight the fields stay
 * false, and nothing is called. The natives take no lock, run no managed code and allocate nothing; they record nothing
 * on a thread without a ring.
 */
public final class TraceEvents {
    // No field has an initial value: a class with an initializer would be tested for being initialized at every use.

    /** Whether waits are recorded. Written by ART, as are the fields below. */
    public static boolean waits;

    /** Whether events of tasks are recorded. */
    public static boolean tasks;

    /** Whether events of messages are recorded. */
    public static boolean messages;

    /** Whether events of frames are recorded. */
    public static boolean frames;

    /** Whether events of input are recorded. */
    public static boolean input;

    /** Whether events of binder are recorded. */
    public static boolean binder;

    /** An input event of a key. */
    public static final int KEY = 1;

    /** An input event of a pointer. */
    public static final int MOTION = 2;

    private TraceEvents() {}

    /**
     * A message was put into a queue.
     *
     * @param tid the kernel's id of the queue's thread
     * @param when when it is to be dispatched, in milliseconds of uptime
     * @return the message's identity, which is not 0, for the calls below; also where nothing is recorded
     */
    @CriticalNative
    public static native long messageEnqueued(int tid, long when);

    /** A message was taken out of its queue without being dispatched. */
    @CriticalNative
    public static native void messageRemoved(long id);

    /**
     * The calling thread begins to dispatch a message.
     *
     * @param id its identity; 0 if it is unknown
     * @param target its callback or, if it has none, its handler
     */
    @FastNative
    public static native void messageDispatched(long id, Object target, int what);

    /** The calling thread has dispatched the message. */
    @CriticalNative
    public static native void messageDone(long id);

    /**
     * The calling thread polls its queue, and waits if the timeout is not 0.
     *
     * @param timeoutMillis for how long; negative for without end
     * @return the time, for {@link #pollEnd}; 0 if there is no wait
     */
    @FastNative
    public static native long pollBegin(int timeoutMillis);

    /** The calling thread has polled its queue. */
    @FastNative
    public static native void pollEnd(long began, int timeoutMillis);

    /** The calling thread ends the poll of another one. */
    @FastNative
    public static native void pollWoken(int tid);

    /** A frame begins that was due at this time, in nanoseconds of {@link System#nanoTime}. */
    @CriticalNative
    public static native void frameBegin(long vsyncNanos);

    /** The callbacks of this type begin. */
    @CriticalNative
    public static native void frameCallbacks(int type);

    /** The frame's callbacks have run. */
    @CriticalNative
    public static native void frameEnd(long vsyncNanos);

    /** The window will be laid out and drawn. */
    @FastNative
    public static native void traversalScheduled(Object window);

    /** The window is laid out and drawn. */
    @FastNative
    public static native void traversalBegin(Object window);

    /** The window was laid out and drawn. */
    @FastNative
    public static native void traversalEnd(Object window);

    /**
     * An input event is delivered.
     *
     * @param type {@link #KEY} or {@link #MOTION}
     * @param eventTimeNanos when it happened, in nanoseconds of uptime
     */
    @FastNative
    public static native void inputBegin(int seq, int type, int action, long eventTimeNanos, Object receiver);

    /** An input event was finished. */
    @CriticalNative
    public static native void inputEnd(int seq, boolean handled);

    /**
     * A transaction is sent to another process.
     *
     * @return its identity, unique among all processes, for {@link #binderReply}; also where nothing is recorded
     */
    @CriticalNative
    public static native long binderSend(int code, boolean oneWay);

    /** The transaction has returned. */
    @CriticalNative
    public static native void binderReply(long id);

    /**
     * The calling thread begins to serve a transaction.
     *
     * @param id its identity; 0 if the kernel does not pass it on
     */
    @CriticalNative
    public static native void binderServe(long id, int code, boolean oneWay, int pid, int uid);

    /** The calling thread has served the transaction. */
    @CriticalNative
    public static native void binderServed(long id);

    /** An asynchronous task is handed to its executor. */
    @FastNative
    public static native void asyncTaskSubmitted(Object task);

    /** The calling thread begins to run an asynchronous task. */
    @FastNative
    public static native void asyncTaskBegin(Object task);

    /** The calling thread has run the asynchronous task. */
    @FastNative
    public static native void asyncTaskEnd(Object task);
}
