// SPDX-License-Identifier: Apache-2.0
//! When the device may be used for uploads.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

/// What has to be so.
const ALL: [&str; 3] = ["idle", "charging", "unmetered"];
/// Longer files are not read, bytes.
const MAX_BYTES: u64 = 4096;

/// Conditions that somebody else knows: a file with the lines `idle=1`, `charging=1` and `unmetered=1`. It is looked at before
/// each request, so that an upload stops soon after somebody takes the device into their hands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Conditions(Option<PathBuf>);

impl Conditions {
    /// Looks at this file.
    pub fn new(path: &Path) -> Self {
        Conditions(Some(path.to_owned()))
    }

    /// hindsightd alone knows when to send: it hands out nothing at other times, and is asked before each request.
    pub const fn of_the_service() -> Self {
        Conditions(None)
    }

    /// Whether hindsightd knows them.
    pub const fn are_of_the_service(&self) -> bool {
        self.0.is_none()
    }

    /// Whether all conditions are met. If the file is missing, or does not say so, they are not.
    pub fn are_met(&self) -> bool {
        let Some(path) = &self.0 else {
            return true;
        };
        let mut text = String::new();
        let read = File::open(path).and_then(|file| file.take(MAX_BYTES).read_to_string(&mut text));
        read.is_ok()
            && ALL.iter().all(|name| {
                let values = text.lines().filter_map(|line| line.split_once('='));
                let mut of_name = values.filter(|(key, _)| key.trim() == *name).peekable();
                of_name.peek().is_some() && of_name.all(|(_, value)| value.trim() == "1")
            })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conditions_are_met_only_if_all_are_said_to_be() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("conditions");
        let conditions = Conditions::new(&path);
        assert!(!conditions.are_met());
        for (text, are_met) in [
            ("idle=1\ncharging=1\nunmetered=1\n", true),
            ("unmetered = 1\nidle = 1\ncharging = 1\nother = 0", true),
            ("idle=1\ncharging=1\n", false),
            ("idle=0\ncharging=1\nunmetered=1\n", false),
            ("idle=1\nidle=0\ncharging=1\nunmetered=1\n", false),
            ("idle=10\ncharging=1\nunmetered=1\n", false),
            ("", false),
        ] {
            std::fs::write(&path, text).unwrap();
            assert_eq!(conditions.are_met(), are_met, "{text}");
        }
        std::fs::write(&path, [0xff; 10]).unwrap();
        assert!(!conditions.are_met());
    }
}
