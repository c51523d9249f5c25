// SPDX-License-Identifier: Apache-2.0
//! Methods, classes or packages, by the time they took.

use std::collections::HashMap;

use hindsight_decoder::{Flags, MethodId, Methods, SampleTimes, Thread};
use serde::Serialize;

use crate::events::{Resources, Used};
use crate::known;

/// The groups that calls are added up by.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum By {
    /// Methods.
    #[default]
    Method,
    /// Their classes; a nested class is a class of its own.
    Class,
    /// The packages of their classes.
    Package,
}

/// The calls of a method, or of the methods of a class or package, added up.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Totals {
    /// `class.name`, the class, or the package.
    pub name: String,
    /// Signature of a method, as in the dex file; empty if unknown.
    pub signature: String,
    /// Types of a method's parameters, as in Java: `(long, String)`; empty if unknown.
    pub parameters: String,
    /// Number of calls, whole or cut.
    pub calls: u64,
    /// Time in the method itself, or in the methods themselves, ns.
    pub self_ns: u64,
    /// Time with the calls they made, ns. Of calls inside each other the outermost one counts.
    pub total_ns: u64,
    /// The longest call, ns.
    pub max_ns: u64,
    /// Number of those of its calls that are made of stacks: they ran at their starts and ends, and may have begun earlier
    /// and ended later.
    #[serde(skip_serializing_if = "is_zero")]
    pub sampled: u64,
    /// By how much [`Totals::total_ns`] may be too little for that reason, at most, ns.
    #[serde(skip_serializing_if = "is_zero")]
    pub total_error_ns: u64,
    /// What its calls used, as far as readings of the thread's counters cover them: calls of a millisecond and more. Of calls
    /// inside each other the outermost one counts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub used: Option<Used>,
    /// Whether it is a method that waits for work, which need not be made faster.
    pub waits_for_work: bool,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes references")]
fn is_zero(n: &u64) -> bool {
    *n == 0
}

/// Group of the methods without a symbol, by class or package.
const UNNAMED: &str = "<methods without a symbol>";

/// The group of each method; and the name, signature and parameters of each group. The last group is for calls
/// whose entry is not in the ring.
struct Groups {
    of: Vec<u32>,
    names: Vec<(String, String, String)>,
}

impl Groups {
    fn new(methods: &Methods, by: By) -> Self {
        let mut names = Vec::new();
        let of = match by {
            By::Method => {
                names.extend(
                    methods
                        .iter()
                        .map(|(_, m)| (m.full_name(), m.signature.clone(), m.parameters())),
                );
                (0..methods.len() as u32).collect()
            }
            By::Class | By::Package => {
                let mut known: HashMap<&str, u32> = HashMap::new();
                methods
                    .iter()
                    .map(|(_, m)| {
                        let name = match by {
                            _ if !m.is_named() => UNNAMED,
                            By::Package => m.class.rsplit_once('.').map_or("", |(p, _)| p),
                            _ => &m.class,
                        };
                        *known.entry(name).or_insert_with(|| {
                            let shown = if name.is_empty() {
                                "<no package>"
                            } else {
                                name
                            };
                            names.push((shown.to_owned(), String::new(), String::new()));
                            (names.len() - 1) as u32
                        })
                    })
                    .collect()
            }
        };
        let not_recorded = Methods::NOT_RECORDED_NAME.to_owned();
        names.push((not_recorded, String::new(), String::new()));
        Groups { of, names }
    }

    fn place(&self, id: MethodId) -> usize {
        match self.of.get(id.0 as usize) {
            Some(&group) => group as usize,
            None => self.names.len() - 1,
        }
    }
}

