// SPDX-License-Identifier: Apache-2.0
//! The C interface of `hindsight/runtime/stack_sample_abi.h`: called where a thread may take its own stack.
//!
//! Nothing here panics or locks. A thread's first stack allocates the memory for its frames.

use hindsight_runtime::stacks::{Frame, Spacing, MAX_FRAMES};
use hindsight_runtime::TracedThread;

/// `HINDSIGHT_STACK_IF_DUE`.
const STACK_IF_DUE: u32 = 0;
/// `HINDSIGHT_STACK_OF_WAKE`.
const STACK_OF_WAKE: u32 = 1;
/// `HINDSIGHT_NO_REASON`.
const NO_REASON: u32 = u32::MAX;

// As the header says.
const _: () = assert!(MAX_FRAMES == 256 && size_of::<Frame>() == 16);

/// # Safety
/// `state` is what the calling thread's state word holds, and not null.
#[no_mangle]
unsafe extern "C" fn hindsight_begin_stack(state: *const TracedThread, how: u32) -> *mut Frame {
    let spacing = match how {
        STACK_IF_DUE => Spacing::Interval,
        STACK_OF_WAKE => Spacing::Eighth,
        _ => Spacing::None,
    };
    // SAFETY: ART's hook passes the calling thread's own state, which the runtime frees after the thread's end.
    unsafe { (*state).begin_stack(spacing) }
}

/// # Safety
/// As `hindsight_begin_stack`; the thread runs managed code.
#[no_mangle]
unsafe extern "C" fn hindsight_end_stack(
    state: *const TracedThread,
    reason: u32,
    count: u32,
    cut: u32,
) {
    // A number beyond the reasons that exist is refused.
    let reason = u8::try_from(reason).unwrap_or(u8::MAX);
    // SAFETY: ART's hook passes the calling thread's own state, which the runtime frees after the thread's end.
    unsafe { (*state).end_stack(reason, count as usize, cut != 0) }
}

/// # Safety
/// As `hindsight_stack_asked_for`.
#[no_mangle]
unsafe extern "C" fn hindsight_stack_request_done(state: *const TracedThread) {
    // SAFETY: ART's checkpoint runs on the thread itself, or while it is suspended; the runtime frees the state after the
    // thread's end.
    unsafe { (*state).stack_request_done() }
}

/// # Safety
/// `state` is what the calling thread's state word holds, and not null. Without `force` the thread is Runnable.
#[no_mangle]
unsafe extern "C" fn hindsight_ask_for_stack(
    state: *const TracedThread,
    reason: u32,
    force: u32,
) -> u32 {
    // A number beyond the reasons that exist is refused when the stack is taken.
    let reason = u8::try_from(reason).unwrap_or(u8::MAX);
    // SAFETY: ART's hook passes the calling thread's own state, which the runtime frees after the thread's end.
    u32::from(unsafe { (*state).ask_for_stack(reason, force != 0) })
}

/// # Safety
/// As `hindsight_begin_stack`.
#[no_mangle]
unsafe extern "C" fn hindsight_stack_is_coming(state: *const TracedThread) {
    // SAFETY: ART's hook passes the calling thread's own state, which the runtime frees after the thread's end.
    unsafe { (*state).stack_is_coming() }
}

/// # Safety
/// `state` is what a thread's state word holds, and not null. The thread is the caller, or is suspended and does not end.
#[no_mangle]
unsafe extern "C" fn hindsight_stack_asked_for(state: *const TracedThread) -> u32 {
    // SAFETY: ART's checkpoint runs on the thread itself, or while it is suspended; the runtime frees the state after the
    // thread's end.
    unsafe { (*state).stack_asked_for() }.map_or(NO_REASON, u32::from)
}
