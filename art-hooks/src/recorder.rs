// SPDX-License-Identifier: Apache-2.0
//! The plain C interface of `hindsight/runtime/recorder_abi.h`: called at every interpreted event, and
//! from the handler of SIGSEGV.
//!
//! Nothing here can panic, allocate or lock.

use hindsight_runtime::ThreadTrace;
use hindsight_trace_format::slot::Extension;

/// # Safety
/// `cursor` is the calling thread's cursor word and not 0, `state` what its state word holds.
#[no_mangle]
unsafe extern "C" fn hindsight_record_entry(
    cursor: *mut usize,
    state: *const ThreadTrace,
    method: u64,
) {
    // SAFETY: says the caller. A thread that is traced has a state.
    unsafe { (*state).record_entry(cursor, method) }
}

/// # Safety
/// As `hindsight_record_entry`.
#[no_mangle]
unsafe extern "C" fn hindsight_record_exit(cursor: *mut usize, state: *const ThreadTrace) {
    // SAFETY: as above.
    unsafe { (*state).record_exit(cursor) }
}

/// # Safety
/// As `hindsight_record_entry`.
#[no_mangle]
unsafe extern "C" fn hindsight_record_unwound(
    cursor: *mut usize,
    state: *const ThreadTrace,
    frames: u64,
) {
    // SAFETY: as above.
    unsafe { (*state).record_extension(cursor, Extension::Unwound, frames) }
}

/// # Safety
/// `state` is what the faulting thread's state word holds, and not null.
#[no_mangle]
unsafe extern "C" fn hindsight_wrap(
    state: *const ThreadTrace,
    fault_address: usize,
    cursor_register: usize,
    pc: usize,
) -> usize {
    // SAFETY: says the caller.
    let state = unsafe { &*state };
    // The address is looked at first: only a thread that stored to its own guard page has a PC whose
    // bytes are known to be readable.
    if !state.is_at_guard(fault_address, cursor_register) || !is_ring_store(pc) {
        return 0;
    }
    state.wrap(fault_address, cursor_register).unwrap_or(0)
}

/// Whether the instruction at `pc`, which has just been executed, is a store of a trace point.
fn is_ring_store(pc: usize) -> bool {
    #[cfg(target_arch = "x86_64")]
    {
        /// The longest store to a ring that the emitter produces, in bytes.
        const LONGEST: usize = hindsight_codegen_x86_64::MAX_STORE_BYTES;
        // An instruction may end with its page; what follows may not be readable.
        let readable = LONGEST.min(4096 - pc % 4096).max(1);
        // SAFETY: the processor has just fetched the instruction from here.
        let bytes = unsafe { std::slice::from_raw_parts(pc as *const u8, readable) };
        hindsight_codegen_x86_64::wraps_at(bytes)
    }
    #[cfg(not(target_arch = "x86_64"))]
    {
        let _ = pc;
        false
    }
}
