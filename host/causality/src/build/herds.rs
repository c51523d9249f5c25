// SPDX-License-Identifier: Apache-2.0
//! Wake-ups of several threads at once, by one `notifyAll`.

use hindsight_decoder::catalogue::Category;
use hindsight_decoder::{Extension, ThreadEvent};

use crate::graph::Edges;
use crate::session::{Session, ThreadId};

/// A wait for an object's notification, and the event that ended it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Woken {
    /// The thread that ended it.
    pub(super) by: ThreadId,
    /// Index of the event among that thread's.
    pub(super) event: u32,
    /// Identity of the object; not 0.
    pub(super) object: u64,
    /// Index of the edge.
    pub(super) edge: usize,
}

/// Marks the edges of wake-ups of which a thread recorded several for one object, one right after the other, as `notifyAll`
/// does. Most of these threads only see that there is nothing for them.
pub(super) fn mark(session: &Session, mut woken: Vec<Woken>, edges: &mut Edges) {
    woken.sort_unstable_by_key(|w| (w.by, w.event, w.edge));
    let is_one = |a: &Woken, b: &Woken| {
        let events = session
            .thread(a.by)
            .events
            .get(a.event as usize + 1..b.event as usize);
        let of_one = |e: &ThreadEvent| {
            let category = e.spec().category;
            e.kind == Extension::Wakes || matches!(category, Category::Resources | Category::Stacks)
        };
        (a.by, a.object) == (b.by, b.object) && events.is_some_and(|e| e.iter().all(of_one))
    };
    for herd in woken.chunk_by(is_one).filter(|herd| herd.len() > 1) {
        for one in herd {
            edges.mark_herd(one.edge);
        }
    }
}
