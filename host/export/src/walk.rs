// SPDX-License-Identifier: Apache-2.0
//! Calls as a sequence of begins and ends, as most formats have them.

use hindsight_decoder::{Call, Calls, Flags};

/// A begin or an end of a call.
pub(crate) enum CallEvent {
    /// A call begins.
    Begin(Call),
    /// This call, the innermost one, ends.
    End(Call),
}

/// Calls `visit` for the begins and ends of all calls, in the order of time and nesting.
///
/// Calls that were still running at the end get no end. Calls that were running when tracing was switched off, and then
/// on again, end where it was switched off.
pub(crate) fn walk<E>(
    calls: &Calls,
    mut visit: impl FnMut(CallEvent) -> Result<(), E>,
) -> Result<(), E> {
    let mut running = walk_to_last(calls, &mut visit)?;
    while let Some(last) = running.pop() {
        // A sampled one is known to run until its last stack only.
        if !last.flags.contains(Flags::OPEN_END) || last.flags.contains(Flags::SAMPLED) {
            visit(CallEvent::End(last))?;
        }
    }
    Ok(())
}

/// Like [`walk`], but calls that were still running end at the time when they were last seen running, for formats in
/// which each begin must have an end.
pub(crate) fn walk_closed<E>(
    calls: &Calls,
    mut visit: impl FnMut(CallEvent) -> Result<(), E>,
) -> Result<(), E> {
    let mut running = walk_to_last(calls, &mut visit)?;
    while let Some(last) = running.pop() {
        visit(CallEvent::End(last))?;
    }
    Ok(())
}

/// Visits all up to the begin of the last call; returns the calls that are running then.
fn walk_to_last<E>(
    calls: &Calls,
    visit: &mut impl FnMut(CallEvent) -> Result<(), E>,
) -> Result<Vec<Call>, E> {
    let mut running: Vec<Call> = Vec::new();
    for call in calls.iter() {
        while running.len() > call.depth as usize {
            if let Some(ended) = running.pop() {
                visit(CallEvent::End(ended))?;
            }
        }
        visit(CallEvent::Begin(call))?;
        running.push(call);
    }
    Ok(running)
}
