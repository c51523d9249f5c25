// SPDX-License-Identifier: Apache-2.0
//! The parts of Perfetto's schema that are read: the package `perfetto.protos`, as of Perfetto v51. Protobuf schemas never
//! change the number of a field. Names of threads are bytes, because the kernel does not keep them to UTF-8.

use bytes::Bytes;
use prost::Message;

/// protos/perfetto/trace/trace_packet.proto
#[derive(Clone, PartialEq, Message)]
pub(crate) struct TracePacket {
    #[prost(bytes = "bytes", optional, tag = "1")]
    pub(crate) ftrace_events: Option<Bytes>,
    #[prost(message, optional, tag = "2")]
    pub(crate) process_tree: Option<ProcessTree>,
    #[prost(message, optional, tag = "6")]
    pub(crate) clock_snapshot: Option<ClockSnapshot>,
    #[prost(uint64, optional, tag = "8")]
    pub(crate) timestamp: Option<u64>,
    #[prost(message, optional, tag = "34")]
    pub(crate) ftrace_stats: Option<FtraceStats>,
    #[prost(bytes = "bytes", optional, tag = "50")]
    pub(crate) compressed_packets: Option<Bytes>,
}

/// protos/perfetto/trace/clock_snapshot.proto
#[derive(Clone, PartialEq, Message)]
pub(crate) struct ClockSnapshot {
    #[prost(message, repeated, tag = "1")]
    pub(crate) clocks: Vec<ClockReading>,
}

/// protos/perfetto/trace/clock_snapshot.proto: ClockSnapshot.Clock
#[derive(Clone, Copy, PartialEq, Eq, Message)]
pub(crate) struct ClockReading {
    #[prost(uint32, optional, tag = "1")]
    pub(crate) clock_id: Option<u32>,
    #[prost(uint64, optional, tag = "2")]
    pub(crate) timestamp: Option<u64>,
}

/// protos/perfetto/trace/ps/process_tree.proto
#[derive(Clone, PartialEq, Message)]
pub(crate) struct ProcessTree {
    #[prost(message, repeated, tag = "1")]
    pub(crate) processes: Vec<Process>,
    #[prost(message, repeated, tag = "2")]
    pub(crate) threads: Vec<ProcessThread>,
}

/// protos/perfetto/trace/ps/process_tree.proto: ProcessTree.Process
#[derive(Clone, PartialEq, Message)]
pub(crate) struct Process {
    #[prost(int32, optional, tag = "1")]
    pub(crate) pid: Option<i32>,
    #[prost(bytes = "bytes", repeated, tag = "3")]
    pub(crate) cmdline: Vec<Bytes>,
}

/// protos/perfetto/trace/ps/process_tree.proto: ProcessTree.Thread
#[derive(Clone, PartialEq, Message)]
pub(crate) struct ProcessThread {
    #[prost(int32, optional, tag = "1")]
    pub(crate) tid: Option<i32>,
    #[prost(bytes = "bytes", optional, tag = "2")]
    pub(crate) name: Option<Bytes>,
    #[prost(int32, optional, tag = "3")]
    pub(crate) tgid: Option<i32>,
}

/// protos/perfetto/trace/ftrace/ftrace_stats.proto
#[derive(Clone, PartialEq, Message)]
pub(crate) struct FtraceStats {
    /// START_OF_TRACE 1, END_OF_TRACE 2
    #[prost(int32, optional, tag = "1")]
    pub(crate) phase: Option<i32>,
    #[prost(message, repeated, tag = "2")]
    pub(crate) cpu_stats: Vec<FtraceCpuStats>,
}

/// protos/perfetto/trace/ftrace/ftrace_stats.proto
#[derive(Clone, Copy, PartialEq, Eq, Message)]
pub(crate) struct FtraceCpuStats {
    #[prost(uint64, optional, tag = "1")]
    pub(crate) cpu: Option<u64>,
    #[prost(uint64, optional, tag = "3")]
    pub(crate) overrun: Option<u64>,
    #[prost(uint64, optional, tag = "8")]
    pub(crate) dropped_events: Option<u64>,
}

/// protos/perfetto/trace/ftrace/ftrace_event_bundle.proto
#[derive(Clone, PartialEq, Message)]
pub(crate) struct Bundle {
    #[prost(uint32, optional, tag = "1")]
    pub(crate) cpu: Option<u32>,
    #[prost(bytes = "bytes", repeated, tag = "2")]
    pub(crate) event: Vec<Bytes>,
    #[prost(bool, optional, tag = "3")]
    pub(crate) lost_events: Option<bool>,
    #[prost(message, optional, tag = "4")]
    pub(crate) compact_sched: Option<CompactSched>,
    /// FtraceClock: 0 boottime, 1 unknown, 2 global, 3 local, 4 monotonic raw
    #[prost(int32, optional, tag = "5")]
    pub(crate) ftrace_clock: Option<i32>,
    #[prost(int64, optional, tag = "6")]
    pub(crate) ftrace_timestamp: Option<i64>,
    #[prost(int64, optional, tag = "7")]
    pub(crate) boot_timestamp: Option<i64>,
    #[prost(uint64, optional, tag = "10")]
    pub(crate) previous_bundle_end_timestamp: Option<u64>,
}

