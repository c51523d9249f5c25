// SPDX-License-Identifier: Apache-2.0
//! The C interface of `hindsight/runtime/recorder_abi.h`: called at every interpreted event, and from the handler of
//! SIGSEGV.
//!
//! Nothing here panics, allocates or locks, except that with `protocol=lock-free` a thread that records may have to
//! give up its ring.

#[cfg(feature = "lab")]
use hindsight_runtime::ThreadWords;
use hindsight_runtime::TracedThread;

/// The call of the slow-path stubs (`cc/runtime/arch/`): an entry of `method`, or an exit if `method` is 0. Like the stubs
/// that record, keeps the low half of the address.
///
/// # Safety
/// `words` are the calling thread's, which runs managed code.
#[cfg(feature = "lab")]
#[no_mangle]
unsafe extern "C" fn hindsight_trace_point(words: *const ThreadWords, method: usize) {
    // SAFETY: the stub passes the address of the calling thread's words, which live as long as the thread.
    let state = unsafe { (*words).state() }.cast::<TracedThread>();
    if !state.is_null() {
        // SAFETY: a registered thread has a state until it exits, and the runtime removes the stubs from its words
        // before that.
        unsafe { (*state).trace_point(u64::from(method as u32)) }
    }
}

/// # Safety
/// `state` is the value of the calling thread's state word, whose cursor is not 0.
#[no_mangle]
unsafe extern "C" fn hindsight_record_entry(state: *const TracedThread, method: u64) {
    // SAFETY: ART's hooks pass the calling thread's own state; a thread whose cursor is not 0 has one.
    unsafe { (*state).record_entry(method) }
}

/// # Safety
/// As `hindsight_record_entry`.
#[no_mangle]
unsafe extern "C" fn hindsight_record_exit(state: *const TracedThread) {
    // SAFETY: ART's hooks pass the calling thread's own state; a thread whose cursor is not 0 has one.
    unsafe { (*state).record_exit() }
}

#[no_mangle]
extern "C" fn hindsight_has_unmarked_code() {
    hindsight_runtime::has_unmarked_code();
}

/// # Safety
/// `payload` points to `words` words, which live as long as the result; it may be null if there are none.
unsafe fn payload_of<'a>(payload: *const u64, words: usize) -> &'a [u64] {
    if words == 0 {
        return &[];
    }
    // SAFETY: the caller guarantees it.
    unsafe { std::slice::from_raw_parts(payload, words) }
}

/// # Safety
/// `state` is what the calling thread's state word holds, and not null; `payload` points to `words` words. The thread runs
/// managed code.
#[no_mangle]
unsafe extern "C" fn hindsight_record_event(
    state: *const TracedThread,
    number: u32,
    payload: *const u64,
    words: usize,
) {
    // SAFETY: ART's hooks pass an array of this length, which lives during the call.
    let payload = unsafe { payload_of(payload, words) };
    // SAFETY: ART's hooks pass the calling thread's own state, which the runtime frees after the thread's end.
    unsafe { (*state).record_event(number, payload) }
}

/// # Safety
/// As `hindsight_record_event`, but the thread may also be in native code, or in a wait.
#[no_mangle]
unsafe extern "C" fn hindsight_record_event_suspended(
    state: *const TracedThread,
    number: u32,
    payload: *const u64,
    words: usize,
) {
    // SAFETY: ART's hooks pass an array of this length, which lives during the call.
    let payload = unsafe { payload_of(payload, words) };
    // SAFETY: ART's hooks pass the calling thread's own state, which the runtime frees after the thread's end.
    unsafe { (*state).record_event_suspended(number, payload) }
}

/// # Safety
/// As `hindsight_record_event`.
#[no_mangle]
unsafe extern "C" fn hindsight_record_resources(
    state: *const TracedThread,
    objects: u64,
    bytes: u64,
) {
    // SAFETY: ART's hooks pass the calling thread's own state, which the runtime frees after the thread's end.
    unsafe { (*state).record_resources(objects, bytes) }
}

/// # Safety
/// `state` is what the calling thread's state word holds, and not null.
#[no_mangle]
unsafe extern "C" fn hindsight_is_at_guard(
    state: *const TracedThread,
    fault_address: usize,
) -> bool {
    // A slot does not cross a page, so the first byte of the guard page is the one that faults.
    // SAFETY: the fault handler passes the calling thread's own state, which the runtime frees after the thread's end.
    unsafe { (*state).is_at_guard(fault_address, fault_address) }
}

/// # Safety
/// The instruction at `pc` has just been executed.
#[no_mangle]
unsafe extern "C" fn hindsight_cursor_register(pc: usize) -> i32 {
    // SAFETY: the fault handler passes the address of the instruction that has faulted.
    let code = unsafe { code_at(pc, hindsight_codegen_thumb2::MAX_STORE_BYTES) };
    hindsight_codegen_thumb2::wraps_at(code).map_or(-1, |register| i32::from(register.number()))
}

/// # Safety
/// `state` is what the faulting thread's state word holds, and not null. `pc` is 0, or the instruction
/// there has just been executed.
#[no_mangle]
unsafe extern "C" fn hindsight_wrap(
    state: *const TracedThread,
    fault_address: usize,
    cursor_register: usize,
    pc: usize,
) -> usize {
    // SAFETY: the fault handler passes the calling thread's own state, which the runtime frees after the thread's end.
    let state = unsafe { &*state };
    if !state.is_at_guard(fault_address, cursor_register) {
        return 0;
    }
    // SAFETY: the fault handler passes 0 or the address of the instruction that has faulted.
    if pc != 0 && !unsafe { is_ring_store(pc) } {
        return 0;
    }
    state.wrap(fault_address, cursor_register).unwrap_or(0)
}

/// The code at `pc`: `longest` bytes, or fewer up to the end of the page, because the next page may not be readable.
///
/// # Safety
/// The instruction at `pc` has just been executed.
unsafe fn code_at<'a>(pc: usize, longest: usize) -> &'a [u8] {
    let readable = longest.min(4096 - pc % 4096).max(1);
    // SAFETY: the processor has just executed the instruction at `pc`, so its page is readable; the slice does not
    // leave the page.
    unsafe { std::slice::from_raw_parts(pc as *const u8, readable) }
}

/// Whether the instruction at `pc` is a store of a trace point.
///
/// # Safety
/// The instruction at `pc` has just been executed.
unsafe fn is_ring_store(pc: usize) -> bool {
    #[cfg(target_arch = "x86_64")]
    {
        use hindsight_codegen_x86_64::{wraps_at, MAX_STORE_BYTES};
        // SAFETY: the instruction at `pc` has just been executed, as `hindsight_wrap` requires.
        wraps_at(unsafe { code_at(pc, MAX_STORE_BYTES) })
    }
    #[cfg(target_arch = "aarch64")]
    {
        use hindsight_codegen_aarch64::{wraps_at, MAX_STORE_BYTES};
        // SAFETY: the instruction at `pc` has just been executed, as `hindsight_wrap` requires.
        wraps_at(unsafe { code_at(pc, MAX_STORE_BYTES) })
    }
    #[cfg(target_arch = "arm")]
    {
        // SAFETY: the instruction at `pc` has just been executed, as `hindsight_wrap` requires.
        unsafe { hindsight_cursor_register(pc) >= 0 }
    }
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64", target_arch = "arm")))]
    {
        let _ = pc;
        false
    }
}
