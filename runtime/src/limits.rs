// SPDX-License-Identifier: Apache-2.0
//! Limits for what one process writes, and for how often it may fail.

use std::time::Duration;

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// The limits of one process. Each applies to the snapshots of all processes of this name and user in the folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// `max-files=N|off`: the most snapshots that are kept; the oldest are removed.
    pub files: Option<u32>,
    /// `max-mib=N|off`: the most bytes of all snapshots that are kept.
    pub bytes: Option<u64>,
    /// `max-days=N|off`: older snapshots are removed at a start of the process and at the next snapshot.
    pub age: Option<Duration>,
    /// `min-free-mib=N|off`: bytes of the file system that stay free.
    pub free: Option<u64>,
    /// `snapshot-interval=S|off`: the least average distance of snapshots that the program triggers.
    pub interval: Option<Duration>,
    /// `max-failed-starts=N|off`: after this many starts in a row that failed, the process is not traced.
    pub failed_starts: Option<u32>,
}

impl Default for Limits {
    /// A phone's limits would be in the way of tests and of measurements: elsewhere the default is none.
    fn default() -> Self {
        if cfg!(target_os = "android") {
            Self::PHONE
        } else {
            Self::NONE
        }
    }
}

impl Limits {
    const PHONE: Limits = Limits {
        files: Some(100),
        bytes: Some(512 << 20),
        age: Some(Duration::from_secs(7 * DAY.as_secs())),
        free: Some(256 << 20),
        interval: Some(Duration::from_secs(60)),
        failed_starts: Some(3),
    };

    pub(crate) const NONE: Limits = Limits {
        files: None,
        bytes: None,
        age: None,
        free: None,
        interval: None,
        failed_starts: None,
    };

    /// Sets the limit with this key. `Ok(false)`: there is none.
    ///
    /// # Errors
    /// The key, and the values that it takes.
    pub(crate) fn set(&mut self, key: &str, value: &str) -> Result<bool, (&'static str, String)> {
        match key {
            "max-files" => self.files = number("max-files", value, 10_000)?,
            "max-mib" => self.bytes = number("max-mib", value, 1 << 20)?.map(mib),
            "max-days" => self.age = number("max-days", value, 3650)?.map(|days| DAY * days),
            "min-free-mib" => self.free = number("min-free-mib", value, 1 << 20)?.map(mib),
            "snapshot-interval" => {
                let seconds = number("snapshot-interval", value, 86_400)?;
                self.interval = seconds.map(|s| Duration::from_secs(s.into()));
            }
            "max-failed-starts" => self.failed_starts = number("max-failed-starts", value, 100)?,
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// The keys that [`set`](Self::set) knows.
    pub(crate) const KEYS: &'static str =
        "max-files, max-mib, max-days, min-free-mib, snapshot-interval, max-failed-starts";
}

fn mib(n: u32) -> u64 {
    u64::from(n) << 20
}

/// A number from 1 to `max`; `None` is `off`.
fn number(key: &'static str, value: &str, max: u32) -> Result<Option<u32>, (&'static str, String)> {
    let number = value.parse().ok().filter(|n| (1..=max).contains(n));
    match (value, number) {
        ("off", _) => Ok(None),
        (_, Some(n)) => Ok(Some(n)),
        _ => Err((key, format!("1 to {max}, or off"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_limit_is_a_number_or_off() {
        let mut limits = Limits::default();
        for (key, value) in [
            ("max-files", "3"),
            ("max-mib", "4"),
            ("max-days", "5"),
            ("min-free-mib", "6"),
            ("snapshot-interval", "7"),
            ("max-failed-starts", "8"),
        ] {
            assert_eq!(limits.set(key, value), Ok(true));
            for wrong in ["", "0", "-1", "1.5", "99999999", "unlimited"] {
                assert_eq!(limits.set(key, wrong).unwrap_err().0, key);
            }
            assert!(Limits::KEYS.contains(key));
        }
        let expected = Limits {
            files: Some(3),
            bytes: Some(4 << 20),
            age: Some(5 * DAY),
            free: Some(6 << 20),
            interval: Some(Duration::from_secs(7)),
            failed_starts: Some(8),
        };
        assert_eq!(limits, expected);
        assert_eq!(limits.set("max-mib", "off"), Ok(true));
        assert_eq!(limits.bytes, None);
        assert_eq!(limits.set("max-rings", "1"), Ok(false));
    }
}
