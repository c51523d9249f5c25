// SPDX-License-Identifier: Apache-2.0
//! Methods of the platform whose meaning is known.

use hindsight_decoder::Method;

/// Runs the messages of a thread, one after the other: each of its callees is a message, or the wait for
/// the next one.
pub(crate) fn is_message_loop(method: &Method) -> bool {
    (method.class.as_str(), method.name.as_str()) == ("android.os.Looper", "loop")
}

/// Waits for work. A thread in one of these holds nobody up.
pub(crate) fn waits_for_work(method: &Method) -> bool {
    matches!(
        (method.class.as_str(), method.name.as_str()),
        ("android.os.MessageQueue", "next" | "nativePollOnce")
            | ("java.lang.ref.ReferenceQueue", "remove")
            | ("java.util.concurrent.ThreadPoolExecutor", "getTask")
            | (
                "java.util.concurrent.LinkedBlockingQueue"
                    | "java.util.concurrent.ArrayBlockingQueue"
                    | "java.util.concurrent.SynchronousQueue"
                    | "java.util.concurrent.LinkedBlockingDeque"
                    | "java.util.concurrent.PriorityBlockingQueue"
                    | "java.util.concurrent.DelayQueue"
                    | "java.util.concurrent.ScheduledThreadPoolExecutor$DelayedWorkQueue",
                "take" | "poll" | "takeFirst" | "pollFirst"
            )
            | ("java.lang.Daemons$Daemon", "run")
            | ("java.lang.Object", "wait")
    )
}

/// Stops the thread for a while, on purpose.
pub(crate) fn sleeps_or_waits(method: &Method) -> bool {
    matches!(
        (method.class.as_str(), method.name.as_str()),
        ("java.lang.Thread", "sleep" | "join")
            | ("android.os.SystemClock", "sleep")
            | ("java.lang.Object", "wait")
            | (
                "java.util.concurrent.locks.LockSupport",
                "park" | "parkNanos" | "parkUntil"
            )
            | ("sun.misc.Unsafe" | "jdk.internal.misc.Unsafe", "park")
            | ("java.util.concurrent.TimeUnit", "sleep")
    )
}

/// Belongs to the platform and the language, rather than to the program.
pub(crate) fn is_platform(method: &Method) -> bool {
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
    PREFIXES.iter().any(|p| method.class.starts_with(p))
}

/// The class, without what the compiler added: `a.B$1` and `a.B$Inner` belong to `a.B`.
pub(crate) fn outer_class(class: &str) -> &str {
    class.split('$').next().unwrap_or(class)
}
