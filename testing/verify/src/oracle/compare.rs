// SPDX-License-Identifier: Apache-2.0
//! The first difference between two sequences of entries and exits, and the permitted ones before it.

use std::collections::BTreeMap;

use super::sequences::{Name, Step};

/// The place of a difference.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Difference {
    /// Index in the reference, and in the recording.
    pub(super) at: (usize, usize),
}

/// The number of calls of each method that are in the reference only, and in the recording only.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Permitted {
    pub(super) missing: BTreeMap<Name, u64>,
    pub(super) additional: BTreeMap<Name, u64>,
}

/// Knowledge of the code that runs in a frame, for [`Rules::missing`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Code {
    /// None.
    Unknown,
    /// The compiler has code of its own for it, which may lack the calls of the dex code.
    Replaced,
    /// A number that the rules give it.
    Body(u32),
}

/// Whether a call may be in the reference only.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Missing {
    /// No.
    No,
    /// Yes, and this is the code that ran in its place.
    May(Code),
    /// Probably, and this is the code that ran in its place.
    Likely(Code),
    /// It must be: this is the code that ran, and a call in both is a difference.
    Must(Code),
}

/// The permitted differences.
pub(super) trait Rules {
    /// The code of a recorded call.
    fn code(&self, name: Name) -> Code;
    /// Whether a call of a method by such code may be in the reference only.
    fn missing(&self, name: Name, caller: Code) -> Missing;
    /// Whether calls inside of a call of the method may be in the recording only.
    fn adds(&self, inside: Name) -> bool;
    /// Whether a call of the first method may be in the recording only, inside of a call of the second.
    fn may_add(&self, name: Name, inside: Name) -> bool;
    /// Whether a method of the reference may have another name in the recording.
    fn alias(&self, name: Name, recorded: Name) -> bool;
}

/// Search budget of all tries together: 3 × steps + this.
const BUDGET: usize = 10_000_000;

/// The sequences that have a frame.
#[derive(Clone, Copy, PartialEq, Eq)]
enum In {
    Both,
    Reference,
    Recording,
}

struct Frame {
    /// Index of its caller, or [`NONE`].
    caller: usize,
    /// Its name in the reference, if it is there.
    name: Name,
    /// Its name in the recording.
    recorded_name: Name,
    is_in: In,
    code: Code,
    /// Index of the innermost frame, from this one outwards, whose calls may be in the recording only.
    adder: usize,
}

const NONE: usize = usize::MAX;

/// Adds a frame, and returns its index.
fn push(
    rules: &dyn Rules,
    frames: &mut Vec<Frame>,
    caller: usize,
    (name, recorded_name): (Name, Name),
    is_in: In,
    code: Code,
) -> usize {
    let index = frames.len();
    let adder = if rules.adds(name) {
        index
    } else {
        frames.get(caller).map_or(NONE, |frame| frame.adder)
    };
    frames.push(Frame {
        caller,
        name,
        recorded_name,
        is_in,
        code,
        adder,
    });
    index
}

/// Whether a call of `name` may be in the recording only, with `top` the innermost frame.
fn may_add(rules: &dyn Rules, frames: &[Frame], top: usize, name: Name) -> bool {
    let mut next = frames.get(top);
    while let Some(frame) = next.and_then(|frame| frames.get(frame.adder)) {
        if rules.may_add(name, frame.name) {
            return true;
        }
        next = frames.get(frame.caller);
    }
    false
}

