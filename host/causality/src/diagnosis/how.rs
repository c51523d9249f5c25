// SPDX-License-Identifier: Apache-2.0
//! How threads have to do with each other's waits.

use serde::Serialize;

/// How a thread has to do with another one's wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum How {
    /// It held the lock when the wait began.
    HeldLock,
    /// It got the lock during the wait, and held it for most of the time.
    GotLock,
    /// It ended the wait.
    EndedWait,
    /// It served the transaction.
    Served,
    /// It ran the task whose result was waited for.
    RanTask,
    /// It sent the work that the thread before it waited for.
    SentWork,
    /// It wrote the field that the thread before it read in a loop.
    WroteField,
    /// It had the request whose answer was waited for, and did not go on with it.
    HadRequest,
    /// It ended such waits before, or would have caused their end.
    EndedBefore,
    /// It had been given work by the waiting thread right before.
    WasGivenWork,
}
