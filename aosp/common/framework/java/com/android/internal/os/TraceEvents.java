// SPDX-License-Identifier: Apache-2.0
package com.android.internal.os;

import dalvik.annotation.optimization.CriticalNative;
import dalvik.annotation.optimization.FastNative;

/**
 * Records events of messages, frames, input, binder and activities, for the framework's own classes. libcore's class is
 * {@code libcore.hindsight.TraceEvents}, programs use {@code dev.hindsight.Events}.
 *
 * <p>A caller reads the field of the category first, in its own code, so that a hook costs a load and a branch while
 * the category is off:
 *
 * <pre>if (TraceEvents.frames) TraceEvents.frameCallbacks(callbackType);</pre>
 *
 * <p>ART registers the natives when it starts, and then sets the fields. On an ART without Hindsight the fields stay
 * false, and nothing is called. The natives run no managed code and allocate no object; they record nothing on a
 * thread without a ring. Where a stack is due, a message's begin walks it, and a transaction asks for a checkpoint, which
 * takes a lock of ART.
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

    /** Whether the lifecycle of activities is recorded. */
    public static boolean lifecycle;

    /** The steps of an activity's lifecycle. */
    public static final int CREATE = 0;
    public static final int START = 1;
    public static final int RESUME = 2;
    public static final int PAUSE = 3;
    public static final int STOP = 4;
    public static final int DESTROY = 5;

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

    /**
     * A callback is posted, to be run in a frame.
     *
     * @param when when it is due, in milliseconds of uptime
     * @return its identity, which is not 0, for the calls below; also where nothing is recorded
     */
    @FastNative
    public static native long callbackPosted(Object callback, long when);

    /**
     * The calling thread runs a callback of this type.
     *
     * @return 0, which is its identity from now on
     */
    @CriticalNative
    public static native long callbackRun(long id, int type);

    /**
     * A callback will not be run.
     *
     * @return 0, which is its identity from now on
     */
    @CriticalNative
    public static native long callbackRemoved(long id);

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

    /** A step of an activity's lifecycle begins, for instance {@link #CREATE}. */
    @FastNative
    public static native void lifecycleBegin(int step, Object activity);

    /** The step is done. */
    @FastNative
    public static native void lifecycleEnd(int step, Object activity);

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