/// The possible meanings of the next steps, the likeliest first.
fn ways(
    rules: &dyn Rules,
    frames: &[Frame],
    top: usize,
    expected: Option<Step>,
    found: Option<Step>,
) -> [Option<Way>; 4] {
    let leave = frames.get(top).is_some_and(|frame| {
        (frame.is_in == In::Recording || expected == Some(Step::Exit(frame.name)))
            && (frame.is_in == In::Reference || found == Some(Step::Exit(frame.recorded_name)))
    });
    let leave = leave.then_some(Way::Leave);
    let (mut matches, mut miss, mut likely, mut must) = (None, None, false, false);
    if let Some(Step::Enter(name)) = expected {
        let caller = frames.get(top).map_or(Code::Unknown, |frame| frame.code);
        miss = match rules.missing(name, caller) {
            Missing::No => None,
            Missing::May(code) => Some(Way::Miss(code)),
            Missing::Likely(code) => {
                likely = true;
                Some(Way::Miss(code))
            }
            Missing::Must(code) => {
                must = true;
                Some(Way::Miss(code))
            }
        };
        matches = match found {
            _ if must => None,
            Some(Step::Enter(its)) if name == its || rules.alias(name, its) => Some(Way::Match),
            _ => None,
        };
    }
    let add = match found {
        Some(Step::Enter(its)) if may_add(rules, frames, top, its) => Some(Way::Add),
        _ => None,
    };
    if likely {
        [leave, miss, matches, add]
    } else {
        [leave, matches, miss, add]
    }
}

/// A meaning of the next steps.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Way {
    /// An exit of the innermost frame, in both.
    Leave,
    /// A call in both.
    Match,
    /// A call in the reference only.
    Miss(Code),
    /// A call in the recording only.
    Add,
}

/// A choice with the alternatives that are left, and its place.
struct Choice {
    at: usize,
    other: usize,
    top: usize,
    frames: usize,
    way: Way,
}

/// Compares a recording with the reference. Where the rules permit a call in one of them only, its callees must
/// still be in both.
///
/// A recorded call is matched with the first possible one of the reference, unless that one is likely to be
/// missing. After a difference, the newest such choices are tried the other way.
pub(super) fn compare(
    reference: &[Step],
    recorded: &[Step],
    rules: &dyn Rules,
) -> Result<Permitted, Difference> {
    compare_until(reference, recorded, rules, false)
}

/// The same for sequences that may be cut off: where one ends, the other may continue.
pub(super) fn compare_beginnings(
    reference: &[Step],
    recorded: &[Step],
    rules: &dyn Rules,
) -> Result<Permitted, Difference> {
    compare_until(reference, recorded, rules, true)
}

fn compare_until(
    reference: &[Step],
    recorded: &[Step],
    rules: &dyn Rules,
    cut: bool,
) -> Result<Permitted, Difference> {
    let mut frames: Vec<Frame> = Vec::new();
    let mut choices: Vec<Choice> = Vec::new();
    let mut furthest = (0, 0);
    let (mut at, mut other, mut top) = (0, 0, NONE);
    let mut budget = BUDGET + 3 * (reference.len() + recorded.len());
    let mut forced = None;
    loop {
        let ends = (at == reference.len(), other == recorded.len());
        if ends == (true, true) || cut && (ends.0 || ends.1) {
            break;
        }
        budget = budget.saturating_sub(1);
        let expected = reference.get(at).copied();
        let found = recorded.get(other).copied();
        let way = forced.take().or_else(|| {
            let ways = ways(rules, &frames, top, expected, found);
            let mut possible = ways.into_iter().flatten();
            let first = possible.next();
            // The next alternative.
            for way in possible.rev() {
                choices.push(Choice {
                    at,
                    other,
                    top,
                    frames: frames.len(),
                    way,
                });
            }
            first
        });
        let fits = match (way, expected, found) {
            (Some(Way::Match), Some(Step::Enter(name)), Some(Step::Enter(its))) => {
                let (is_in, code) = (In::Both, rules.code(its));
                top = push(rules, &mut frames, top, (name, its), is_in, code);
                (at, other) = (at + 1, other + 1);
                true
            }
            (Some(Way::Add), _, Some(Step::Enter(its))) => {
                let (is_in, code) = (In::Recording, rules.code(its));
                top = push(rules, &mut frames, top, (its, its), is_in, code);
                other += 1;
                true
            }
            (Some(Way::Miss(code)), Some(Step::Enter(name)), _) => {
                top = push(rules, &mut frames, top, (name, name), In::Reference, code);
                at += 1;
                true
            }
            (Some(Way::Leave), ..) => {
                let frame = &frames[top];
                at += usize::from(frame.is_in != In::Recording);
                other += usize::from(frame.is_in != In::Reference);
                top = frame.caller;
                true
            }
            _ => false,
        };
        if fits {
            continue;
        }
        // The length of the explained part of the recording.
        if (other, at) > (furthest.1, furthest.0) {
            furthest = (at, other);
        }
        let choice = if budget > 0 { choices.pop() } else { None };
        let Some(choice) = choice else {
            return Err(Difference { at: furthest });
        };
        (at, other, top) = (choice.at, choice.other, choice.top);
        frames.truncate(choice.frames);
        forced = Some(choice.way);
    }
    let mut permitted = Permitted::default();
    for frame in &frames {
        let counts = match frame.is_in {
            In::Both => continue,
            In::Reference => &mut permitted.missing,
            In::Recording => &mut permitted.additional,
        };
        *counts.entry(frame.name).or_default() += 1;
    }
    Ok(permitted)
}

