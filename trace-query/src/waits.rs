// SPDX-License-Identifier: Apache-2.0
//! What a thread waited for, and who could end it.

use hindsight_trace_format::slot::Extension;

use crate::calls::{Step, MAX_PAYLOAD};

/// Waits of a thread that are open at a time. They do not nest, but for the runtime's own inside a program's.
const MAX_OPEN: usize = 8;

/// The kernel's id of a thread; 0: not known.
pub(crate) type Tid = u64;

/// A wait that has ended, or goes on at the end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Wait {
    /// Index in the catalogue's kinds of waits.
    pub(crate) kind: u64,
    /// When it began, ticks.
    pub(crate) from: u64,
    /// When it ended, ticks.
    pub(crate) to: u64,
    /// Who held the lock when it began.
    pub(crate) holder: Tid,
    /// Who ended it.
    pub(crate) woken_by: Tid,
}

impl Wait {
    /// How much of it is within these times, ticks.
    pub(crate) fn within(&self, (from, to): (u64, u64)) -> u64 {
        self.to.min(to).saturating_sub(self.from.max(from))
    }
}

/// Follows the waits of one thread, in the order of time.
#[derive(Default)]
pub(crate) struct Waits {
    open: Vec<(u64, Wait)>,
    /// From the events before the one that they belong to.
    holder: Tid,
    woken_by: Tid,
    /// When the holder was told.
    told_at: u64,
}

fn field(extension: Extension, name: &str, payload: &[u64; MAX_PAYLOAD]) -> u64 {
    let field = extension.spec().field(name);
    field.map_or(0, |field| field.get(payload))
}

impl Waits {
    /// Returns a wait that ends with this step.
    pub(crate) fn step(&mut self, step: &Step<'_>) -> Option<Wait> {
        let (extension, payload, at) = match step {
            Step::Other {
                extension,
                payload,
                at,
            } => (extension, payload, at),
            Step::Enter { at, .. } | Step::Exit { at, .. } => return self.goes_on(*at),
            Step::Outside { .. } | Step::Started { .. } => return None,
        };
        let extension = Extension::from_number(*extension)?;
        let get = |name| field(extension, name, payload);
        match extension {
            Extension::LockWait => (self.holder, self.told_at) = (get("held by"), *at),
            Extension::WokenBy => self.woken_by = get("by"),
            Extension::WaitBegin => {
                if self.open.len() >= MAX_OPEN {
                    self.open.remove(0);
                }
                let wait = Wait {
                    kind: get("kind"),
                    from: *at,
                    holder: std::mem::take(&mut self.holder),
                    ..Wait::default()
                };
                self.open.push((get("number"), wait));
            }
            Extension::WaitEnd => {
                let number = get("number");
                let at_index = self.open.iter().rposition(|(open, _)| *open == number);
                let (_, wait) = self.open.remove(at_index?);
                return Some(Wait {
                    to: *at,
                    woken_by: std::mem::take(&mut self.woken_by),
                    ..wait
                });
            }
            _ => {}
        }
        None
    }

    /// The thread goes on with its calls. Where waits are not recorded, only who held a lock is.
    fn goes_on(&mut self, at: u64) -> Option<Wait> {
        let holder = std::mem::take(&mut self.holder);
        (holder != 0).then_some(Wait {
            from: self.told_at,
            to: at,
            holder,
            ..Wait::default()
        })
    }

    /// The waits that go on at this time.
    pub(crate) fn end(mut self, at: u64) -> impl Iterator<Item = Wait> {
        let last = self.goes_on(at);
        let open = self.open.into_iter();
        let open = open.map(move |(_, wait)| Wait { to: at, ..wait });
        open.chain(last)
    }
}
