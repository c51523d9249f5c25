// SPDX-License-Identifier: Apache-2.0
//! When the process tries to connect again.

use std::time::Duration;

/// Attempts in a row: the last pause is 2 s, all together take 4 s.
const MOST: u32 = 12;
/// A connection that lasted so long was a good one.
const GOOD: Duration = Duration::from_secs(10);

/// How an attempt ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Attempt {
    /// There is no socket. A change of the folder will tell.
    NotThere,
    /// The process may not use the socket: not at all, or the service has just made it and opens it to others in a moment.
    Forbidden,
    /// Nobody accepts connections yet; nothing will tell when that changes.
    NotYet,
    /// The service, or this process, is too busy for a connection.
    Busy,
    /// The service does not want this process.
    Refused,
    /// The connection was lost after this time.
    Lost(Duration),
}

/// Attempts since something changed.
#[derive(Debug, Default)]
pub(super) struct Attempts(u32);

impl Attempts {
    /// The service's socket has changed, or somebody wants the service now.
    pub(super) fn renew(&mut self) {
        self.0 = 0;
    }

    /// The pause before the next attempt; `None`: until something changes.
    pub(super) fn after(&mut self, attempt: Attempt) -> Option<Duration> {
        match attempt {
            Attempt::NotThere | Attempt::Refused => return None,
            Attempt::Lost(lasted) if lasted >= GOOD => self.renew(),
            Attempt::Lost(_) | Attempt::NotYet | Attempt::Forbidden | Attempt::Busy => {}
        }
        let pause = Duration::from_millis(1 << self.0);
        let is_left = self.0 < MOST;
        self.0 = (self.0 + 1).min(MOST);
        is_left.then_some(pause)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attempts_become_rare_and_end() {
        let mut attempts = Attempts::default();
        let pauses: Vec<_> = (0..100)
            .map_while(|_| attempts.after(Attempt::NotYet))
            .collect();
        assert_eq!(pauses.len(), MOST as usize);
        assert!(pauses.windows(2).all(|w| w[1] == 2 * w[0]));
        assert!(pauses.iter().sum::<Duration>() < Duration::from_secs(5));
        assert_eq!(attempts.after(Attempt::NotYet), None);
        attempts.renew();
        assert_eq!(attempts.after(Attempt::NotYet), Some(pauses[0]));
    }

    #[test]
    fn a_service_that_always_hangs_up_is_left_alone_and_one_that_was_restarted_is_not() {
        let mut attempts = Attempts::default();
        let short = Attempt::Lost(Duration::from_secs(1));
        let tries = (0..100).map_while(|_| attempts.after(short)).count();
        assert_eq!(tries, MOST as usize);
        let long = Attempt::Lost(GOOD);
        assert!((0..100).all(|_| attempts.after(long) == Some(Duration::from_millis(1))));
    }

    #[test]
    fn what_a_change_of_the_folder_tells_is_waited_for() {
        let mut attempts = Attempts::default();
        assert_eq!(attempts.after(Attempt::NotThere), None);
        assert_eq!(attempts.after(Attempt::Refused), None);
    }

    #[test]
    fn a_socket_that_is_not_open_yet_is_tried_again() {
        let mut attempts = Attempts::default();
        let tries = (0..100).map_while(|_| attempts.after(Attempt::Forbidden));
        assert_eq!(tries.count(), MOST as usize);
    }
}
