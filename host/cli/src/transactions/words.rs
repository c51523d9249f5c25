// SPDX-License-Identifier: Apache-2.0
//! Transactions and the steps of their critical paths as text.

use hindsight_causality::transactions::{
    handler, By, Component, Shares, Step, StepKind, Transaction, Transactions,
};
use hindsight_causality::{Reason, WaitKind, WaitResult};

use crate::session::Opened;
use crate::words::duration;

/// At most so many components are named in a line.
const MOST_PARTS: usize = 3;

/// `network 80.0 ms, running 9.00 ms, frame 2.00 ms, others 1.00 ms`: the largest first.
pub(super) fn shares(shares: &Shares) -> String {
    let mut parts: Vec<(Component, u64)> = shares.parts().collect();
    parts.sort_by_key(|&(component, ns)| (std::cmp::Reverse(ns), component));
    let others: u64 = parts.iter().skip(MOST_PARTS).map(|p| p.1).sum();
    let named = parts.iter().take(MOST_PARTS);
    let mut words: Vec<String> = named
        .map(|(component, ns)| format!("{} {}", component.name(), duration(*ns)))
        .collect();
    if others > 0 {
        words.push(format!("others {}", duration(others)));
    }
    words.join(", ")
}

/// What a transaction is called: the first class of the program that did something for it, or the mark's name.
pub(super) fn what(opened: &Opened, found: &Transactions, transaction: &Transaction) -> String {
    let handler = handler(&opened.session, &opened.graph, found, transaction);
    match opened.session.string(handler) {
        "" => "(not named)".to_owned(),
        name => name.to_owned(),
    }
}

fn meanwhile(by: &By) -> String {
    match shares(&by.did) {
        did if did.is_empty() => String::new(),
        did => format!("; meanwhile: {did}"),
    }
}

/// The other thread, its work, and what it did meanwhile.
fn other(opened: &Opened, by: &By) -> String {
    let thread = opened.thread(by.thread);
    let work = by.node.map(|node| opened.work(node));
    let work = work.map_or(String::new(), |work| format!(" in {work}"));
    format!("{thread}{work}{}", meanwhile(by))
}

/// What the thread did that the work is for.
fn busy(opened: &Opened, step: &Step) -> String {
    let by = step.by.filter(|by| by.did.total() > 0);
    by.map_or(String::new(), |by| {
        format!(
            "; {} meanwhile: {}",
            opened.thread(by.thread),
            shares(&by.did)
        )
    })
}

/// What passes the time in a step.
pub(super) fn step(opened: &Opened, step: &Step) -> String {
    match step.kind {
        StepKind::Own => match step.inferred {
            Some(method) => format!(
                "{}, in {} (inferred: the only native method whose return is recorded)",
                opened.work(step.node),
                opened.session.string(method)
            ),
            None => opened.work(step.node),
        },
        StepKind::Cut => "the path is too long to be followed".to_owned(),
        StepKind::Delivery => format!("not delivered yet{}", busy(opened, step)),
        StepKind::Woken => "woken, and does not run yet".to_owned(),
        StepKind::HandedOver(reason) => {
            let work = opened.work(step.node);
            let passed = match reason {
                Reason::FrameCallback | Reason::Traversal => {
                    return format!("{}: waits for the next frame", reason.name())
                }
                Reason::Timer => "waits for its time",
                Reason::Transaction | Reason::Reply => "is on its way",
                Reason::Field => "is written, and not read yet",
                _ => "is pending",
            };
            format!("{work} {passed}{}", busy(opened, step))
        }
        StepKind::Wait(wait) => waits(opened, step, wait.kind, wait.result),
    }
}

fn waits(opened: &Opened, step: &Step, kind: WaitKind, result: WaitResult) -> String {
    let by = step.by.as_ref().map(|by| other(opened, by));
    let timed_out = result == WaitResult::TimedOut;
    match (kind, by) {
        (WaitKind::Lock, Some(by)) => format!("waits for a lock that was held by {by}"),
        (WaitKind::Lock, None) => "waits for a lock; who held it is not recorded".to_owned(),
        (WaitKind::Sleep, _) => "sleeps".to_owned(),
        (WaitKind::Gc, _) => "waits for a garbage collection".to_owned(),
        (WaitKind::Transaction, Some(by)) => format!("waits for the reply of {by}"),
        (WaitKind::Transaction, None) => {
            "waits for a reply; who serves it is not recorded".to_owned()
        }
        (_, _) if timed_out => format!("waits ({}) until its time is over", kind.name()),
        (_, Some(by)) => format!("waits ({}) for {by}", kind.name()),
        (_, None) => format!(
            "waits ({}); who ended the wait is not recorded",
            kind.name()
        ),
    }
}
