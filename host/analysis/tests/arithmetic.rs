// SPDX-License-Identifier: Apache-2.0
//! Properties of sums, parts and comparisons of random traces.

use std::collections::BTreeSet;

use hindsight_analysis::{
    parse_signatures, top, By, Compare, Comparison, Selection, Side, Summary, Totals, Window,
};
use hindsight_decoder::{Trace, NO_PARENT};
use hindsight_testkit::Script;
use proptest::prelude::*;

const METHODS: [&str; 6] = [
    "a.A.f",
    "a.A.g",
    "a.b.B.f",
    "a.b.B$C.h",
    "K.k",
    "a.b.D.recursive",
];

/// The next event of a thread, and its delay, ns.
#[derive(Clone, Debug)]
enum Step {
    Enter(usize, u64),
    Exit(u64),
    Unwind(u64, u64),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        5 => (0..METHODS.len(), 0u64..1_000).prop_map(|(m, ns)| Step::Enter(m, ns)),
        5 => (0u64..1_000).prop_map(Step::Exit),
        1 => (0u64..4, 0u64..1_000).prop_map(|(n, ns)| Step::Unwind(n, ns)),
    ];
    prop::collection::vec(step, 0..120)
}

/// One to three threads. Exits may come before any entry, and calls may not end.
fn traces() -> impl Strategy<Value = Trace> {
    prop::collection::vec(steps(), 1..4).prop_map(|threads| {
        let mut script = Script::new("p");
        let methods = METHODS.map(|m| script.method(m, "()V"));
        for (tid, steps) in threads.into_iter().enumerate() {
            let thread = script.thread(tid as u32 + 1, &format!("thread-{tid}"));
            let mut r = script.at(thread, 0);
            for step in steps {
                match step {
                    Step::Enter(m, ns) => r.after(ns).enter(methods[m]),
                    Step::Exit(ns) => r.after(ns).exit(),
                    Step::Unwind(frames, ns) => r.after(ns).unwind(frames),
                };
            }
        }
        Trace::decode("t".as_ref(), &script.encode()).unwrap()
    })
}

fn sum(totals: &[Totals], of: fn(&Totals) -> u64) -> u64 {
    totals.iter().map(of).sum()
}

/// Time of the outermost calls.
fn covered(trace: &Trace) -> u64 {
    let of = |t: &hindsight_decoder::Thread| {
        let s = &t.calls;
        let outermost = (0..s.len()).filter(|&i| s.parent[i] == NO_PARENT);
        outermost.map(|i| s.end_ns[i] - s.start_ns[i]).sum::<u64>()
    };
    trace.threads.iter().map(of).sum()
}