/// protos/perfetto/trace/ftrace/ftrace_event_bundle.proto: FtraceEventBundle.CompactSched
#[derive(Clone, PartialEq, Message)]
pub(crate) struct CompactSched {
    #[prost(uint64, repeated, tag = "1")]
    pub(crate) switch_timestamp: Vec<u64>,
    #[prost(int64, repeated, tag = "2")]
    pub(crate) switch_prev_state: Vec<i64>,
    #[prost(int32, repeated, tag = "3")]
    pub(crate) switch_next_pid: Vec<i32>,
    #[prost(bytes = "bytes", repeated, tag = "5")]
    pub(crate) intern_table: Vec<Bytes>,
    #[prost(uint32, repeated, tag = "6")]
    pub(crate) switch_next_comm_index: Vec<u32>,
    #[prost(uint64, repeated, tag = "7")]
    pub(crate) waking_timestamp: Vec<u64>,
    #[prost(int32, repeated, tag = "8")]
    pub(crate) waking_pid: Vec<i32>,
    #[prost(uint32, repeated, tag = "11")]
    pub(crate) waking_comm_index: Vec<u32>,
    #[prost(uint32, repeated, tag = "12")]
    pub(crate) waking_common_flags: Vec<u32>,
}

/// protos/perfetto/trace/ftrace/ftrace_event.proto
#[derive(Clone, PartialEq, Message)]
pub(crate) struct Event {
    #[prost(uint64, optional, tag = "1")]
    pub(crate) timestamp: Option<u64>,
    /// The thread that was on the processor.
    #[prost(uint32, optional, tag = "2")]
    pub(crate) pid: Option<u32>,
    #[prost(message, optional, tag = "4")]
    pub(crate) sched_switch: Option<SchedSwitch>,
    #[prost(uint32, optional, tag = "5")]
    pub(crate) common_flags: Option<u32>,
    #[prost(message, optional, tag = "17")]
    pub(crate) sched_wakeup: Option<SchedWaking>,
    #[prost(message, optional, tag = "18")]
    pub(crate) sched_blocked_reason: Option<SchedBlockedReason>,
    #[prost(message, optional, tag = "20")]
    pub(crate) sched_waking: Option<SchedWaking>,
    #[prost(message, optional, tag = "50")]
    pub(crate) binder_transaction: Option<BinderTransaction>,
    #[prost(message, optional, tag = "51")]
    pub(crate) binder_transaction_received: Option<BinderTransactionReceived>,
    #[prost(message, optional, tag = "114")]
    pub(crate) sched_wakeup_new: Option<SchedWaking>,
    #[prost(message, optional, tag = "235")]
    pub(crate) task_newtask: Option<TaskNewtask>,
    #[prost(message, optional, tag = "236")]
    pub(crate) task_rename: Option<TaskRename>,
}

/// protos/perfetto/trace/ftrace/sched.proto: SchedSwitchFtraceEvent
#[derive(Clone, PartialEq, Message)]
pub(crate) struct SchedSwitch {
    #[prost(int32, optional, tag = "2")]
    pub(crate) prev_pid: Option<i32>,
    #[prost(int64, optional, tag = "4")]
    pub(crate) prev_state: Option<i64>,
    #[prost(bytes = "bytes", optional, tag = "5")]
    pub(crate) next_comm: Option<Bytes>,
    #[prost(int32, optional, tag = "6")]
    pub(crate) next_pid: Option<i32>,
}

/// protos/perfetto/trace/ftrace/sched.proto: SchedWakingFtraceEvent, and the same fields of SchedWakeupFtraceEvent and
/// SchedWakeupNewFtraceEvent
#[derive(Clone, PartialEq, Message)]
pub(crate) struct SchedWaking {
    #[prost(bytes = "bytes", optional, tag = "1")]
    pub(crate) comm: Option<Bytes>,
    #[prost(int32, optional, tag = "2")]
    pub(crate) pid: Option<i32>,
}

/// protos/perfetto/trace/ftrace/sched.proto: SchedBlockedReasonFtraceEvent
#[derive(Clone, Copy, PartialEq, Eq, Message)]
pub(crate) struct SchedBlockedReason {
    #[prost(int32, optional, tag = "1")]
    pub(crate) pid: Option<i32>,
    #[prost(uint32, optional, tag = "3")]
    pub(crate) io_wait: Option<u32>,
}

/// protos/perfetto/trace/ftrace/binder.proto: BinderTransactionFtraceEvent
#[derive(Clone, Copy, PartialEq, Eq, Message)]
pub(crate) struct BinderTransaction {
    #[prost(int32, optional, tag = "1")]
    pub(crate) debug_id: Option<i32>,
    #[prost(int32, optional, tag = "4")]
    pub(crate) to_thread: Option<i32>,
    #[prost(int32, optional, tag = "5")]
    pub(crate) reply: Option<i32>,
    #[prost(uint32, optional, tag = "6")]
    pub(crate) code: Option<u32>,
    #[prost(uint32, optional, tag = "7")]
    pub(crate) flags: Option<u32>,
}

/// protos/perfetto/trace/ftrace/binder.proto: BinderTransactionReceivedFtraceEvent
#[derive(Clone, Copy, PartialEq, Eq, Message)]
pub(crate) struct BinderTransactionReceived {
    #[prost(int32, optional, tag = "1")]
    pub(crate) debug_id: Option<i32>,
}

/// protos/perfetto/trace/ftrace/task.proto: TaskNewtaskFtraceEvent
#[derive(Clone, PartialEq, Message)]
pub(crate) struct TaskNewtask {
    #[prost(int32, optional, tag = "1")]
    pub(crate) pid: Option<i32>,
    #[prost(bytes = "bytes", optional, tag = "2")]
    pub(crate) comm: Option<Bytes>,
    #[prost(uint64, optional, tag = "3")]
    pub(crate) clone_flags: Option<u64>,
}

/// protos/perfetto/trace/ftrace/task.proto: TaskRenameFtraceEvent
#[derive(Clone, PartialEq, Message)]
pub(crate) struct TaskRename {
    #[prost(int32, optional, tag = "1")]
    pub(crate) pid: Option<i32>,
    #[prost(bytes = "bytes", optional, tag = "3")]
    pub(crate) newcomm: Option<Bytes>,
}
