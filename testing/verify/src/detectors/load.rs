// SPDX-License-Identifier: Apache-2.0
//! Threads that compute on one processor, beside the main thread of an app.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;
use std::thread::JoinHandle;

/// So many threads have the processor in turn with the app.
const THREADS: usize = 2;

/// Computes until it is dropped.
pub(super) struct Load {
    ends: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl Load {
    /// From now on the main thread of this process has one processor only, and shares it.
    pub(super) fn beside(pid: u32) -> io::Result<Self> {
        let processor = first_processor()?;
        pin(pid as libc::pid_t, processor)?;
        let ends = Arc::new(AtomicBool::new(false));
        let mut load = Load {
            ends: Arc::clone(&ends),
            threads: Vec::new(),
        };
        for _ in 0..THREADS {
            let ends = Arc::clone(&ends);
            let compute = move || {
                // If it fails, the case misses its detector, and says so.
                let _ = pin(0, processor);
                while !ends.load(Ordering::Relaxed) {
                    std::hint::spin_loop();
                }
            };
            load.threads
                .push(std::thread::Builder::new().spawn(compute)?);
        }
        Ok(load)
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        self.ends.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

/// The first processor that this process may use.
fn first_processor() -> io::Result<usize> {
    // SAFETY: all zeros is the empty set.
    let mut set: libc::cpu_set_t = unsafe { std::mem::zeroed() };
    // SAFETY: `set` is a valid place for the result, of this size.
    if unsafe { libc::sched_getaffinity(0, size_of_val(&set), &mut set) } != 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the number is below the size of the set.
    let mut all = (0..libc::CPU_SETSIZE as usize).filter(|n| unsafe { libc::CPU_ISSET(*n, &set) });
    all.next()
        .ok_or_else(|| io::Error::other("there is no processor"))
}

/// The thread (0: this one) has only this processor.
fn pin(tid: libc::pid_t, processor: usize) -> io::Result<()> {
    // SAFETY: all zeros is the empty set; the number is one that the system gave.
    let set = unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        libc::CPU_SET(processor, &mut set);
        set
    };
    // SAFETY: `set` is a valid set, of this size.
    match unsafe { libc::sched_setaffinity(tid, size_of_val(&set), &set) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}