fn part(trace: &Trace, from_ns: u64, to_ns: u64) -> Trace {
    let selection = Selection {
        window: Some(Window { from_ns, to_ns }),
        ..Selection::default()
    };
    selection.apply(trace.clone())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    /// Self times add up to the time of the outermost calls, by method, class and package; no total is less
    /// than its self time or more than the whole.
    #[test]
    fn self_times_add_up(trace in traces()) {
        let whole = covered(&trace);
        let calls: u64 = trace.threads.iter().map(|t| t.calls.len() as u64).sum();
        for by in [By::Method, By::Class, By::Package] {
            let totals = top(&trace.methods, &trace.threads, by);
            prop_assert_eq!(sum(&totals, |t| t.self_ns), whole);
            prop_assert_eq!(sum(&totals, |t| t.calls), calls);
            for t in &totals {
                prop_assert!(t.self_ns <= t.total_ns && t.total_ns <= whole, "{:?}", t);
                prop_assert!(t.max_ns <= t.total_ns, "{:?}", t);
            }
        }
    }

    /// Two parts of a trace add up to the whole.
    #[test]
    fn parts_add_up_to_the_whole(trace in traces(), at in 0.0f64..1.0) {
        let (start, end) = (trace.start_ns(), trace.end_ns());
        let middle = start + ((end - start) as f64 * at) as u64;
        let (first, second) = (part(&trace, 0, middle), part(&trace, middle, u64::MAX));
        prop_assert_eq!(covered(&first) + covered(&second), covered(&trace));
        let selves = |trace: &Trace| sum(&top(&trace.methods, &trace.threads, By::Method), |t| t.self_ns);
        prop_assert_eq!(selves(&first) + selves(&second), selves(&trace));
        for half in [&first, &second] {
            for t in &half.threads {
                for i in 0..t.calls.len() {
                    prop_assert!(t.calls.start_ns[i] <= t.calls.end_ns[i]);
                    let depth = t.calls.parent_of(i).map_or(0, |p| t.calls.depth[p] + 1);
                    prop_assert_eq!(t.calls.depth[i], depth);
                }
            }
        }
    }

    /// A selection of few levels loses no time.
    #[test]
    fn levels_keep_the_time(trace in traces(), depth in 1u32..6) {
        let selection = Selection { depth: Some(depth), ..Selection::default() };
        let cut = selection.apply(trace.clone());
        prop_assert_eq!(covered(&cut), covered(&trace));
        let totals = top(&cut.methods, &cut.threads, By::Method);
        prop_assert_eq!(sum(&totals, |t| t.self_ns), covered(&trace));
    }

    #[test]
    fn a_trace_does_not_differ_from_itself(trace in traces()) {
        for compare in [Compare::SelfTime, Compare::Total] {
            let mut comparison = Comparison::new(compare);
            comparison.add(Side::Before, &trace);
            comparison.add(Side::After, &trace);
            let diff = comparison.diff(0.0);
            prop_assert!(diff.methods.is_empty(), "{:?}", diff.methods);
            prop_assert!(diff.new_calls.is_empty() && diff.gone_calls.is_empty());
        }
    }

    /// If the sides are swapped, new calls are gone calls, and slower methods are faster ones.
    #[test]
    fn comparisons_can_be_turned_round(a in traces(), b in traces()) {
        let diff = |a: &Trace, b: &Trace| {
            let mut comparison = Comparison::new(Compare::Total);
            comparison.add(Side::Before, a);
            comparison.add(Side::After, b);
            comparison.diff(0.0)
        };
        let (there, back) = (diff(&a, &b), diff(&b, &a));
        prop_assert_eq!(&there.new_calls, &back.gone_calls);
        prop_assert_eq!(&there.gone_calls, &back.new_calls);
        // Methods are listed by their effect in whole ns, which depends on the calls of one side: a mean that differs by less
        // may be listed in one direction only.
        let differs = |m: &&hindsight_analysis::MethodChange| (m.after.mean_ns - m.before.mean_ns).abs() >= 1.0;
        let methods = |d: &hindsight_analysis::Diff| -> BTreeSet<(String, i64)> {
            d.methods.iter().filter(differs).map(|m| (m.method.clone(), m.effect_ns.signum())).collect()
        };
        let turned: BTreeSet<(String, i64)> =
            methods(&back).into_iter().map(|(m, sign)| (m, -sign)).collect();
        prop_assert_eq!(methods(&there), turned);
        for m in &there.methods {
            for p in [m.p, m.corrected_p].into_iter().flatten() {
                prop_assert!((0.0..=1.0).contains(&p), "{:?}", m);
            }
        }
    }

    /// Summaries count all calls and all self time, and add up.
    #[test]
    fn summaries_lose_nothing(a in traces(), b in traces(), limit in 0usize..8) {
        let calls = |s: &Summary| -> (u64, u64) {
            [&s.main, &s.others].iter().fold((0, 0), |(calls, ns), part| {
                let listed = part.methods.iter();
                let listed = listed.fold((0, 0), |(c, n), m| (c + m.calls, n + m.self_ns));
                let unlisted = (part.unlisted.calls, part.unlisted.self_ns);
                (calls + listed.0 + unlisted.0, ns + listed.1 + unlisted.1)
            })
        };
        let of = |trace: &Trace| {
            let calls: u64 = trace.threads.iter().map(|t| t.calls.len() as u64).sum();
            (calls, covered(trace))
        };
        let (mut x, y) = (Summary::of(&a, limit), Summary::of(&b, limit));
        prop_assert_eq!(calls(&x), of(&a));
        let json = serde_json::to_string(&y).unwrap();
        prop_assert_eq!(&serde_json::from_str::<Summary>(&json).unwrap(), &y);
        x.merge(&y);
        prop_assert_eq!(calls(&x), (of(&a).0 + of(&b).0, of(&a).1 + of(&b).1));
    }

    /// The matcher finds the same calls as a search through all ways to match each stack.
    #[test]
    fn stacks_are_matched_as_by_hand(
        trace in traces(),
        pattern in prop::collection::vec(0..METHODS.len() + 2, 1..5),
    ) {
        // Numbers beyond the methods stand for "..." and "*".
        let text = |&p: &usize| match p {
            p if p < METHODS.len() => METHODS[p],
            p if p == METHODS.len() => "...",
            _ => "*",
        };
        let pattern: Vec<&str> = pattern.iter().map(text).collect();
        prop_assume!(pattern.last() != Some(&"..."));
        let toml = format!("[[signature]]\nname = 's'\nstack = {pattern:?}");
        let found = parse_signatures("s", &toml).unwrap()[0].find(&trace);
        let mut calls = 0;
        for t in &trace.threads {
            let mut outer: Option<usize> = None;
            for i in 0..t.calls.len() {
                if outer.is_some_and(|o| i < t.calls.subtree_end(o)) {
                    continue;
                }
                let stack: Vec<String> = t.calls.path_to(i).into_iter()
                    .map(|i| trace.methods.name(t.calls.method[i]).into_owned())
                    .collect();
                if matches(&pattern, &stack, true) {
                    calls += 1;
                    outer = Some(i);
                }
            }
        }
        prop_assert_eq!(found.calls, calls);
    }
}

/// Whether the stack matches the pattern, with any calls before it.
fn matches(pattern: &[&str], stack: &[String], any: bool) -> bool {
    match pattern.split_first() {
        None => stack.is_empty(),
        Some((&"...", rest)) => matches(rest, stack, true),
        Some((&first, rest)) => {
            let starts = if any { stack.len() } else { 1.min(stack.len()) };
            (0..starts).any(|at| {
                (first == "*" || stack[at] == first) && matches(rest, &stack[at + 1..], false)
            })
        }
    }
}
