// SPDX-License-Identifier: Apache-2.0
//! Whether anything may leave now: an app of the system allows it for a time, while the device is idle, charging, and on a network
//! that costs nothing. Known in memory only, so that a service that starts anew allows nothing.

use std::ops::RangeInclusive;

/// For so many minutes somebody may allow it at a time.
const MINUTES: RangeInclusive<u32> = 1..=60;
/// So many clients are remembered: as many as can be connected. Clients that have gone are among them.
const MAX_WAITING: usize = 16;

/// A permission for a time, and the clients that wait for one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Permission {
    is_needed: bool,
    /// From when on, and until when, CLOCK_BOOTTIME, ns.
    given: Option<(u64, u64)>,
    waiting: Vec<u64>,
}

impl Permission {
    /// None is given. If none is needed, all may leave at any time.
    pub fn new(is_needed: bool) -> Self {
        Permission {
            is_needed,
            ..Permission::default()
        }
    }

    /// Anything may leave from now on, for so many minutes; the end of a permission before this one does not count. Returns the
    /// clients that waited, and their answer.
    ///
    /// # Errors
    /// If the time is too short or too long: then nothing changes.
    pub fn allow(&mut self, now_ns: u64, minutes: u32) -> Result<(Vec<u64>, String), String> {
        if !MINUTES.contains(&minutes) {
            let (least, most) = (MINUTES.start(), MINUTES.end());
            return Err(format!(
                "uploads cannot be allowed for {minutes} minutes: name {least} to {most}, and say it again before they are over"
            ));
        }
        let length_ns = u64::from(minutes) * 60_000_000_000;
        self.given = Some((now_ns, now_ns.saturating_add(length_ns)));
        Ok((std::mem::take(&mut self.waiting), line(now_ns)))
    }

    /// Nothing may leave from now on.
    pub fn stop(&mut self) {
        self.given = None;
    }

    /// Whether anything may leave now.
    pub fn is_given(&self, now_ns: u64) -> bool {
        !self.is_needed || self.left_ns(now_ns) > 0
    }

    fn left_ns(&self, now_ns: u64) -> u64 {
        self.given
            .map_or(0, |(_, until)| until.saturating_sub(now_ns))
    }

    /// A client waits for a permission that was given after this time, CLOCK_BOOTTIME, ns. Returns its answer if there is one.
    pub fn wait(
        &mut self,
        client: u64,
        after_ns: u64,
        now_ns: u64,
    ) -> Option<Result<Vec<String>, String>> {
        if !self.is_needed {
            let message = "this service was started without '--uploads-when allowed', so that nobody allows uploads";
            return Some(Err(message.to_owned()));
        }
        match self.given {
            Some((from, until)) if from > after_ns && now_ns < until => Some(Ok(vec![line(from)])),
            _ => {
                if self.waiting.len() >= MAX_WAITING {
                    self.waiting.remove(0);
                }
                self.waiting.push(client);
                None
            }
        }
    }

    /// For people.
    pub fn describe(&self, now_ns: u64) -> String {
        match (self.is_needed, self.left_ns(now_ns) / 1_000_000_000) {
            (false, _) => "uploads: need no permission".to_owned(),
            (true, 0) => "uploads: not allowed now".to_owned(),
            (true, left_s) => format!("uploads: allowed for {left_s} s"),
        }
    }
}

fn line(from_ns: u64) -> String {
    format!("allowed {from_ns}")
}

#[cfg(test)]
mod tests {
    use super::*;

    const MINUTE: u64 = 60_000_000_000;

    #[test]
    fn a_permission_ends_by_itself_or_at_once() {
        let mut permission = Permission::new(true);
        assert!(!permission.is_given(0) && !permission.is_given(u64::MAX));
        permission.allow(100, 10).unwrap();
        let end = 100 + 10 * MINUTE;
        for (now, is_given) in [
            (100, true),
            (end - 1, true),
            (end, false),
            (u64::MAX, false),
        ] {
            assert_eq!(permission.is_given(now), is_given, "{now}");
        }
        // The newest one counts, also if it is shorter.
        permission.allow(200, 1).unwrap();
        assert!(permission.is_given(200 + MINUTE - 1) && !permission.is_given(200 + MINUTE));
        permission.stop();
        assert!(!permission.is_given(200));
        for wrong in [0, 61, u32::MAX] {
            assert!(permission
                .allow(300, wrong)
                .unwrap_err()
                .contains("1 to 60"));
            assert!(!permission.is_given(300));
        }
        // A clock near its end.
        permission.allow(u64::MAX - 1, 60).unwrap();
        assert!(permission.is_given(u64::MAX - 1));
        assert!(Permission::new(false).is_given(5));
    }

    #[test]
    fn clients_hear_of_each_permission_once() {
        let mut permission = Permission::new(true);
        assert_eq!(permission.wait(1, 0, 50), None);
        let told = permission.allow(100, 10).unwrap();
        assert_eq!(told, (vec![1], "allowed 100".to_owned()));
        // It goes on: a client that comes now hears of it, one that has used it waits for the next one.
        let answer = Some(Ok(vec!["allowed 100".to_owned()]));
        assert_eq!(permission.wait(2, 0, 200), answer);
        assert_eq!(permission.wait(3, 100, 200), None);
        assert_eq!(permission.wait(4, 0, 100 + 10 * MINUTE), None);
        assert_eq!(permission.allow(300, 1).unwrap().0, [3, 4]);
        assert!(permission.allow(400, 1).unwrap().0.is_empty());
        permission.stop();
        // There is no end of clients that come and go.
        for client in 0..1000 {
            assert_eq!(permission.wait(client, 0, 500), None);
        }
        let (waited, _) = permission.allow(600, 1).unwrap();
        assert_eq!(waited, (984..1000).collect::<Vec<_>>());
        let refused = Permission::new(false).wait(1, 0, 0).unwrap();
        assert!(refused.unwrap_err().contains("'--uploads-when allowed'"));
    }
}
