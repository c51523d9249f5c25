// SPDX-License-Identifier: Apache-2.0
//! Platform methods that the analysis knows: loopers, waiting, sleeping.

use hindsight_decoder::Method;

/// Runs the messages of a thread, one after the other: each of its callees is a message, or the wait for
/// the next one. Since Android 12, `loop` leaves that to `loopOnce`.
pub(crate) fn is_message_loop(method: &Method) -> bool {
    method.class == "android.os.Looper" && matches!(method.name.as_str(), "loop" | "loopOnce")
}

/// Belongs to the machinery that runs messages: a thread that calls it has a looper.
pub(crate) fn handles_messages(method: &Method) -> bool {
    is_message_loop(method) || dispatches_message(method) || waits_for_messages(method)
}

/// Runs one message.
pub(crate) fn dispatches_message(method: &Method) -> bool {
    method.class == "android.os.Handler" && method.name == "dispatchMessage"
}

/// Waits for work, or for another thread. A thread in such a method holds up no other thread, unless it owns a lock.
pub(crate) fn waits_for_work(method: &Method) -> bool {
    is_idle(method)
        || matches!(
            (method.class.as_str(), method.name.as_str()),
            ("java.lang.Object", "wait") | ("java.lang.Daemons$Daemon", "run")
        )
}

/// Runs the tasks of a thread pool, one after the other: each of its callees is a task, a part of one, or the wait for
/// the next one.
pub(crate) fn is_task_loop(method: &Method) -> bool {
    method.class == "java.util.concurrent.ThreadPoolExecutor" && method.name == "runWorker"
}

/// Waits for the next message.
pub(crate) fn waits_for_messages(method: &Method) -> bool {
    matches!(
        (method.class.as_str(), method.name.as_str()),
        ("android.os.MessageQueue", "next" | "nativePollOnce")
    )
}

/// Waits until a queue has an element.
fn waits_for_queue(method: &Method) -> bool {
    matches!(
        (method.class.as_str(), method.name.as_str()),
        (
            "java.util.concurrent.LinkedBlockingQueue"
                | "java.util.concurrent.ArrayBlockingQueue"
                | "java.util.concurrent.SynchronousQueue"
                | "java.util.concurrent.LinkedBlockingDeque"
                | "java.util.concurrent.PriorityBlockingQueue"
                | "java.util.concurrent.DelayQueue"
                | "java.util.concurrent.ScheduledThreadPoolExecutor$DelayedWorkQueue",
            "take" | "poll" | "takeFirst" | "pollFirst"
        )
    )
}

/// Waits for work on a thread that handles no message at that time. In a message, only
/// [`waits_for_messages`] waits for work: a message that waits for a queue keeps the later messages waiting.
pub(crate) fn is_idle(method: &Method) -> bool {
    waits_for_messages(method)
        || waits_for_queue(method)
        || matches!(
            (method.class.as_str(), method.name.as_str()),
            ("java.lang.ref.ReferenceQueue", "remove")
                | ("java.util.concurrent.ThreadPoolExecutor", "getTask")
                | ("dalvik.system.VMRuntime", "runHeapTasks")
                | ("dev.hindsight.Watchdog", "awaitStall")
        )
}

/// Belongs to a thread of the language itself, such as the one that runs finalizers: if it waits, then for work.
pub(crate) fn is_daemon(method: &Method) -> bool {
    method.class.starts_with("java.lang.Daemons$")
}

/// Sleeps for a time that its caller chose.
pub(crate) fn sleeps(method: &Method) -> bool {
    matches!(
        (method.class.as_str(), method.name.as_str()),
        ("java.lang.Thread", "sleep")
            | ("android.os.SystemClock", "sleep")
            | ("java.util.concurrent.TimeUnit", "sleep")
    )
}

/// Stops the thread until a time has passed, or another thread wakes it.
pub(crate) fn sleeps_or_waits(method: &Method) -> bool {
    sleeps(method)
        || waits_for_queue(method)
        || matches!(
            (method.class.as_str(), method.name.as_str()),
            ("java.lang.Thread", "join")
                | ("java.lang.Object", "wait")
                | ("java.lang.ref.ReferenceQueue", "remove")
                | (
                    "java.util.concurrent.locks.LockSupport",
                    "park" | "parkNanos" | "parkUntil"
                )
                | ("sun.misc.Unsafe" | "jdk.internal.misc.Unsafe", "park")
        )
}

/// Belongs to the platform and the language, rather than to the program.
pub(crate) fn is_platform(method: &Method) -> bool {
    is_platform_class(&method.class)
}

/// Whether a class belongs to the platform and the language, rather than to the program.
pub fn is_platform_class(class: &str) -> bool {
    const PREFIXES: [&str; 12] = [
        "android.",
        "androidx.",
        "com.android.",
        "dalvik.",
        "dev.hindsight.",
        "java.",
        "javax.",
        "jdk.",
        "kotlin.",
        "kotlinx.",
        "libcore.",
        "sun.",
    ];
    PREFIXES.iter().any(|p| class.starts_with(p))
}

/// The outermost class around a nested or anonymous one: `a.B` for `a.B$1` and `a.B$Inner`.
pub(crate) fn outer_class(class: &str) -> &str {
    class.split('$').next().unwrap_or(class)
}
