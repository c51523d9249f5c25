// SPDX-License-Identifier: Apache-2.0

use proptest::prelude::*;

use super::*;
use crate::policy::{ConsentRules, UserType};

fn choice(level: Level) -> Choice {
    Choice {
        level,
        by: 1000,
        at_s: 5,
    }
}

fn person(user: UserType) -> Person {
    Person {
        user,
        region: "DE".into(),
        ..Person::default()
    }
}

#[test]
fn choices_are_read_as_they_were_saved() {
    let choices = Choices::default()
        .with(Whose::User(10), choice(Level::Full))
        .and_then(|c| c.with(Whose::Device, choice(Level::Summary)))
        .unwrap();
    for choices in [choices, Choices::default(), Choices::lost()] {
        assert_eq!(Choices::from_toml(&choices.to_toml()), Ok(choices.clone()));
        let json: serde_json::Value = serde_json::from_str(&choices.to_json()).unwrap();
        assert_eq!(json["are_lost"], choices.are_lost);
    }
}

#[test]
fn texts_that_are_no_choices_are_refused() {
    let device = "version = 1\n[device]\nlevel = \"full\"\nby = 0\nat_s = 0\n";
    assert!(Choices::from_toml(device).is_ok());
    for wrong in [
        "",
        "version = 2\n",
        "version = 1\nnew = 1\n",
        "version = 1\n[device]\nlevel = \"all\"\nby = 0\nat_s = 0\n",
        "version = 1\n[device]\nlevel = \"full\"\n",
        "version = 1\n[users.x]\nlevel = \"full\"\nby = 0\nat_s = 0\n",
        "version = 1\n[users.42949]\nlevel = \"full\"\nby = 0\nat_s = 0\n",
        "\u{0}",
    ] {
        assert!(Choices::from_toml(wrong).is_err(), "{wrong}");
    }
}

#[test]
fn lost_choices_allow_nothing_to_anybody_until_somebody_chooses() {
    let rules = ConsentRules::default();
    for user in UserType::ALL {
        let base = Person {
            agreed: Some(Level::Full),
            agreed_by_user: [(10, Level::Full)].into(),
            ..person(user)
        };
        let lost = Choices::lost();
        for uid in [10_001, 1_010_001] {
            assert_eq!(rules.level(&lost.person(&base), uid), Level::None);
        }
        let of_one = lost.with(Whose::User(10), choice(Level::Summary)).unwrap();
        assert_eq!(rules.level(&of_one.person(&base), 10_001), Level::None);
        assert_eq!(
            rules.level(&of_one.person(&base), 1_010_001),
            Level::Summary
        );
        let chosen = of_one.with(Whose::Device, choice(Level::Full)).unwrap();
        assert_eq!(rules.level(&chosen.person(&base), 10_001), Level::Full);
    }
}

#[test]
fn too_many_users_and_impossible_ones_are_refused() {
    let mut choices = Choices::default();
    for user in 0..MAX_USERS as u32 {
        choices = choices
            .with(Whose::User(user), choice(Level::Full))
            .unwrap();
    }
    let one_more = choices.with(Whose::User(4000), choice(Level::Full));
    assert!(one_more.unwrap_err().contains("consent withdraw"));
    let impossible = choices.with(Whose::User(USERS_END), choice(Level::None));
    assert!(impossible.unwrap_err().contains("no Android user"));
}

fn some_choices() -> impl Strategy<Value = Choices> {
    let level = || prop::sample::select(Level::ALL.to_vec()).prop_map(choice);
    let users = prop::collection::btree_map(0..3_u32, level(), 0..3);
    (prop::option::of(level()), users).prop_map(|(device, users)| Choices {
        device,
        users,
        are_lost: false,
    })
}

proptest! {
    /// Before a choice is saved, nothing more is allowed than was before.
    #[test]
    fn choices_that_are_not_saved_raise_no_level(old in some_choices(), new in some_choices(), kind in 0..3_usize) {
        let rules = ConsentRules::default();
        let base = person(UserType::ALL[kind]);
        let lowered = old.lowered_to(&new).person(&base);
        let old = old.person(&base);
        for uid in [10_001, 110_001, 210_001, 310_001] {
            prop_assert!(rules.level(&lowered, uid) <= rules.level(&old, uid));
        }
    }

    /// A withdrawal holds at once, for everybody.
    #[test]
    fn a_withdrawal_holds_before_it_is_saved(old in some_choices(), kind in 0..3_usize) {
        let rules = ConsentRules::default();
        let base = person(UserType::ALL[kind]);
        let new = Choices::withdrawn(choice(Level::None));
        let lowered = old.lowered_to(&new).person(&base);
        for uid in [10_001, 110_001, 210_001, 310_001] {
            prop_assert_eq!(rules.level(&lowered, uid), Level::None);
        }
    }
}

#[test]
fn a_user_who_is_forgotten_has_nothing_until_that_is_saved_and_then_the_devices_level() {
    let rules = ConsentRules::default();
    let base = person(UserType::EndUser);
    let level = |choices: &Choices, uid| rules.level(&choices.person(&base), uid);
    for own in [Level::None, Level::Summary, Level::Full] {
        let old = Choices::default()
            .with(Whose::Device, choice(Level::Full))
            .and_then(|c| c.with(Whose::User(10), choice(own)))
            .unwrap();
        let change = Change::Forget {
            user: 10,
            until_then: choice(Level::Full),
        };
        let new = old.changed(&change).unwrap();
        let meanwhile = old.until_saved(&new, &change);
        let of = |choices: &Choices| [level(choices, 1_010_001), level(choices, 10_001)];
        assert_eq!(of(&meanwhile), [Level::None, Level::Full]);
        assert_eq!(of(&new), [Level::Full, Level::Full]);
    }
}
