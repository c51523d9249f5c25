// SPDX-License-Identifier: Apache-2.0
//! Calls, as columns.

use crate::MethodId;

/// [`Slice::parent`] of an outermost call.
pub const NO_PARENT: u32 = u32::MAX;

/// What is special about a call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[repr(transparent)]
pub struct Flags(pub u8);

impl Flags {
    /// The entry is not in the ring: the call is older than its start says, and the method isn't known.
    pub const OPEN_START: Flags = Flags(1);
    /// The exit is not in the ring: the call went on after its end, or nobody saw it end.
    pub const OPEN_END: Flags = Flags(2);
    /// An exception left it.
    pub const BY_EXCEPTION: Flags = Flags(4);
    /// The native part of a native method.
    pub const NATIVE: Flags = Flags(8);

    /// Whether all of `flags` are set.
    #[inline]
    pub const fn contains(self, flags: Flags) -> bool {
        self.0 & flags.0 == flags.0
    }

    /// Those of either.
    #[inline]
    #[must_use]
    pub const fn with(self, flags: Flags) -> Flags {
        Flags(self.0 | flags.0)
    }
}

/// One call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slice {
    /// CLOCK_BOOTTIME, ns. With [`Flags::OPEN_START`] the first moment at which it was seen to run.
    pub start_ns: u64,
    /// CLOCK_BOOTTIME, ns. With [`Flags::OPEN_END`] the last moment at which it was seen to run.
    pub end_ns: u64,
    /// What was called.
    pub method: MethodId,
    /// 0 for an outermost call. Frames that neither entered nor left a method while the ring recorded
    /// aren't known, and don't count.
    pub depth: u32,
    /// Index of the caller, or [`NO_PARENT`].
    pub parent: u32,
    /// What is special about it.
    pub flags: Flags,
}

impl Slice {
    /// How long it was seen to run, ns.
    pub fn duration_ns(&self) -> u64 {
        self.end_ns - self.start_ns
    }
}

/// The calls of a thread, callers before callees, in the order of their starts. One column a field.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[expect(missing_docs, reason = "the columns are the fields of Slice")]
pub struct Slices {
    pub start_ns: Vec<u64>,
    pub end_ns: Vec<u64>,
    pub method: Vec<MethodId>,
    pub depth: Vec<u32>,
    pub parent: Vec<u32>,
    pub flags: Vec<Flags>,
}

impl Slices {
    /// How many there are.
    pub fn len(&self) -> usize {
        self.start_ns.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.start_ns.is_empty()
    }

    /// The call at `index`.
    ///
    /// # Panics
    /// If there is none.
    #[inline]
    pub fn get(&self, index: usize) -> Slice {
        Slice {
            start_ns: self.start_ns[index],
            end_ns: self.end_ns[index],
            method: self.method[index],
            depth: self.depth[index],
            parent: self.parent[index],
            flags: self.flags[index],
        }
    }

    /// Adds a call, which started no earlier than those that are there.
    pub(crate) fn push(&mut self, slice: Slice) {
        self.start_ns.push(slice.start_ns);
        self.end_ns.push(slice.end_ns);
        self.method.push(slice.method);
        self.depth.push(slice.depth);
        self.parent.push(slice.parent);
        self.flags.push(slice.flags);
    }

    /// All, callers before callees.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = Slice> + ExactSizeIterator + '_ {
        (0..self.len()).map(|i| self.get(i))
    }

    /// The call's caller, or `None` if it is an outermost one.
    pub fn parent_of(&self, index: usize) -> Option<usize> {
        match self.parent[index] {
            NO_PARENT => None,
            parent => Some(parent as usize),
        }
    }

    /// The call at `index`, and what it called, directly or not: `index..subtree_end(index)`.
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

    /// The outermost call above `index`, …, its caller, itself.
    pub fn path_to(&self, index: usize) -> Vec<usize> {
        let mut path: Vec<usize> =
            std::iter::successors(Some(index), |&i| self.parent_of(i)).collect();
        path.reverse();
        path
    }

    /// For each call: its duration less those of the calls it made, ns.
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

/// Collects calls from the newest backwards.
pub(crate) struct Builder {
    /// Newest first; depths are those below the calls of the same stretch that have no end.
    slices: Slices,
    /// Where the stretch that is being read began in `slices`.
    stretch: usize,
    /// `slices` lengths at which a stretch ended.
    stretches: Vec<usize>,
}

impl Builder {
    pub(crate) fn new(capacity: usize) -> Self {
        Builder {
            slices: Slices {
                start_ns: Vec::with_capacity(capacity),
                end_ns: Vec::with_capacity(capacity),
                method: Vec::with_capacity(capacity),
                depth: Vec::with_capacity(capacity),
                parent: Vec::new(),
                flags: Vec::with_capacity(capacity),
            },
            stretch: 0,
            stretches: Vec::new(),
        }
    }

    /// Adds a call that started no later than the last one that was added. `below`: how many of its
    /// callers end later in the same stretch.
    #[inline]
    pub(crate) fn push(
        &mut self,
        start_ns: u64,
        end_ns: u64,
        method: MethodId,
        below: u32,
        flags: Flags,
    ) {
        self.slices.start_ns.push(start_ns);
        self.slices.end_ns.push(end_ns);
        self.slices.method.push(method);
        self.slices.depth.push(below);
        self.slices.flags.push(flags);
    }

    /// Older calls are not callers of those added so far.
    pub(crate) fn end_stretch(&mut self) {
        if self.slices.len() > self.stretch {
            self.stretch = self.slices.len();
            self.stretches.push(self.stretch);
        }
    }

    /// Puts the calls into the order of their starts, and finds depths and callers.
    pub(crate) fn finish(mut self, ids: &dyn Fn(MethodId) -> MethodId) -> Slices {
        self.end_stretch();
        let mut slices = self.slices;
        let len = slices.len();
        slices.start_ns.reverse();
        slices.end_ns.reverse();
        slices.method.reverse();
        slices.depth.reverse();
        slices.flags.reverse();
        for method in &mut slices.method {
            *method = ids(*method);
        }
        slices.parent.reserve_exact(len);
        let mut callers: Vec<u32> = Vec::new();
        let mut start = 0;
        let newest_first = std::iter::once(0).chain(self.stretches.iter().copied());
        let mut ends: Vec<usize> = newest_first.map(|from_end| len - from_end).collect();
        ends.sort_unstable();
        for end in ends {
            callers.clear();
            // A call without an end is a caller of all that follows in its stretch.
            let mut without_end = 0;
            for i in start..end {
                let depth = slices.depth[i] + without_end;
                slices.depth[i] = depth;
                callers.truncate(depth as usize);
                slices
                    .parent
                    .push(callers.last().copied().unwrap_or(NO_PARENT));
                callers.push(i as u32);
                without_end += u32::from(slices.flags[i].contains(Flags::OPEN_END));
            }
            start = end;
        }
        slices
    }
}
