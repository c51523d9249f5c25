// SPDX-License-Identifier: Apache-2.0
//! The marks at the beginning of a ring: which of its slots say what was under way before it.

/// The events [`PartBegins`](crate::Extension::PartBegins) with which a ring begins. One that follows another ring of its thread
/// may have two, and repeats events and calls of the earlier ring before the second one.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Marks {
    /// Time of the first mark, CLOCK_BOOTTIME, ns: from then on the ring has all that its thread recorded.
    first_ns: Option<u64>,
    /// Time of the second mark, ns: when recording into the ring began.
    second_ns: Option<u64>,
    /// How many events, without calls, stand before the last mark.
    events: usize,
}

impl Marks {
    /// Adds a mark that stands behind so many events, calls aside. `entered`: a call began before it, in the ring's slots; `all_run`:
    /// none has ended. Marks that stand among the ring's own slots are ignored.
    pub(crate) fn add(&mut self, at_ns: u64, events: usize, entered: bool, all_run: bool) {
        match (self.first_ns, self.second_ns) {
            (None, _) if all_run && !entered => self.first_ns = Some(at_ns),
            (Some(_), None) if all_run => self.second_ns = Some(at_ns),
            _ => return,
        }
        self.events = events;
    }

    /// Since when the ring has all that its thread recorded, ns, if it has a mark.
    pub(crate) fn complete_from_ns(&self) -> Option<u64> {
        self.first_ns
    }

    /// When recording into the ring itself began, ns, if it has a mark.
    pub(crate) fn begins_ns(&self) -> Option<u64> {
        self.second_ns.or(self.first_ns)
    }

    /// Whether the ring has all events since the first mark, and says which of them are its own.
    pub(crate) fn are_both(&self) -> bool {
        self.second_ns.is_some()
    }

    /// How many of the ring's first events, without calls, may be in an earlier ring, too.
    pub(crate) fn repeated_events(&self) -> usize {
        self.events
    }
}
