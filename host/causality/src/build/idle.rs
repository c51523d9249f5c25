// SPDX-License-Identifier: Apache-2.0
//! Which waits are for work, as a pool's thread waits between its tasks.

use hindsight_decoder::catalogue::Field;
use hindsight_decoder::{field, Extension, Thread};

use super::sorts::{is_addition, TASK_KIND, THREAD_TASK, WAIT_KIND};
use crate::graph::{NodeKind, Nodes, WaitKind};

/// Makes waits of the thread's nodes, from `first` on, idle ones. A wait for an object, or to be unparked, is for work if
/// nothing but taking an element out of a queue comes between it and the next task, or if it is on the same object as such
/// a wait.
pub(super) fn mark(thread: &Thread, first: usize, nodes: &mut Nodes) {
    let mut objects: Vec<u64> = Vec::new();
    let mut for_work = false;
    for node in (first..nodes.len()).rev() {
        match nodes.kind[node] {
            NodeKind::Task => for_work = true,
            NodeKind::Wait if for_work => {
                if let Some(object) = awaited(thread, nodes, node) {
                    nodes.kind[node] = NodeKind::Idle;
                    objects.push(object);
                }
            }
            NodeKind::Wait | NodeKind::Maintenance => {}
            NodeKind::Run => for_work &= is_trivial(thread, nodes, node),
            _ => for_work = false,
        }
    }
    objects.retain(|&object| object != 0);
    objects.sort_unstable();
    objects.dedup();
    if objects.is_empty() {
        return;
    }
    for node in first..nodes.len() {
        let is_wait = nodes.kind[node] == NodeKind::Wait;
        let object = Some(node).filter(|_| is_wait);
        let object = object.and_then(|n| awaited(thread, nodes, n));
        if object.is_some_and(|o| objects.binary_search(&o).is_ok()) {
            nodes.kind[node] = NodeKind::Idle;
        }
    }
}

/// What a wait is on.
const OBJECT: Field = field(Extension::WaitBegin, "object");

/// The object that a wait is for, if threads of pools wait for work so; 0 if it is not known.
fn awaited(thread: &Thread, nodes: &Nodes, node: usize) -> Option<u64> {
    let event = thread.events.get(nodes.first_event[node] as usize)?;
    let kind = WaitKind::from_number(WAIT_KIND.get(&event.payload));
    let is_for_work = matches!(kind, WaitKind::Object | WaitKind::Park);
    (event.kind == Extension::WaitBegin && is_for_work).then(|| OBJECT.get(&event.payload))
}

/// Whether a stretch of the thread's own code only takes an element out of a queue.
fn is_trivial(thread: &Thread, nodes: &Nodes, node: usize) -> bool {
    let events = nodes.first_event[node] as usize..nodes.end_event[node] as usize;
    let events = thread.events.get(events).unwrap_or_default();
    events.iter().all(|event| {
        let begins_thread =
            event.kind == Extension::TaskBegin && TASK_KIND.get(&event.payload) == THREAD_TASK;
        begins_thread
            || is_addition(event.kind)
            || matches!(
                event.kind,
                Extension::ItemTaken | Extension::WokenBy | Extension::Wakes | Extension::Released
            )
    })
}
