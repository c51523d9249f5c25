// SPDX-License-Identifier: Apache-2.0
//! Sorts of events.

use hindsight_decoder::catalogue::Field;
use hindsight_decoder::{field, Extension};

/// What a wait is for.
pub(super) const WAIT_KIND: Field = field(Extension::WaitBegin, "kind");
/// How a wait ended.
pub(super) const WAIT_RESULT: Field = field(Extension::WaitEnd, "result");
/// What kind of task it is.
pub(super) const TASK_KIND: Field = field(Extension::TaskBegin, "kind");
/// The kind, in events, of the task that a thread runs for all its life.
pub(super) const THREAD_TASK: u64 = 1;

/// Whether an event only concerns the recording itself, and is no part of what the thread does.
pub(super) fn is_of_recording(kind: Extension) -> bool {
    use Extension::{
        EnteredBefore, FullTime, LeftAfter, NativeEntered, NativeLeft, PartBegins, Started,
        Stopped, Unwound,
    };
    matches!(
        kind,
        Stopped
            | Unwound
            | Started
            | NativeEntered
            | NativeLeft
            | EnteredBefore
            | LeftAfter
            | PartBegins
            | FullTime
    )
}

/// Whether an event only describes the one before it: a reading of counters, or a stack.
pub(super) fn is_addition(kind: Extension) -> bool {
    use Extension::{Allocations, PackedStack, ResourceUse, Stack, StackAgain, ThreadCpuTime};
    matches!(
        kind,
        ThreadCpuTime | Allocations | ResourceUse | Stack | StackAgain | PackedStack
    )
}