#[cfg(test)]
mod tests {
    use super::super::sequences::Step::{Enter, Exit};
    use super::*;

    /// Calls of the methods in `may_miss` may be missing; 9 may be added inside of 2.
    struct Simple<'a>(&'a dyn Fn(Name) -> bool);

    impl Rules for Simple<'_> {
        fn code(&self, _: Name) -> Code {
            Code::Unknown
        }

        fn missing(&self, name: Name, caller: Code) -> Missing {
            if caller == Code::Replaced || (self.0)(name) {
                Missing::May(Code::Replaced)
            } else {
                Missing::No
            }
        }

        fn adds(&self, inside: Name) -> bool {
            inside == 2
        }

        fn may_add(&self, name: Name, inside: Name) -> bool {
            name == 9 && inside == 2
        }

        fn alias(&self, name: Name, its: Name) -> bool {
            // 70 is 7 by another name.
            name == 70 && its == 7
        }
    }

    fn with(
        reference: &[Step],
        recorded: &[Step],
        may_miss: &dyn Fn(Name) -> bool,
    ) -> Result<Permitted, Difference> {
        compare(reference, recorded, &Simple(may_miss))
    }

    /// In the code of 1, calls of 2 are inlined, and in these the calls of 3; of 4, some calls are inlined.
    struct Inlining;

    impl Rules for Inlining {
        fn code(&self, name: Name) -> Code {
            Code::Body(name)
        }

        fn missing(&self, name: Name, caller: Code) -> Missing {
            match (caller, name) {
                (Code::Body(1), 2) => Missing::Likely(Code::Body(20)),
                (Code::Body(20), 3) => Missing::Likely(Code::Body(30)),
                (Code::Body(1), 4) => Missing::May(Code::Body(40)),
                _ => Missing::No,
            }
        }

        fn adds(&self, _: Name) -> bool {
            false
        }

        fn may_add(&self, _: Name, _: Name) -> bool {
            false
        }

        fn alias(&self, _: Name, _: Name) -> bool {
            false
        }
    }

    #[test]
    fn only_inlined_calls_may_be_missing() {
        #[rustfmt::skip]
        let steps = [Enter(1), Enter(2), Enter(3), Exit(3), Enter(5), Exit(5), Exit(2), Exit(1)];
        let inlined = [Enter(1), Enter(5), Exit(5), Exit(1)];
        assert!(compare(&steps, &inlined, &Inlining).is_ok());
        // 5 is inlined nowhere.
        assert!(compare(&steps, &[Enter(1), Exit(1)], &Inlining).is_err());
        // 3 is inlined into the inlined calls of 2, not into 1, nor into 2 by itself.
        let of_1 = [Enter(1), Enter(3), Exit(3), Exit(1)];
        assert!(compare(&of_1, &[Enter(1), Exit(1)], &Inlining).is_err());
        let of_2 = [Enter(2), Enter(3), Exit(3), Exit(2)];
        assert!(compare(&of_2, &[Enter(2), Exit(2)], &Inlining).is_err());
        assert!(compare(&of_2, &of_2, &Inlining).is_ok());
    }

    #[test]
    fn of_both_kinds_of_calls_the_right_one_is_missing() {
        #[rustfmt::skip]
        let steps = [Enter(1), Enter(4), Exit(4), Enter(4), Enter(5), Exit(5), Exit(4), Exit(1)];
        let second = [Enter(1), Enter(4), Enter(5), Exit(5), Exit(4), Exit(1)];
        assert_eq!(compare(&steps, &second, &Inlining), missing(4));
        let first = [Enter(1), Enter(4), Exit(4), Enter(5), Exit(5), Exit(1)];
        assert_eq!(compare(&steps, &first, &Inlining), missing(4));
    }

    fn missing(name: Name) -> Result<Permitted, Difference> {
        Ok(Permitted {
            missing: BTreeMap::from([(name, 1)]),
            ..Permitted::default()
        })
    }

    const NOTHING: &dyn Fn(Name) -> bool = &|_| false;

    #[test]
    fn equal_sequences() {
        let steps = [Enter(1), Enter(2), Exit(2), Exit(1)];
        assert_eq!(with(&steps, &steps, NOTHING), Ok(Permitted::default()));
    }

    #[test]
    fn a_missing_exit_or_an_additional_call_is_a_difference() {
        let steps = [Enter(1), Enter(2), Exit(2), Exit(1)];
        let without = [Enter(1), Enter(2), Exit(1)];
        assert_eq!(
            with(&steps, &without, NOTHING),
            Err(Difference { at: (2, 2) })
        );
        assert!(with(&without, &steps, NOTHING).is_err());
        assert!(with(&steps[..3], &steps, &|_| true).is_err());
        assert!(with(&steps, &steps[..2], &|_| true).is_err());
    }

    #[test]
    fn only_permitted_calls_may_be_missing() {
        let steps = [Enter(1), Enter(2), Enter(3), Exit(3), Exit(2), Exit(1)];
        let without_2 = [Enter(1), Enter(3), Exit(3), Exit(1)];
        assert_eq!(with(&steps, &without_2, &|name| name == 2), missing(2));
        assert!(with(&steps, &without_2, &|name| name == 3).is_err());
        // Half a call cannot be missing.
        let without_entry = [Enter(1), Enter(3), Exit(3), Exit(2), Exit(1)];
        assert!(with(&steps, &without_entry, &|name| name == 2).is_err());
    }

    #[test]
    fn a_call_may_be_a_later_one_of_the_same_method() {
        // The outer call of 2 is missing, the inner one was recorded.
        #[rustfmt::skip]
        let steps = [Enter(1), Enter(2), Enter(2), Exit(2), Enter(3), Exit(3), Exit(2), Exit(1)];
        let inner = [Enter(1), Enter(2), Exit(2), Enter(3), Exit(3), Exit(1)];
        assert_eq!(with(&steps, &inner, &|name| name == 2), missing(2));
    }

    #[test]
    fn a_call_may_be_added_where_the_rules_say_so_only() {
        let steps = [Enter(1), Enter(2), Exit(2), Exit(1)];
        let inside = [Enter(1), Enter(2), Enter(9), Exit(9), Exit(2), Exit(1)];
        let found = with(&steps, &inside, NOTHING);
        assert_eq!(found.map(|p| p.additional), Ok(BTreeMap::from([(9, 1)])));
        let of_3 = [Enter(2), Enter(3), Exit(3), Exit(2)];
        let deeper = [Enter(2), Enter(3), Enter(9), Exit(9), Exit(3), Exit(2)];
        assert!(with(&of_3, &deeper, NOTHING).is_ok());
        let outside = [Enter(1), Enter(9), Exit(9), Enter(2), Exit(2), Exit(1)];
        assert!(with(&steps, &outside, NOTHING).is_err());
    }

    #[test]
    fn a_call_that_could_be_added_is_the_one_after_a_missing_one() {
        // 9 may be added inside of 2, but it is there.
        #[rustfmt::skip]
        let steps = [Enter(1), Enter(2), Enter(3), Exit(3), Enter(9), Exit(9), Exit(2), Exit(1)];
        let without_3 = [Enter(1), Enter(2), Enter(9), Exit(9), Exit(2), Exit(1)];
        assert_eq!(with(&steps, &without_3, &|name| name == 3), missing(3));
        // It is not added inside of the missing call.
        let extra = [&steps[..5], &[Enter(9), Exit(9)], &steps[5..]].concat();
        assert!(with(&extra, &without_3, &|name| name == 3).is_err());
    }

    #[test]
    fn what_a_missing_call_calls_may_be_missing_with_it() {
        let steps = [Enter(1), Enter(2), Enter(3), Exit(3), Exit(2), Exit(1)];
        let without = [Enter(1), Exit(1)];
        assert!(with(&steps, &without, &|name| name == 2).is_ok());
        assert!(with(&steps, &without, &|name| name == 3).is_err());
    }

    /// Calls of 2 are never recorded.
    struct LeftOut;

    impl Rules for LeftOut {
        fn code(&self, _: Name) -> Code {
            Code::Unknown
        }

        fn missing(&self, name: Name, _: Code) -> Missing {
            if name == 2 {
                Missing::Must(Code::Unknown)
            } else {
                Missing::No
            }
        }

        fn adds(&self, _: Name) -> bool {
            false
        }

        fn may_add(&self, _: Name, _: Name) -> bool {
            false
        }

        fn alias(&self, _: Name, _: Name) -> bool {
            false
        }
    }

    #[test]
    fn a_call_that_must_be_missing_may_not_be_recorded() {
        #[rustfmt::skip]
        let steps = [Enter(1), Enter(2), Enter(3), Exit(3), Exit(2), Enter(2), Exit(2), Exit(1)];
        let without = [Enter(1), Enter(3), Exit(3), Exit(1)];
        let missing = BTreeMap::from([(2, 2)]);
        assert_eq!(
            compare(&steps, &without, &LeftOut).map(|p| p.missing),
            Ok(missing)
        );
        // What it calls is recorded.
        assert!(compare(&steps, &[Enter(1), Exit(1)], &LeftOut).is_err());
        assert!(compare(&steps, &steps, &LeftOut).is_err());
        let once = [Enter(1), Enter(3), Exit(3), Enter(2), Exit(2), Exit(1)];
        assert!(compare(&steps, &once, &LeftOut).is_err());
    }

    #[test]
    fn of_what_was_cut_off_the_beginnings_are_compared() {
        let steps = [Enter(1), Enter(2), Exit(2), Enter(3), Exit(3)];
        let rules = Simple(NOTHING);
        assert!(compare_beginnings(&steps, &steps[..3], &rules).is_ok());
        assert!(compare_beginnings(&steps[..2], &steps, &rules).is_ok());
        assert!(compare(&steps, &steps[..3], &rules).is_err());
        let other = [Enter(1), Enter(3)];
        assert!(compare_beginnings(&steps, &other, &rules).is_err());
    }

    #[test]
    fn another_name_of_a_method() {
        let steps = [Enter(1), Enter(70), Exit(70), Exit(1)];
        let named = |name| [Enter(1), Enter(name), Exit(name), Exit(1)];
        assert_eq!(with(&steps, &named(7), NOTHING), Ok(Permitted::default()));
        assert!(with(&steps, &named(8), NOTHING).is_err());
        assert!(with(&named(7), &steps, NOTHING).is_err());
    }
}
