// SPDX-License-Identifier: Apache-2.0
//! The memory that a traced process shares with the system service, so that its rings survive it.
//!
//! One sealed memory file (memfd) a process holds everything that a `.hindsight` file needs: the rings, the table of stacks,
//! and a journal with the names of linked classes. Whoever has the file can read it after the process has been killed at any
//! instruction ([`read`]).
//!
//! ```text
//! header | journal | ring controls | nodes of stacks | notes and slots of ring 0 | … of ring 1 | …
//! ```
//!
//! The process makes the file as long as it may ever become; the system provides memory for what is written. All integers are
//! little-endian. The reader trusts nothing in it: the process may be hostile, and may still be running.
//!
//! ## What was under way
//! Before its slots, a ring that its thread got in exchange for another one has what was under way then ([`UnderWayPage`]).
//!
//! ## The newest slot
//! The cursor of a ring of calls is a word of the managed runtime's thread object, which does not survive. Such a ring is divided
//! into segments. A thread that enters a segment clears it first, and then counts it in the ring's control. The newest slot is
//! then the last one in the current segment that is neither zero nor of a call that was taken back ([`newest`]).

mod boot_image;
mod counters;
mod crash;
mod ended_names;
mod ended_ring;
mod ended_stacks;
mod entries;
mod journal;
mod layout;
mod losses;
mod newest;
mod noted;
mod read;
mod serving;
mod source;
mod under_way;
mod write;

pub use boot_image::{BootImage, BootNames, Naming, MAX_BOOT_NAMES_BYTES};
pub use counters::{Counter, COUNTERS};
pub use crash::{Crash, CrashKind, CrashNote};
pub use ended_ring::{EndedRing, RingFilter};
pub use entries::Entries;
pub use journal::{Entry, JournalWriter, LinkedClass, NamedMethod, MAX_JOURNAL_BYTES};
pub use layout::{
    segments_of, under_way_before, Header, OpenCallsPage, Region, Regions, RingControl, RingState,
    StackArena, UnderWayPage, COUNTERS_OFFSET, FLAG_CONTINUES, FLAG_EPOCHS_MARKED, HEADER_BYTES,
    MAX_RINGS, MAX_SHARED_BYTES, NAME_BYTES, OPEN_CALLS_BYTES, OPEN_CALLS_NAMED, SHARED_MAGIC,
    SHARED_VERSION, UNDER_WAY_BYTES,
};
pub use losses::Loss;
pub use newest::newest_in_segment;
pub use noted::{has_left, read_crash, read_served};
pub use read::{read, Ended, SharedReader};
pub use serving::{
    begin as begin_serving, end as end_serving, Served, Serving, LONG_SERVING_NS, SERVING,
};
pub use source::{ReadAt, ReadLimits, SharedError, READING_BYTES};
pub use under_way::{Open, OpenEvent, UnderWay};
pub use write::{Ending, EndingError};
