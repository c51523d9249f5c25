// SPDX-License-Identifier: Apache-2.0
mod mistakes;
mod reading;
mod signed;
mod who;

use super::*;

fn parse(lines: &str) -> Result<Policy, PolicyError> {
    Policy::parse(&format!("version = 1\n{lines}"))
}

fn person(user: UserType, region: &str, agreed: Option<Level>) -> Person {
    Person {
        user,
        region: region.into(),
        agreed,
        ..Person::default()
    }
}
