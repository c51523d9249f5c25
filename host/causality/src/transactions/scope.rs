// SPDX-License-Identifier: Apache-2.0
//! Parts of nodes: callbacks of a frame and traversals, which have causes of their own.

use hindsight_decoder::{Extension, ThreadEvent};

/// Index after the last event of the part of a node that begins with event `first`; `end` is the index after the node's last
/// event. All but frame callbacks and traversals are as long as the node.
pub(super) fn end_of_part(events: &[ThreadEvent], first: u32, end: u32) -> u32 {
    let Some(begin) = events.get(first as usize) else {
        return end;
    };
    let rest = events
        .get(first as usize + 1..end as usize)
        .unwrap_or_default();
    use Extension::{
        CallbackRun, FrameBegin, FrameCallbacks, FrameEnd, TraversalBegin, TraversalEnd,
    };
    // Both stop at the next part of the same kind, so that all of a node's parts take one pass together.
    let ends = |e: &ThreadEvent| match begin.kind {
        CallbackRun => matches!(e.kind, CallbackRun | FrameCallbacks | FrameEnd | FrameBegin),
        _ => matches!(e.kind, TraversalEnd | TraversalBegin),
    };
    match begin.kind {
        CallbackRun | TraversalBegin => {
            let found = rest.iter().position(ends);
            found.map_or(end, |i| {
                let at = first + 1 + i as u32;
                // A traversal's end is its own event; that of a callback is the next one's beginning.
                at + u32::from(rest[i].kind == TraversalEnd)
            })
        }
        _ => end,
    }
}
