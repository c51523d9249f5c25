// SPDX-License-Identifier: Apache-2.0
//! A process whose name is not known yet: a zygote's child that has not become an app.

use super::consent::{Level, Person};
use super::model::{Override, Policy, Recording};

impl Policy {
    /// Parts that name an app, and may be about a process of this user id.
    fn of_apps(&self, uid: u32) -> impl Iterator<Item = &Override> {
        let overrides = self.record.overrides().iter();
        overrides.filter(move |o| o.of.may_be(uid) && o.of.package.is_some())
    }

    /// The highest level of files about a process with this user id that has no name of its own: the lowest of all apps that it could
    /// be.
    pub fn level_unnamed(&self, person: &Person, uid: u32) -> Level {
        let levels = self.of_apps(uid).filter_map(|o| o.consent);
        levels.fold(self.level(person, uid, ""), Level::min)
    }

    /// How a process with this user id is recorded while any part of the policy that names an app may be about it: of all names
    /// that it could have, as the one with the least. So nothing of an app is kept that a part about it forbids.
    pub fn recording_unnamed(&self, person: &Person, uid: u32) -> Recording {
        let mut least = self.recording(person, uid, "");
        least.level = least.level.min(self.level_unnamed(person, uid));
        let is_off = self.of_apps(uid).any(|o| o.enabled == Some(false));
        if is_off || least.level == Level::None {
            return Recording::default();
        }
        for exception in self.of_apps(uid) {
            least.categories &= exception.categories.unwrap_or(u32::MAX);
            least.rings = least.rings.min(exception.rings.unwrap_or(u32::MAX));
            least.background &= exception.background.unwrap_or(true);
        }
        least
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hindsight_trace_format::catalogue::Category;

    use crate::policy::UserType;

    fn unnamed(lines: &str) -> Recording {
        let policy = Policy::parse(&format!("version = 1\n{lines}")).unwrap();
        let person = Person {
            user: UserType::Internal,
            agreed: Some(Level::Full),
            ..Person::default()
        };
        policy.recording_unnamed(&person, 10_001)
    }

    #[test]
    fn it_is_recorded_as_the_app_with_the_least() {
        let plain = unnamed("");
        assert_eq!((plain.level, plain.rings), (Level::Full, 1));
        let of = |lines: &str| unnamed(&format!("[[record.override]]\n{lines}"));
        for (lines, level, rings) in [
            (
                "package = \"com.example.a\"\nenabled = false",
                Level::None,
                0,
            ),
            (
                "package = \"com.example.a\"\nconsent = \"signatures\"",
                Level::Signatures,
                1,
            ),
            ("package = \"com.example.a\"\nrings = 0", Level::Full, 0),
            // Another user's app, and a part about a user id, which the kernel tells.
            (
                "package = \"com.example.a\"\nuid = 10002\nenabled = false",
                Level::Full,
                1,
            ),
            (
                "package = \"com.example.a\"\napp-id = 10002\nenabled = false",
                Level::Full,
                1,
            ),
            (
                "uid = 10001\nconsent = \"signatures\"",
                Level::Signatures,
                1,
            ),
            // More than for others: it may be any app.
            ("package = \"com.example.a\"\nrings = 3", Level::Full, 1),
        ] {
            let recording = of(lines);
            assert_eq!(
                (recording.level, recording.rings),
                (level, rings),
                "{lines}"
            );
        }
    }

    #[test]
    fn what_no_app_is_given_it_has_neither() {
        let both = "[[record.override]]\npackage = \"com.example.a\"\ncategories = [\"waits\"]\n\
                    [[record.override]]\npackage = \"com.example.b\"\ncategories = [\"tasks\"]";
        let always = Category::Recording.bit();
        assert_eq!(unnamed(both).categories & !always, 0);
    }
}