/// Adds up the calls of `threads`, in no particular order.
pub fn top<'a>(
    methods: &Methods,
    threads: impl IntoIterator<Item = &'a Thread>,
    by: By,
) -> Vec<Totals> {
    #[derive(Clone, Default)]
    struct Sum {
        calls: u64,
        self_ns: u64,
        total_ns: u64,
        max_ns: u64,
        sampled: u64,
        error_ns: u64,
        used: Option<Used>,
        /// Number of its calls that are running.
        running: u32,
    }
    struct Running {
        group: usize,
        /// Time of the calls it made.
        callees_ns: u64,
        duration_ns: u64,
    }
    let groups = Groups::new(methods, by);
    let mut sums = vec![Sum::default(); groups.names.len()];
    let mut stack: Vec<Running> = Vec::new();
    let leave = |sums: &mut Vec<Sum>, left: Running| {
        let sum = &mut sums[left.group];
        sum.running -= 1;
        sum.self_ns += left.duration_ns.saturating_sub(left.callees_ns);
    };
    for thread in threads {
        let s = &thread.calls;
        let resources = Resources::of(thread);
        let samples = SampleTimes::of(thread);
        // Self times are added up in the same pass.
        for i in 0..s.len() {
            while stack.len() > s.depth[i] as usize {
                let Some(left) = stack.pop() else { break };
                leave(&mut sums, left);
            }
            let duration_ns = s.end_ns[i] - s.start_ns[i];
            if let Some(caller) = stack.last_mut() {
                caller.callees_ns += duration_ns;
            }
            let group = groups.place(s.method[i]);
            stack.push(Running {
                group,
                callees_ns: 0,
                duration_ns,
            });
            let sum = &mut sums[group];
            sum.calls += 1;
            sum.max_ns = sum.max_ns.max(duration_ns);
            let is_sampled = s.flags[i].contains(Flags::SAMPLED);
            sum.sampled += u64::from(is_sampled);
            if sum.running == 0 {
                sum.total_ns += duration_ns;
                if is_sampled {
                    let (earliest, latest) = samples.bounds(&s.get(i));
                    let most_ns = latest.saturating_sub(earliest);
                    sum.error_ns += most_ns.saturating_sub(duration_ns);
                }
                if let Some(used) = resources.used(s.start_ns[i], s.end_ns[i]) {
                    sum.used = Some(sum.used.unwrap_or_default().plus(used));
                }
            }
            sum.running += 1;
        }
        for left in stack.drain(..) {
            leave(&mut sums, left);
        }
    }
    sums.into_iter()
        .zip(groups.names)
        .enumerate()
        .filter(|(_, (sum, _))| sum.calls > 0)
        .map(|(i, (sum, (name, signature, parameters)))| Totals {
            name,
            signature,
            parameters,
            calls: sum.calls,
            self_ns: sum.self_ns,
            total_ns: sum.total_ns,
            max_ns: sum.max_ns,
            sampled: sum.sampled,
            total_error_ns: sum.error_ns,
            used: sum.used,
            waits_for_work: by == By::Method
                && methods
                    .get(MethodId(i as u32))
                    .is_some_and(known::waits_for_work),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use hindsight_decoder::{Extension, Trace};
    use hindsight_testkit::Script;

    type Row = (String, u64, u64, u64, u64);

    fn rows(trace: &Trace, by: By) -> Vec<Row> {
        let row = |t: Totals| (t.name, t.calls, t.self_ns, t.total_ns, t.max_ns);
        let mut rows: Vec<Row> = top(&trace.methods, &trace.threads, by)
            .into_iter()
            .map(row)
            .collect();
        rows.sort();
        rows
    }

    #[test]
    fn recursion_counts_its_outermost_call_once() {
        let mut s = Script::new("p");
        let f = s.method("C.f", "()V");
        let g = s.method("C.g", "()V");
        let t = s.thread(1, "main");
        let mut r = s.at(t, 0);
        // f(10) { f(10) { g(5) } g(5) } and once more f(1).
        r.enter(f)
            .after(10)
            .enter(f)
            .after(10)
            .call(g, 5)
            .exit()
            .call(g, 5)
            .exit();
        r.after(100).call(f, 1);
        let trace = Trace::decode("t".as_ref(), &s.encode()).unwrap();
        assert_eq!(
            rows(&trace, By::Method),
            [("C.f".into(), 3, 21, 31, 30), ("C.g".into(), 2, 10, 10, 5)]
        );
    }

    #[test]
    fn calls_within_a_class_or_package_count_once() {
        let mut s = Script::new("p");
        let f = s.method("a.b.C.f", "()V");
        let g = s.method("a.b.C.g", "()V");
        let h = s.method("a.b.C$D.h", "()V");
        let k = s.method("K.k", "()V");
        let t = s.thread(1, "main");
        // f(1) { g(2) { h(4) { f(8) } } } k(16)
        let mut r = s.at(t, 0);
        r.enter(f).after(1).enter(g).after(2).enter(h).after(4);
        r.call(f, 8).exit().exit().exit().call(k, 16);
        let trace = Trace::decode("t".as_ref(), &s.encode()).unwrap();
        assert_eq!(
            rows(&trace, By::Class),
            [
                ("K".into(), 1, 16, 16, 16),
                ("a.b.C".into(), 3, 11, 15, 15),
                ("a.b.C$D".into(), 1, 4, 12, 12)
            ]
        );
        assert_eq!(
            rows(&trace, By::Package),
            [
                ("<no package>".into(), 1, 16, 16, 16),
                ("a.b".into(), 4, 15, 15, 15)
            ]
        );
    }

    #[test]
    fn calls_that_began_before_the_trace_are_counted_together() {
        let mut s = Script::new("p");
        let t = s.thread(1, "main");
        s.at(t, 0).exit().after(10).exit().after(5).exit();
        let trace = Trace::decode("t".as_ref(), &s.encode()).unwrap();
        for by in [By::Method, By::Class, By::Package] {
            let expected = ("<entered before the trace>".to_owned(), 3, 15, 15, 15);
            assert_eq!(rows(&trace, by), [expected]);
        }
    }

    #[test]
    fn what_calls_used_is_added_up_where_it_was_read() {
        const MS: u64 = 1_000_000;
        let mut s = Script::new("p");
        let (f, g) = (s.method("a.C.f", "()V"), s.method("a.C.g", "()V"));
        let t = s.thread(1, "main");
        let mut r = s.at(t, 0);
        r.enter(f).extension(Extension::ThreadCpuTime, &[0]);
        r.call(g, 100).after(10 * MS);
        r.extension(Extension::ThreadCpuTime, &[4 * MS]);
        // A call of itself is part of it.
        r.enter(f).after(5 * MS);
        r.extension(Extension::ThreadCpuTime, &[6 * MS]).exit();
        r.exit();
        let trace = Trace::decode("t".as_ref(), &s.encode()).unwrap();
        let totals = top(&trace.methods, &trace.threads, By::Method);
        let used = |name: &str| {
            let row = totals.iter().find(|t| t.name == name).unwrap();
            row.used.map(|u| u.cpu_ns)
        };
        assert_eq!((used("a.C.f"), used("a.C.g")), (Some(6 * MS), None));
    }
}
