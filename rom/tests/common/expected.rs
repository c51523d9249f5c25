// SPDX-License-Identifier: Apache-2.0
//! What a policy has to give and to deny, in every build.

#![allow(dead_code, reason = "each test program uses a part of it")]

use super::policy::{permissions, Build, Question, RELEASES};

/// Source, target, class and permission.
pub(crate) type Asked<'a> = (&'a str, &'a str, &'static str, &'static str);

/// Permissions that a policy has to give, or to deny. All are asked at once, as each answer takes a compilation.
#[derive(Default)]
pub(crate) struct Expected(Vec<(String, String, &'static str, &'static str, bool)>);

impl Expected {
    pub(crate) fn given(&mut self, asked: &[Asked<'_>], is_given: bool) {
        self.0
            .extend(asked.iter().map(|(source, target, class, permission)| {
                (
                    source.to_string(),
                    target.to_string(),
                    *class,
                    *permission,
                    is_given,
                )
            }));
    }

    pub(crate) fn check(&self, build: Build) {
        let questions: Vec<Question> = self
            .0
            .iter()
            .map(|(source, target, class, _, _)| Question::new(source, target, class))
            .collect();
        let answers = permissions(build, &questions);
        let wrong: Vec<_> = self
            .0
            .iter()
            .zip(answers)
            .filter(|(asked, all)| all.iter().any(|name| name == asked.3) != asked.4)
            .map(|(asked, _)| asked)
            .collect();
        assert!(wrong.is_empty(), "{build:?} decides otherwise: {wrong:?}");
    }
}

/// Every build of every release that a device gets.
pub(crate) fn shipped() -> impl Iterator<Item = Build> {
    RELEASES
        .into_iter()
        .flat_map(|release| ["user", "userdebug"].map(|variant| Build::new(release, variant)))
}
