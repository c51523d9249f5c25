// SPDX-License-Identifier: Apache-2.0
//! Which users may give which commands, by the kernel's account of the user id.

use super::Request;
use crate::consent::Whose;
use crate::policy::UIDS_OF_A_USER;

/// Users of Android that may give commands, beside root and the service's own user: `system` and `shell`.
const SYSTEM_UID: u32 = 1000;
const SHELL_UID: u32 = 2000;

/// What a client may ask for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rights {
    /// Everything that the socket serves.
    All,
    /// The choice about consent of this Android user only: Settings of a user other than the first one.
    OwnChoice(u32),
}

/// Whom a socket serves.
#[derive(Clone, Debug)]
pub(super) struct Served {
    allowed: Vec<u32>,
    has_choices: bool,
}

impl Served {
    /// Users who may give all commands, and Settings of each Android user for the choice of that user.
    pub(super) fn commands(own_uid: u32) -> Self {
        Served {
            allowed: vec![0, SYSTEM_UID, SHELL_UID, own_uid],
            has_choices: true,
        }
    }

    /// This user, and root.
    pub(super) fn only(uid: u32) -> Self {
        Served {
            allowed: vec![0, uid],
            has_choices: false,
        }
    }

    /// What this user may ask for; `None`: nothing, it is a stranger.
    pub(super) fn rights(&self, uid: u32) -> Option<Rights> {
        if self.allowed.contains(&uid) {
            return Some(Rights::All);
        }
        let is_settings = self.has_choices && uid % UIDS_OF_A_USER == SYSTEM_UID;
        is_settings.then_some(Rights::OwnChoice(uid / UIDS_OF_A_USER))
    }
}

impl Rights {
    /// Whether the client may ask for this.
    ///
    /// # Errors
    /// If it may not: why, for people.
    pub(super) fn check(self, request: &Request) -> Result<(), String> {
        let Rights::OwnChoice(user) = self else {
            return Ok(());
        };
        match request {
            Request::Choose {
                whose: Whose::User(of),
                ends_others: false,
                ..
            } if *of == user => Ok(()),
            _ => Err(format!(
                "a program of the Android user {user} may only choose for this user: 'consent set LEVEL user {user}' or 'consent withdraw user {user}'"
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::request::parse;
    use super::*;

    #[test]
    fn only_the_system_of_another_android_user_has_the_right_to_its_own_choice() {
        let commands = Served::commands(9999);
        for uid in [0, 1000, 2000, 9999] {
            assert_eq!(commands.rights(uid), Some(Rights::All), "{uid}");
        }
        assert_eq!(commands.rights(1_001_000), Some(Rights::OwnChoice(10)));
        for stranger in [
            1, 1001, 2001, 10_123, 1_000_000, 1_002_000, 1_009_999, 1_010_123, 101_001,
        ] {
            assert_eq!(commands.rights(stranger), None, "{stranger}");
        }
        let uploads = Served::only(1042);
        for stranger in [1000, 1_001_000, 1_001_042, 9999] {
            assert_eq!(uploads.rights(stranger), None, "{stranger}");
        }
        assert_eq!(uploads.rights(1042), Some(Rights::All));
    }

    #[test]
    fn that_right_is_for_no_other_command() {
        let own = Rights::OwnChoice(10);
        let check = |line: &str| own.check(&parse(line).unwrap());
        for line in ["consent set full user 10", "consent withdraw user 10"] {
            assert_eq!(check(line), Ok(()));
        }
        for line in [
            "consent set full",
            "consent set none user 0",
            "consent set full user 11",
            "consent withdraw",
            "consent withdraw user 11",
            "consent forget user 10",
            "consent show",
            "status",
            "dump",
            "reports",
            "get 1",
            "context 1",
            "preview 1",
            "remove 1",
            "watch 0",
            "policy -",
            "policy /x",
            "policy default",
            "policy show",
            "policy check -",
            "switch off",
            "record a 5",
            "record a end",
            "report a b",
            "uploads allow 5",
            "uploads stop",
        ] {
            assert!(check(line).unwrap_err().contains("user 10"), "{line}");
            assert_eq!(Rights::All.check(&parse(line).unwrap()), Ok(()));
        }
    }
}
