// SPDX-License-Identifier: Apache-2.0
//! Calls, as columns.

use std::borrow::Cow;

use crate::methods::MethodId;
use crate::pages::prefer_large;

/// [`Call::parent`] of an outermost call.
pub const NO_PARENT: u32 = u32::MAX;

/// Flags of a call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[repr(transparent)]
pub struct Flags(pub u8);

impl Flags {
    /// The entry is not in the ring: the call is older than its start says. The method is known only in a part of
    /// a trace that once had the entry.
    pub const OPEN_START: Flags = Flags(1);
    /// The exit is not in the ring: the call ended at its end or later.
    pub const OPEN_END: Flags = Flags(2);
    /// An exception left it.
    pub const BY_EXCEPTION: Flags = Flags(4);
    /// The native part of a native method.
    pub const NATIVE: Flags = Flags(8);
    /// It was found in stacks that were taken now and then: it ran at its start and at its end, and may have begun earlier
    /// and ended later. See [`SampleTimes::bounds`](crate::SampleTimes::bounds).
    pub const SAMPLED: Flags = Flags(16);

    /// Whether all of `flags` are set.
    #[inline]
    pub const fn contains(self, flags: Flags) -> bool {
        self.0 & flags.0 == flags.0
    }

    /// The union of both.
    #[inline]
    #[must_use]
    pub const fn with(self, flags: Flags) -> Flags {
        Flags(self.0 | flags.0)
    }

    /// These flags without `flags`.
    #[inline]
    #[must_use]
    pub const fn without(self, flags: Flags) -> Flags {
        Flags(self.0 & !flags.0)
    }
}

/// One call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Call {
    /// CLOCK_BOOTTIME, ns. With [`Flags::OPEN_START`] the earliest time at which it is known to run.
    pub start_ns: u64,
    /// CLOCK_BOOTTIME, ns. With [`Flags::OPEN_END`] the latest time at which it is known to run.
    pub end_ns: u64,
    /// The called method.
    pub method: MethodId,
    /// Number of callers; 0 for an outermost call. Frames that neither called nor returned while the ring recorded are
    /// unknown and do not count.
    pub depth: u32,
    /// Index of the caller, or [`NO_PARENT`].
    pub parent: u32,
    /// Its flags.
    pub flags: Flags,
}

impl Call {
    /// Time from start to end, ns.
    pub fn duration_ns(&self) -> u64 {
        self.end_ns - self.start_ns
    }
}

/// The calls of a thread, callers before callees, in the order of their starts. One column a field.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[expect(missing_docs, reason = "the columns are the fields of Call")]
pub struct Calls {
    pub start_ns: Vec<u64>,
    pub end_ns: Vec<u64>,
    pub method: Vec<MethodId>,
    pub depth: Vec<u32>,
    pub parent: Vec<u32>,
    pub flags: Vec<Flags>,
}

impl Calls {
    /// Number of calls.
    pub fn len(&self) -> usize {
        self.start_ns.len()
    }

    /// Whether there is no call.
    pub fn is_empty(&self) -> bool {
        self.start_ns.is_empty()
    }

    /// The call at `index`.
    ///
    /// # Panics
    /// If there is none.
    #[inline]
    pub fn get(&self, index: usize) -> Call {
        Call {
            start_ns: self.start_ns[index],
            end_ns: self.end_ns[index],
            method: self.method[index],
            depth: self.depth[index],
            parent: self.parent[index],
            flags: self.flags[index],
        }
    }

    /// No calls, with capacity for `calls`.
    pub(crate) fn with_capacity(calls: usize) -> Self {
        fn column<T>(calls: usize) -> Vec<T> {
            let column = Vec::with_capacity(calls);
            prefer_large(&column);
            column
        }
        Calls {
            start_ns: column(calls),
            end_ns: column(calls),
            method: column(calls),
            depth: column(calls),
            parent: column(calls),
            flags: column(calls),
        }
    }

    /// Adds a call, which must not start before the last one.
    pub(crate) fn push(&mut self, call: Call) {
        self.start_ns.push(call.start_ns);
        self.end_ns.push(call.end_ns);
        self.method.push(call.method);
        self.depth.push(call.depth);
        self.parent.push(call.parent);
        self.flags.push(call.flags);
    }

    /// The calls without [`Flags::SAMPLED`].
    pub fn exact(&self) -> Cow<'_, Calls> {
        // An exact call has exact callers.
        self.filtered(|call| !call.flags.contains(Flags::SAMPLED))
    }

    /// The calls that are to be kept; so are the callers of each.
    pub(crate) fn filtered(&self, is_kept: impl Fn(&Call) -> bool) -> Cow<'_, Calls> {
        if self.iter().all(|call| is_kept(&call)) {
            return Cow::Borrowed(self);
        }
        let mut kept = Calls::default();
        let mut places = vec![NO_PARENT; self.len()];
        for (i, mut call) in self.iter().enumerate() {
            if is_kept(&call) {
                places[i] = kept.len() as u32;
                call.parent = self.parent_of(i).map_or(NO_PARENT, |p| places[p]);
                kept.push(call);
            }
        }
        Cow::Owned(kept)
    }

    /// All, callers before callees.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = Call> + ExactSizeIterator + '_ {
        (0..self.len()).map(|i| self.get(i))
    }

    /// The call's caller, or `None` if it is an outermost one.
    pub fn parent_of(&self, index: usize) -> Option<usize> {
        match self.parent[index] {
            NO_PARENT => None,
            parent => Some(parent as usize),
        }
    }

    /// End of the subtree of a call: `index..subtree_end(index)` are the call and all calls below it.
    pub fn subtree_end(&self, index: usize) -> usize {
        let depth = self.depth[index];
        let after = &self.depth[index + 1..];
        index
            + 1
            + after
                .iter()
                .position(|&d| d <= depth)
                .unwrap_or(after.len())
    }

    /// Indices of the outermost call above `index`, …, its caller, itself.
    pub fn path_to(&self, index: usize) -> Vec<usize> {
        let mut path: Vec<usize> =
            std::iter::successors(Some(index), |&i| self.parent_of(i)).collect();
        path.reverse();
        path
    }

    /// For each call, its self time: its duration without the durations of its callees, ns.
    pub fn self_ns(&self) -> Vec<u64> {
        let mut own: Vec<u64> = self
            .start_ns
            .iter()
            .zip(&self.end_ns)
            .map(|(s, e)| e - s)
            .collect();
        for (i, &parent) in self.parent.iter().enumerate() {
            if parent != NO_PARENT {
                let duration = self.end_ns[i] - self.start_ns[i];
                let own = &mut own[parent as usize];
                *own = own.saturating_sub(duration);
            }
        }
        own
    }
}
