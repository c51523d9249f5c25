// SPDX-License-Identifier: Apache-2.0
package libcore.hindsight;

import dalvik.annotation.optimization.FastNative;
import java.util.List;

/**
 * Records events of tasks, queues and threads, for libcore's own classes. The framework's class is
 * {@code com.android.internal.os.TraceEvents}, programs use {@code dev.hindsight.Events}.
 *
 * <p>A caller reads the field of the category first, in its own code, so that a hook costs a load and a branch while
 * the category is off:
 *
 * <pre>if (TraceEvents.tasks) TraceEvents.taskBegin(TraceEvents.EXECUTOR, task);</pre>
 *
 * <p>ART registers the natives when it starts, and then sets the fields. On an ART without Hindsight the fields stay
 * false, and nothing is called. The natives take no lock, run no managed code and allocate nothing, but for
 * {@link #uncaught}; they record nothing on a thread without a ring.
 *
 * <p>A task is identified by its class and its identity hash. A task that is pending twice is recorded twice with one
 * identity.
 */
public final class TraceEvents {
    // No field has an initial value: a class with an initializer would be tested for being initialized at every use.

    /** Whether events of tasks are recorded. Written by ART. */
    public static boolean tasks;

    /** Whether events of the managed runtime are recorded. Written by ART. */
    public static boolean runtime;

    /** A task of an executor. */
    public static final int EXECUTOR = 0;

    /** A task of a fork-join pool. */
    public static final int FORK_JOIN = 2;

    /** A task of a {@link java.util.Timer}. */
    public static final int TIMER = 3;

    private TraceEvents() {}

    /**
     * A task is handed to another thread.
     *
     * @param delayMillis the time after which it is to run; 0 or less for at once
     */
    @FastNative
    public static native void taskSubmitted(int kind, Object task, long delayMillis);

    /** The calling thread begins to run a task. */
    @FastNative
    public static native void taskBegin(int kind, Object task);

    /** The calling thread has run the task. */
    @FastNative
    public static native void taskEnd(int kind, Object task);

    /** A task will not be run: it was refused, or taken out of its queue. */
    @FastNative
    public static native void taskCancelled(int kind, Object task);

    /** These tasks will not be run. */
    public static void tasksCancelled(int kind, List<? extends Object> tasks) {
        for (int i = 0; i < tasks.size(); i++) {
            taskCancelled(kind, tasks.get(i));
        }
    }

    /**
     * The calling thread puts an element into a queue. Called before another thread can take it.
     *
     * <p>An element is identified by its identity hash and the queue's.
     */
    @FastNative
    public static native void itemPut(Object queue, Object item);

    /**
     * The calling thread has taken an element out of a queue; null if there was none.
     *
     * @return the element
     */
    @FastNative
    public static native <E> E itemTaken(Object queue, E item);

    /** Nobody will take this element: it was removed from the queue, or the queue has refused it. */
    @FastNative
    public static native void itemRemoved(Object queue, Object item);

    /**
     * A thread is about to be created. ART itself records its begin and its end.
     *
     * @param id the thread's {@link Thread#getId}
     * @param work what the thread will run: its target, or itself
     */
    @FastNative
    public static native void threadSubmitted(long id, Object work);

    /** Nothing caught this exception: it ends the calling thread. May wait until a snapshot is written. */
    @FastNative
    public static native void uncaught(Throwable exception);
}
