// SPDX-License-Identifier: Apache-2.0
//! Closes descriptors that another process has sent, without waiting for it.
//!
//! Whoever serves a file system (FUSE) may answer never, or late, when a file of it is closed, and a socket may wait for its other end.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::{FromRawFd, IntoRawFd, OwnedFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The most descriptors of one user that are being closed; then no more are taken.
const MOST_OF_USER: u32 = 4;
/// The most of all.
const MOST: u32 = 64;
/// A thread only makes one system call.
const STACK_BYTES: usize = 64 << 10;

/// By user id: how many are being closed.
type Counts = BTreeMap<u32, u32>;

/// Descriptors of other processes that are being closed, each by a thread of its own.
#[derive(Debug, Default)]
pub struct Closer(Arc<Mutex<Counts>>);

fn locked(counts: &Mutex<Counts>) -> MutexGuard<'_, Counts> {
    // No code panics while it has the lock.
    counts.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Closer {
    /// Whether another descriptor of this user may be received: it could not be closed otherwise.
    pub fn may_receive(&self, uid: u32) -> bool {
        let counts = locked(&self.0);
        let of_user = counts.get(&uid).copied().unwrap_or(0);
        of_user < MOST_OF_USER && counts.values().sum::<u32>() < MOST
    }

    /// Closes the descriptor of this user. Does not wait.
    ///
    /// # Errors
    /// If the system has no thread left: the descriptor stays open, and counts for ever.
    pub fn close(&self, uid: u32, descriptor: OwnedFd) -> io::Result<()> {
        *locked(&self.0).entry(uid).or_default() += 1;
        // Without a thread it must not be closed here.
        let number = descriptor.into_raw_fd();
        let counts = Arc::clone(&self.0);
        let close = move || {
            // SAFETY: it is open, and nobody else has it: its owner was given up above.
            drop(unsafe { OwnedFd::from_raw_fd(number) });
            let mut counts = locked(&counts);
            if let Some(count) = counts.get_mut(&uid) {
                *count -= 1;
                if *count == 0 {
                    counts.remove(&uid);
                }
            }
        };
        let thread = std::thread::Builder::new()
            .name("hindsightd-close".to_owned())
            .stack_size(STACK_BYTES);
        thread.spawn(close).map(drop)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_more_are_taken_of_a_user_than_can_be_closed() {
        let closer = Closer::default();
        assert!(closer.may_receive(1));
        locked(&closer.0).insert(1, MOST_OF_USER);
        assert!(!closer.may_receive(1) && closer.may_receive(2));
        for uid in 2..MOST / MOST_OF_USER + 1 {
            assert!(closer.may_receive(uid));
            locked(&closer.0).insert(uid, MOST_OF_USER);
        }
        assert!(!closer.may_receive(u32::MAX));
    }

    #[test]
    fn what_is_closed_is_closed_and_counts_no_more() {
        let closer = Closer::default();
        for _ in 0..3 * MOST {
            while !closer.may_receive(7) {
                std::thread::yield_now();
            }
            let (ours, theirs) = std::os::unix::net::UnixStream::pair().unwrap();
            closer.close(7, theirs.into()).unwrap();
            // Its end is seen when it is closed.
            assert_eq!(io::Read::read(&mut &ours, &mut [0]).unwrap(), 0);
        }
        while !locked(&closer.0).is_empty() {
            std::thread::yield_now();
        }
    }
}
