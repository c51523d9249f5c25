// SPDX-License-Identifier: Apache-2.0
//! Trace points that call a stub, which records for them: less code in the method than a trace point that records in
//! place.

use crate::isa::Isa;

/// Where in a method a call of the stub stands, and how it finds out whether the thread is traced.
///
/// An instruction set has some of them. Except at the sites of the feature `comparison`, the word that holds the
/// stub's address is 0 while the thread is not traced, so that one load both tests it and finds the stub.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum StubSite {
    /// At the entry of a method without a suspend check. The method is in the first argument register.
    LeafEntry,
    /// In place of a return instruction, with a jump to the stub that later exits of the method can share.
    TailExit,
    /// In place of a later return instruction of a method with a `TailExit`.
    LaterExit {
        /// Distance in bytes from the start of this code to [`StubCode::shared_exit`] of the `TailExit`: negative,
        /// not below `Isa::MIN_SHARED_EXIT`, a multiple of the size of an instruction.
        shared_exit: i32,
    },
    /// Before the epilogue of a method that has saved its return address.
    FramedExit,
    /// As `LeafEntry`, with a test of the poll byte.
    #[cfg(feature = "comparison")]
    PollLeafEntry,
    /// As `TailExit`, with a test of the poll byte.
    #[cfg(feature = "comparison")]
    PollTailExit,
    /// In place of a later return instruction of a method with a `PollTailExit`.
    #[cfg(feature = "comparison")]
    PollLaterExit {
        /// As in `LaterExit`.
        shared_exit: i32,
    },
    /// As `FramedExit`, with a test of the poll byte.
    #[cfg(feature = "comparison")]
    PollFramedExit,
    /// In place of any return instruction on x86-64: shorter than `TailExit`, with a jump that is taken while the
    /// thread is not traced.
    #[cfg(feature = "comparison")]
    ShortExit,
    /// At an entry, without a test: calls the stub also while the thread is not traced.
    #[cfg(feature = "comparison")]
    CallEntry,
    /// In place of a return instruction, without a test: jumps to the stub also while the thread is not traced.
    #[cfg(feature = "comparison")]
    JumpExit,
}

/// A call of the stub.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct StubCall {
    /// The place, and the test.
    pub site: StubSite,
    /// Offset of the stub's address in the thread, in bytes: a multiple of `Isa::WORD_BYTES` from 0 to
    /// `Isa::MAX_WORD_OFFSET`.
    pub stub_offset: i32,
    /// Offset in the thread of the byte that is not 0 while the thread is traced, in bytes: from 0 to
    /// `Isa::MAX_POLL_OFFSET`.
    #[cfg(feature = "comparison")]
    pub poll_offset: i32,
}

impl StubCall {
    /// A call at `site` of the stub whose address the thread has at `stub_offset`.
    pub const fn new(site: StubSite, stub_offset: i32) -> Self {
        StubCall {
            site,
            stub_offset,
            #[cfg(feature = "comparison")]
            poll_offset: 0,
        }
    }
}

/// The code of a call of the stub.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StubCode<I: Isa> {
    /// Position-independent machine code. Control leaves it at its end, or it returns from the method.
    pub bytes: Vec<u8>,
    /// The registers that it and the stub may change before control goes on. They may change the flags, too, except
    /// on AArch64.
    pub clobbers: I::RegSet,
    /// Offset in `bytes` of the jump to the stub, if later exits can branch to it.
    pub shared_exit: Option<usize>,
}
