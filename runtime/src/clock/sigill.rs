// SPDX-License-Identifier: Apache-2.0
//! A handler of SIGILL for reads of ARM's counter, which chains to the handler that was there before.

use std::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};

/// Completes the instruction at the program counter of a signal handler's context, if it is one that it knows, and
/// returns whether it did. Async-signal-safe.
pub(crate) type Complete = unsafe fn(context: *mut libc::c_void) -> bool;

/// The action that was there before; never freed, since a handler may be using it.
static PREVIOUS: AtomicPtr<libc::sigaction> = AtomicPtr::new(std::ptr::null_mut());
/// The [`Complete`] of the installed handler; 0 without one.
static COMPLETE: AtomicUsize = AtomicUsize::new(0);

/// Installs the handler. If it is installed already, only exchanges its function.
///
/// # Errors
/// If `sigaction` fails.
pub(crate) fn install(complete: Complete) -> std::io::Result<()> {
    if COMPLETE.swap(complete as usize, Ordering::AcqRel) != 0 {
        return Ok(());
    }
    let handler: unsafe extern "C" fn(libc::c_int, *mut libc::siginfo_t, *mut libc::c_void) =
        on_sigill;
    // SAFETY: all zeros is a valid sigaction. PREVIOUS is stored before the handler, which reads it, can be called.
    let failed = unsafe {
        let mut previous: libc::sigaction = std::mem::zeroed();
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = handler as usize;
        // SA_ONSTACK is ignored on threads without an alternate stack, which managed threads may be.
        action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK | libc::SA_RESTART;
        libc::sigemptyset(&mut action.sa_mask);
        libc::sigaction(libc::SIGILL, std::ptr::null(), &mut previous) != 0 || {
            PREVIOUS.store(Box::into_raw(Box::new(previous)), Ordering::Release);
            libc::sigaction(libc::SIGILL, &action, std::ptr::null_mut()) != 0
        }
    };
    if failed {
        COMPLETE.store(0, Ordering::Release);
        return Err(std::io::Error::last_os_error());
    }
    Ok(())
}

/// Restores the action that was there before [`install`].
pub(crate) fn uninstall() {
    if COMPLETE.swap(0, Ordering::AcqRel) != 0 {
        let previous = PREVIOUS.load(Ordering::Acquire);
        // SAFETY: an action that sigaction returned.
        unsafe { libc::sigaction(libc::SIGILL, previous, std::ptr::null_mut()) };
    }
}

unsafe extern "C" fn on_sigill(
    signal: libc::c_int,
    info: *mut libc::siginfo_t,
    context: *mut libc::c_void,
) {
    let complete = COMPLETE.load(Ordering::Acquire);
    if complete != 0 {
        // SAFETY: only `install` stores other values than 0, and they are of this type.
        let complete = unsafe { std::mem::transmute::<usize, Complete>(complete) };
        // SAFETY: the context is the one that the kernel passes to a handler.
        if unsafe { complete(context) } {
            return;
        }
    }
    // SAFETY: the kernel passes a valid siginfo and context to a handler, and `install` never frees the previous action.
    unsafe {
        chain(
            PREVIOUS.load(Ordering::Acquire).as_ref(),
            signal,
            info,
            context,
        )
    }
}

/// Acts as the kernel would have acted with the previous action.
///
/// # Safety
/// Called by a signal handler, with its arguments.
unsafe fn chain(
    previous: Option<&libc::sigaction>,
    signal: libc::c_int,
    info: *mut libc::siginfo_t,
    context: *mut libc::c_void,
) {
    match previous {
        Some(previous)
            if previous.sa_sigaction != libc::SIG_DFL && previous.sa_sigaction != libc::SIG_IGN =>
        {
            // SAFETY: sigaction returned this handler; its flags tell its type.
            unsafe {
                if previous.sa_flags & libc::SA_SIGINFO != 0 {
                    let handler: unsafe extern "C" fn(
                        libc::c_int,
                        *mut libc::siginfo_t,
                        *mut libc::c_void,
                    ) = std::mem::transmute(previous.sa_sigaction);
                    handler(signal, info, context);
                } else {
                    let handler: unsafe extern "C" fn(libc::c_int) =
                        std::mem::transmute(previous.sa_sigaction);
                    handler(signal);
                }
            }
        }
        // The instruction is executed again, and ends the process as it would have without this handler. The kernel does
        // not let a process ignore SIGILL either.
        _ => {
            // SAFETY: sets the default action.
            unsafe {
                let mut default: libc::sigaction = std::mem::zeroed();
                default.sa_sigaction = libc::SIG_DFL;
                libc::sigaction(signal, &default, std::ptr::null_mut());
            }
        }
    }
}
