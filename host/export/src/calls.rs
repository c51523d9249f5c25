// SPDX-License-Identifier: Apache-2.0
//! Calls as a sequence of begins and ends, which is what most formats want.

use hindsight_decoder::{Flags, Slice, Slices};

/// What happens next on a thread.
pub(crate) enum Step {
    /// A call begins.
    Begin(Slice),
    /// The innermost running call ends: this one.
    End(Slice),
}

/// Calls `visit` for the begins and ends of all calls, in the order of time and nesting.
///
/// Calls that were still running at the end get no end. Those whose end was not seen because tracing was
/// off for a while end where it went off.
pub(crate) fn walk<E>(
    slices: &Slices,
    mut visit: impl FnMut(Step) -> Result<(), E>,
) -> Result<(), E> {
    let mut running = walk_to_last(slices, &mut visit)?;
    while let Some(last) = running.pop() {
        if !last.flags.contains(Flags::OPEN_END) {
            visit(Step::End(last))?;
        }
    }
    Ok(())
}

/// As [`walk`], but calls that were still running end where they were last seen, for formats in which
/// each begin must have an end.
pub(crate) fn walk_closed<E>(
    slices: &Slices,
    mut visit: impl FnMut(Step) -> Result<(), E>,
) -> Result<(), E> {
    let mut running = walk_to_last(slices, &mut visit)?;
    while let Some(last) = running.pop() {
        visit(Step::End(last))?;
    }
    Ok(())
}

/// Up to the begin of the last call; returns what is running then.
fn walk_to_last<E>(
    slices: &Slices,
    visit: &mut impl FnMut(Step) -> Result<(), E>,
) -> Result<Vec<Slice>, E> {
    let mut running: Vec<Slice> = Vec::new();
    for slice in slices.iter() {
        while running.len() > slice.depth as usize {
            if let Some(ended) = running.pop() {
                visit(Step::End(ended))?;
            }
        }
        visit(Step::Begin(slice))?;
        running.push(slice);
    }
    Ok(running)
}
