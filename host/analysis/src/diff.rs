// SPDX-License-Identifier: Apache-2.0
//! Traces before a change against traces after it: which methods got slower, which calls are new.

use std::cmp::Reverse;
use std::collections::HashMap;

use hindsight_decoder::{Flags, Mode, Trace, NO_PARENT};
use serde::Serialize;

use crate::statistics::{
    corrected, mann_whitney, ratio_interval, ratio_interval_of_calls, welch, Cluster, LEAST_MEANS,
    LEAST_RANKED,
};

/// Significance level: the largest corrected p of a difference that is called slower or faster.
pub const SIGNIFICANT: f64 = 0.05;
/// A call is an outlier if it took this many times as long as the longest call of the other side.
const OUTLIER: f64 = 5.0;
/// An outlier explains a change of the mean if it makes up this part of the difference.
const DECISIVE: f64 = 0.5;

/// Which side of a comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// Before the change.
    Before,
    /// After it.
    After,
}

/// Which time of a call is compared.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Compare {
    /// Time in the method itself, which shows where the time goes.
    #[default]
    #[serde(rename = "self")]
    SelfTime,
    /// Time in the method and in the calls it made.
    Total,
}

/// The traces of both sides, reduced to the numbers that a comparison needs.
#[derive(Debug, Default)]
pub struct Comparison {
    compare: Compare,
    /// Class and name, signature, parameters for people.
    names: Vec<(String, String, String)>,
    ids: HashMap<(String, String), u32>,
    before: Recorded,
    after: Recorded,
}

/// The traces of one side.
#[derive(Debug, Default)]
struct Recorded {
    samples: Vec<Sample>,
    /// How many other traces recorded events only.
    events_only: usize,
    /// How many threads of the samples did.
    events_only_threads: usize,
}

/// One trace, reduced to the numbers that a comparison needs.
#[derive(Debug, Default)]
struct Sample {
    /// By method: the times of its whole calls, ns, sorted.
    times: HashMap<u32, Vec<u64>>,
    /// By method: all its calls.
    calls: HashMap<u32, u64>,
    /// By caller, if there is one, and callee: whole calls, and how long they took, ns. Both are 0 if only cut calls
    /// were seen: they are not compared, but the call is known.
    edges: HashMap<(Option<u32>, u32), (u64, u64)>,
    span_ns: u64,
    all_calls: u64,
    unnamed_calls: u64,
}

/// The differences between two sides.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Diff {
    /// The traces before the change.
    pub before: SideFacts,
    /// The traces after it.
    pub after: SideFacts,
    /// Which time of a call is compared.
    pub compare: Compare,
    /// The independent samples of the tests: single calls, or whole traces.
    pub unit: Unit,
    /// Methods called on both sides.
    pub compared_methods: usize,
    /// The number of them with enough calls, or traces, for a test.
    pub tested_methods: usize,
    /// Methods whose calls take longer or shorter; largest effect first.
    pub methods: Vec<MethodChange>,
    /// Calls, by caller and callee, that only the traces after the change hold; longest first.
    pub new_calls: Vec<CallChange>,
    /// Calls that only the traces before it hold.
    pub gone_calls: Vec<CallChange>,
}

/// Facts of one side.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct SideFacts {
    /// How many traces that recorded calls.
    pub traces: usize,
    /// How many other traces recorded events only. They are no samples.
    pub events_only_traces: usize,
    /// How many threads of the traces that recorded calls recorded events only. They are not compared.
    pub events_only_threads: usize,
    /// The spans of the other threads' rings, added up, ns.
    pub span_ns: u64,
    /// All calls in them.
    pub calls: u64,
    /// Calls of methods without a symbol, which can't be compared.
    pub unnamed_calls: u64,
}

/// The independent samples of a test.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Unit {
    /// Single calls. The result does not generalise to other runs.
    Calls,
    /// Whole traces.
    Traces,
}

/// The result of the test of a method.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// Slower, and chance does not explain it.
    Slower,
    /// Faster, and chance does not explain it.
    Faster,
    /// Chance explains the difference.
    Chance,
    /// Single calls took much longer than any on the other side, and explain the difference.
    SingleCalls,
    /// On average slower, but most calls got faster, or the other way round.
    Contradictory,
    /// Too few calls, or traces, for a test.
    TooFew,
}

/// A method whose calls take longer or shorter than before.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct MethodChange {
    /// `class.name`.
    pub method: String,
    /// As in the dex file; empty if unknown.
    pub signature: String,
    /// Types of its parameters, as in Java.
    pub parameters: String,
    /// The result of the test.
    pub verdict: Verdict,
    /// Before the change.
    pub before: CallTimes,
    /// After it.
    pub after: CallTimes,
    /// Mean after, divided by mean before.
    pub ratio: f64,
    /// The 95 % interval of the ratio.
    pub interval: Option<(f64, f64)>,
    /// Probability of such a difference if nothing has changed.
    pub p: Option<f64>,
    /// The same, corrected for the number of methods that were tested.
    pub corrected_p: Option<f64>,
    /// The time that the change of the mean adds to a trace, ns; negative where it saves time.
    pub effect_ns: i64,
}

/// Whole calls of a method.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct CallTimes {
    /// Traces that hold some.
    pub traces: usize,
    /// How many.
    pub calls: u64,
    /// Mean time, ns.
    pub mean_ns: f64,
    /// Median, ns.
    pub median_ns: u64,
    /// Longest, ns.
    pub max_ns: u64,
}

/// Calls that only one side holds.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CallChange {
    /// `class.name` of the caller; `None` without a traced caller.
    pub caller: Option<String>,
    /// `class.name` of the called method.
    pub callee: String,
    /// Types of its parameters, as in Java.
    pub parameters: String,
    /// Whether the callee as such is called on this side only.
    pub method_too: bool,
    /// Traces that hold such calls.
    pub traces: usize,
    /// How many calls.
    pub calls: u64,
    /// How long they took together, ns.
    pub ns: u64,
    /// Probability that the other side merely missed them, if they come independently and at the same rate.
    pub missed_by_chance: f64,
}

impl Comparison {
    /// Compares nothing yet.
    pub fn new(compare: Compare) -> Self {
        Comparison {
            compare,
            ..Comparison::default()
        }
    }

    /// Adds a trace to a side. A trace all of whose threads recorded events only is counted, and compared with nothing: how
    /// often and how long its methods were called is not known.
    pub fn add(&mut self, side: Side, trace: &Trace) {
        let threads = trace.threads.iter();
        let events_only = threads.filter(|t| t.mode == Mode::Events).count();
        if events_only > 0 && events_only == trace.threads.len() {
            self.side(side).events_only += 1;
            return;
        }
        let ids: Vec<Option<u32>> = trace
            .methods
            .iter()
            .map(|(_, m)| {
                if !m.is_named() {
                    return None;
                }
                let key = (m.full_name(), m.signature.clone());
                let names = &mut self.names;
                Some(
                    *self.ids.entry(key).or_insert_with_key(|(name, signature)| {
                        names.push((name.clone(), signature.clone(), m.parameters()));
                        (names.len() - 1) as u32
                    }),
                )
            })
            .collect();
        let sample = Sample::new(trace, &ids, self.names.len(), self.compare);
        let side = self.side(side);
        side.samples.push(sample);
        side.events_only_threads += events_only;
    }

    fn side(&mut self, side: Side) -> &mut Recorded {
        match side {
            Side::Before => &mut self.before,
            Side::After => &mut self.after,
        }
    }

    /// Whether all traces of a side recorded events only, so that it has nothing to compare.
    pub fn has_events_only(&self, side: Side) -> bool {
        let side = match side {
            Side::Before => &self.before,
            Side::After => &self.after,
        };
        side.samples.is_empty() && side.events_only > 0
    }

    /// The differences of at least `least_change` (0.05 is 5 %).
    pub fn diff(&self, least_change: f64) -> Diff {
        let enough = |side: &[Sample]| side.len() >= LEAST_MEANS;
        let unit = if enough(&self.before.samples) && enough(&self.after.samples) {
            Unit::Traces
        } else {
            Unit::Calls
        };
        let mut methods: Vec<MethodChange> = (0..self.names.len() as u32)
            .filter_map(|id| self.method_change(id, unit))
            .collect();
        let compared_methods = methods.len();
        let p: Vec<f64> = methods.iter().filter_map(|m| m.p).collect();
        let tested = methods.iter_mut().filter(|m| m.p.is_some());
        for (method, q) in tested.zip(corrected(&p)) {
            method.corrected_p = Some(q);
            let is_slower_or_faster = matches!(method.verdict, Verdict::Slower | Verdict::Faster);
            // The test of single calls compares ranks, and so may see a difference that the means do not show.
            let includes_none = method
                .interval
                .is_some_and(|(low, high)| low <= 1.0 && high >= 1.0);
            if q > SIGNIFICANT && method.verdict != Verdict::SingleCalls
                || is_slower_or_faster && includes_none
            {
                method.verdict = Verdict::Chance;
            }
        }
        for method in &mut methods {
            method.round();
        }
        methods.retain(|m| m.effect_ns != 0 && (m.ratio - 1.0).abs() >= least_change);
        methods.sort_by(|a, b| {
            let key = |m: &MethodChange| Reverse(m.effect_ns.unsigned_abs());
            (key(a), &a.method, &a.signature).cmp(&(key(b), &b.method, &b.signature))
        });
        Diff {
            before: SideFacts::new(&self.before),
            after: SideFacts::new(&self.after),
            compare: self.compare,
            unit,
            compared_methods,
            tested_methods: p.len(),
            methods,
            new_calls: self.only_in(&self.after.samples, &self.before.samples),
            gone_calls: self.only_in(&self.before.samples, &self.after.samples),
        }
    }

    fn method_change(&self, id: u32, unit: Unit) -> Option<MethodChange> {
        let all = |side: &[Sample]| {
            let of = side.iter().filter_map(|s| s.times.get(&id));
            let mut times: Vec<u64> = of.flatten().copied().collect();
            times.sort_unstable();
            times
        };
        let (times_a, times_b) = (all(&self.before.samples), all(&self.after.samples));
        if times_a.is_empty() || times_b.is_empty() {
            return None;
        }
        let calls = |side: &[Sample], times: &[u64]| CallTimes {
            traces: side.iter().filter(|s| s.times.contains_key(&id)).count(),
            calls: times.len() as u64,
            mean_ns: times.iter().map(|&t| t as f64).sum::<f64>() / times.len() as f64,
            median_ns: times[(times.len() - 1) / 2],
            max_ns: times[times.len() - 1],
        };
        let before = calls(&self.before.samples, &times_a);
        let after = calls(&self.after.samples, &times_b);
        let difference = after.mean_ns - before.mean_ns;
        let ratio = if difference == 0.0 {
            1.0
        } else {
            after.mean_ns / before.mean_ns
        };
        // Probability that a call after the change takes longer than one before; only of single calls.
        let mut superiority = None;
        let (interval, p) = match unit {
            Unit::Calls if times_a.len().min(times_b.len()) < LEAST_RANKED => (None, None),
            Unit::Calls => {
                let (longer, p) = mann_whitney(&times_a, &times_b);
                superiority = Some(longer);
                (ratio_interval_of_calls(&times_a, &times_b), Some(p))
            }
            Unit::Traces if before.traces.min(after.traces) < LEAST_MEANS => (None, None),
            Unit::Traces => {
                let clusters = |side: &[Sample]| -> Vec<Cluster> {
                    let of = side.iter().filter_map(|s| s.times.get(&id));
                    of.map(|times| Cluster {
                        sum: times.iter().map(|&t| t as f64).sum(),
                        calls: times.len() as f64,
                    })
                    .collect()
                };
                let (a, b) = (
                    clusters(&self.before.samples),
                    clusters(&self.after.samples),
                );
                // Runs differ by factors rather than by times.
                let means = |clusters: &[Cluster]| -> Vec<f64> {
                    let mean = |c: &Cluster| (c.sum / c.calls).max(0.5).ln();
                    clusters.iter().map(mean).collect()
                };
                let p = welch(&means(&a), &means(&b));
                (ratio_interval(&a, &b), Some(p))
            }
        };
        let (longest, other) = (
            before.max_ns.max(after.max_ns),
            before.max_ns.min(after.max_ns),
        );
        let effect = difference * after.calls as f64 / self.after.samples.len().max(1) as f64;
        let calls_of_longer = if difference > 0.0 {
            after.calls
        } else {
            before.calls
        };
        let decisive = (longest - other) as f64
            >= DECISIVE * difference.abs() * calls_of_longer as f64
            && longest as f64 >= OUTLIER * other as f64
            && (after.max_ns > before.max_ns) == (difference > 0.0);
        let verdict = match (p, superiority) {
            (None, _) => Verdict::TooFew,
            (Some(_), Some(_)) if decisive => Verdict::SingleCalls,
            (Some(_), Some(longer)) if (longer > 0.5) != (difference > 0.0) => {
                Verdict::Contradictory
            }
            _ if difference > 0.0 => Verdict::Slower,
            _ => Verdict::Faster,
        };
        let (method, signature, parameters) = self.names[id as usize].clone();
        Some(MethodChange {
            method,
            signature,
            parameters,
            verdict,
            before,
            after,
            ratio,
            interval,
            p,
            corrected_p: None,
            effect_ns: effect.round() as i64,
        })
    }

    /// Calls that only the traces of `here` hold. Calls by methods that are themselves only here are not listed: the
    /// call of such a method is.
    fn only_in(&self, here: &[Sample], there: &[Sample]) -> Vec<CallChange> {
        let known_there = |id: u32| there.iter().any(|s| s.calls.contains_key(&id));
        let span = |side: &[Sample]| side.iter().map(|s| s.span_ns as f64).sum::<f64>();
        let share = span(here) / (span(here) + span(there)).max(1.0);
        let mut sums: HashMap<(Option<u32>, u32), (usize, u64, u64)> = HashMap::new();
        for sample in here {
            for (&edge, &(calls, ns)) in sample.edges.iter().filter(|(_, whole)| whole.0 > 0) {
                let sum = sums.entry(edge).or_default();
                *sum = (sum.0 + 1, sum.1 + calls, sum.2 + ns);
            }
        }
        let mut out: Vec<CallChange> = sums
            .into_iter()
            .filter(|((caller, callee), _)| {
                let edge = (*caller, *callee);
                let is_here_only = there.iter().all(|s| !s.edges.contains_key(&edge));
                // A method of both sides may have no caller because its caller was cut.
                let tells = match caller {
                    Some(caller) => known_there(*caller),
                    None => !known_there(*callee),
                };
                is_here_only && tells
            })
            .map(|((caller, callee), (traces, calls, ns))| CallChange {
                caller: caller.map(|c| self.names[c as usize].0.clone()),
                callee: self.names[callee as usize].0.clone(),
                parameters: self.names[callee as usize].2.clone(),
                method_too: !known_there(callee),
                traces,
                calls,
                ns,
                missed_by_chance: rounded(share.powf(calls as f64)),
            })
            .collect();
        out.sort_by(|a, b| {
            let key = |c: &CallChange| (Reverse(c.ns), Reverse(c.calls));
            (key(a), &a.callee, &a.caller).cmp(&(key(b), &b.callee, &b.caller))
        });
        out
    }
}

impl MethodChange {
    /// Rounds all numbers: further digits differ between machines.
    fn round(&mut self) {
        let numbers = [
            &mut self.ratio,
            &mut self.before.mean_ns,
            &mut self.after.mean_ns,
        ];
        let intervals = self.interval.iter_mut().flat_map(|(low, high)| [low, high]);
        let chances = self.p.iter_mut().chain(&mut self.corrected_p);
        for number in numbers.into_iter().chain(intervals).chain(chances) {
            *number = rounded(*number);
        }
    }
}

/// To six significant digits.
fn rounded(number: f64) -> f64 {
    if number == 0.0 || !number.is_finite() {
        return number;
    }
    format!("{number:.5e}").parse().unwrap_or(number)
}

impl SideFacts {
    fn new(side: &Recorded) -> Self {
        let sum = |f: fn(&Sample) -> u64| side.samples.iter().map(f).sum();
        SideFacts {
            traces: side.samples.len(),
            events_only_traces: side.events_only,
            events_only_threads: side.events_only_threads,
            span_ns: sum(|s| s.span_ns),
            calls: sum(|s| s.all_calls),
            unnamed_calls: sum(|s| s.unnamed_calls),
        }
    }
}

impl Sample {
    /// `ids` has the comparison's id of each method of the trace that has a name.
    fn new(trace: &Trace, ids: &[Option<u32>], names: usize, compare: Compare) -> Self {
        const CUT: u8 = Flags::OPEN_START.0 | Flags::OPEN_END.0;
        let mut sample = Sample::default();
        let id =
            |method: hindsight_decoder::MethodId| ids.get(method.0 as usize).copied().flatten();
        let mut times: Vec<Vec<u64>> = vec![Vec::new(); names];
        let mut counts = vec![0u64; names];
        for thread in trace.threads.iter().filter(|t| t.mode != Mode::Events) {
            // How often sampled calls were made is not known.
            let calls = thread.calls.exact();
            let own = match compare {
                Compare::SelfTime => Some(calls.self_ns()),
                Compare::Total => None,
            };
            sample.span_ns += thread.end_ns - thread.start_ns;
            sample.all_calls += calls.len() as u64;
            for i in 0..calls.len() {
                let Some(callee) = id(calls.method[i]) else {
                    let is_recorded = trace.methods.get(calls.method[i]).is_some();
                    sample.unnamed_calls += u64::from(is_recorded);
                    continue;
                };
                let duration = calls.end_ns[i] - calls.start_ns[i];
                counts[callee as usize] += 1;
                if calls.flags[i].0 & CUT == 0 {
                    let time = own.as_ref().map_or(duration, |own| own[i]);
                    times[callee as usize].push(time);
                }
                let caller = match calls.parent[i] {
                    NO_PARENT => None,
                    parent => match id(calls.method[parent as usize]) {
                        Some(caller) => Some(caller),
                        // Its caller isn't known.
                        None => continue,
                    },
                };
                let edge = sample.edges.entry((caller, callee)).or_default();
                if calls.flags[i].0 & CUT == 0 {
                    *edge = (edge.0 + 1, edge.1 + duration);
                }
            }
        }
        for (id, (mut times, count)) in times.into_iter().zip(counts).enumerate() {
            if count > 0 {
                sample.calls.insert(id as u32, count);
            }
            if !times.is_empty() {
                times.sort_unstable();
                times.shrink_to_fit();
                sample.times.insert(id as u32, times);
            }
        }
        sample
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hindsight_testkit::{events_only, stall, Script};

    fn decode(script: &Script) -> Trace {
        Trace::decode("t".as_ref(), &script.encode()).unwrap()
    }

    /// Frames whose method `C.work` takes `work(i)` ns in the `i`th of `frames`.
    fn frames(frames: u64, work: impl Fn(u64) -> u64) -> Script {
        let mut s = Script::new("p");
        let (frame, f, g) = (
            s.method("C.frame", "()V"),
            s.method("C.work", "(I)V"),
            s.method("C.same", "()V"),
        );
        let t = s.thread(1, "main");
        let mut r = s.at(t, 0);
        for i in 0..frames {
            r.enter(frame).after(10);
            r.call(f, work(i)).after(10).call(g, 1_000).after(10);
            r.exit().after(10);
        }
        s
    }

    fn diff(before: &[Script], after: &[Script]) -> Diff {
        let mut comparison = Comparison::new(Compare::SelfTime);
        for script in before {
            comparison.add(Side::Before, &decode(script));
        }
        for script in after {
            comparison.add(Side::After, &decode(script));
        }
        comparison.diff(0.05)
    }

    fn noise(i: u64) -> u64 {
        i * 7_919 % 101
    }

    #[test]
    fn a_trace_does_not_differ_from_itself() {
        for script in [stall(), frames(50, noise)] {
            let d = diff(std::slice::from_ref(&script), std::slice::from_ref(&script));
            assert_eq!(
                (d.methods.len(), d.new_calls.len(), d.gone_calls.len()),
                (0, 0, 0)
            );
            assert!(d.compared_methods > 0);
        }
    }

    #[test]
    fn traces_of_events_only_are_no_samples() {
        let mut comparison = Comparison::new(Compare::SelfTime);
        comparison.add(Side::Before, &decode(&stall()));
        for script in [events_only(), events_only()] {
            comparison.add(Side::After, &decode(&script));
        }
        assert!(comparison.has_events_only(Side::After));
        assert!(!comparison.has_events_only(Side::Before));
        let mut mixed = stall();
        mixed.events_thread(77, "events", 1);
        comparison.add(Side::After, &decode(&mixed));
        assert!(!comparison.has_events_only(Side::After));
        let d = comparison.diff(0.05);
        let after = &d.after;
        assert_eq!((after.traces, after.events_only_traces), (1, 2));
        assert_eq!(after.events_only_threads, 1);
        // The time of a thread without calls is no time in which there were none.
        assert_eq!(after.span_ns, d.before.span_ns);
    }

    #[test]
    fn only_the_method_that_got_slower_is_listed() {
        let d = diff(
            &[frames(50, |i| 1_000 + noise(i))],
            &[frames(60, |i| 1_500 + noise(i + 3))],
        );
        assert_eq!(d.unit, Unit::Calls);
        assert_eq!(d.methods.len(), 1, "{d:?}");
        let m = &d.methods[0];
        assert_eq!((&*m.method, m.verdict), ("C.work", Verdict::Slower));
        assert_eq!((m.before.calls, m.after.calls), (50, 60));
        assert!(
            (1.4..1.6).contains(&m.ratio) && m.corrected_p.unwrap() < 1e-6,
            "{m:?}"
        );
        let (low, high) = m.interval.unwrap();
        assert!(low < m.ratio && m.ratio < high && low > 1.4 && high < 1.6);
        // 500 ns more in each of 60 calls.
        assert!(m.effect_ns.abs_diff(30_000) < 500, "{}", m.effect_ns);
        let back = diff(
            &[frames(60, |i| 1_500 + noise(i + 3))],
            &[frames(50, |i| 1_000 + noise(i))],
        );
        assert_eq!(back.methods[0].verdict, Verdict::Faster);
        assert!(back.methods[0].effect_ns < 0);
    }

    #[test]
    fn few_calls_are_too_few_and_single_ones_are_no_trend() {
        let few = diff(&[frames(7, |_| 100)], &[frames(7, |_| 900)]);
        assert_eq!(
            (few.methods[0].verdict, few.methods[0].p),
            (Verdict::TooFew, None)
        );
        assert_eq!(few.tested_methods, 0);
        let slow_once = |i| if i == 20 { 700_000 } else { 1_000 + noise(i) };
        let single = diff(
            &[frames(50, |i| 1_000 + noise(i))],
            &[frames(50, slow_once)],
        );
        assert_eq!(single.methods[0].verdict, Verdict::SingleCalls);
        let by_chance = diff(
            &[frames(20, |i| 500 + 20 * noise(i))],
            &[frames(20, |i| 500 + 20 * noise(i + 50))],
        );
        assert!(by_chance
            .methods
            .iter()
            .all(|m| m.verdict == Verdict::Chance));
        assert!(!by_chance.methods.is_empty());
        let mixed = |i| if i % 3 == 0 { 3_500 } else { 800 };
        let contradictory = diff(&[frames(90, |_| 1_000)], &[frames(90, mixed)]);
        assert_eq!(contradictory.methods[0].verdict, Verdict::Contradictory);
    }

    #[test]
    fn in_sets_each_trace_is_a_sample() {
        // Runs differ by 20 % and more; calls within a run are alike.
        let set = |scale: u64, runs: [u64; 4]| {
            runs.map(|run| frames(30, |i| scale * run + noise(i) / 10))
        };
        let (a, b) = ([100, 120, 90, 110], [105, 125, 85, 112]);
        let chance = diff(&set(10, a), &set(10, b));
        assert_eq!(chance.unit, Unit::Traces);
        assert!(
            chance.methods.iter().all(|m| m.verdict == Verdict::Chance),
            "{chance:?}"
        );
        // Single calls would tell these two runs apart for sure.
        let pooled = diff(&set(10, a)[..1], &set(10, b)[3..]);
        assert_eq!(pooled.methods[0].verdict, Verdict::Slower);
        let slower = diff(&set(10, a), &set(20, b));
        assert_eq!(slower.methods[0].verdict, Verdict::Slower);
        let (low, high) = slower.methods[0].interval.unwrap();
        assert!(
            1.5 < low && low < 2.1 && 1.9 < high && high < 2.6,
            "{low} {high}"
        );
        // Too few traces with the method.
        let few = diff(
            &set(10, a),
            &[frames(30, |_| 5_000), frames(0, noise), frames(0, noise)],
        );
        assert_eq!(few.methods[0].verdict, Verdict::TooFew);
    }

    #[test]
    fn new_calls_are_listed_where_known_code_makes_them() {
        let calls = |with: bool| {
            let mut s = Script::new("p");
            let names = ["C.f", "C.g", "C.h", "C.k"];
            let [f, g, h, k] = names.map(|n| s.method(n, "()V"));
            let t = s.thread(1, "main");
            let mut r = s.at(t, 0);
            for _ in 0..10 {
                // g is known, but not in f; h is new, and k is called by it.
                r.enter(f).after(5);
                if with {
                    r.call(g, 7).enter(h).after(2).call(k, 3).exit();
                }
                r.exit().call(g, 7);
            }
            s
        };
        let d = diff(&[calls(false)], &[calls(true)]);
        let told: Vec<_> = d
            .new_calls
            .iter()
            .map(|c| (c.caller.as_deref(), &*c.callee, c.calls, c.ns, c.method_too))
            .collect();
        assert_eq!(
            told,
            [
                (Some("C.f"), "C.g", 10, 70, false),
                (Some("C.f"), "C.h", 10, 50, true)
            ]
        );
        assert!(d.new_calls[0].missed_by_chance < 0.05);
        assert_eq!(d.gone_calls, []);
        let back = diff(&[calls(true)], &[calls(false)]);
        assert_eq!(back.gone_calls.len(), 2);
    }

    #[test]
    fn calls_that_were_cut_are_not_compared() {
        let calls = |called_by_g: bool, still_running: bool| {
            let mut s = Script::new("p");
            let (f, g) = (s.method("C.f", "()V"), s.method("C.g", "()V"));
            let t = s.thread(1, "main");
            let mut r = s.at(t, 0);
            r.call(g, 5);
            for i in 0..10 {
                if called_by_g {
                    r.enter(g).call(f, 100 + i).exit();
                } else {
                    r.call(f, 100 + i);
                }
            }
            if still_running {
                r.enter(f).after(900_000);
            }
            s.stop_at(2_000_000);
            s
        };
        let d = diff(&[calls(false, false)], &[calls(false, true)]);
        assert_eq!(d.methods, []);
        // Its caller may have been cut, so a call without a caller is not new.
        let d = diff(&[calls(true, false)], &[calls(false, false)]);
        assert_eq!(d.new_calls, []);
        assert_eq!(d.gone_calls.len(), 1);
    }

    #[test]
    fn methods_without_a_symbol_are_counted_not_compared() {
        let mut s = Script::new("p");
        let t = s.thread(1, "main");
        s.at(t, 0).call(0x1234_5678, 5).after(5).exit();
        let mut other = Script::new("p");
        let t = other.thread(1, "main");
        other.at(t, 0).call(0x1234_0000, 5);
        let d = diff(&[s], &[other]);
        assert_eq!((d.before.unnamed_calls, d.compared_methods), (1, 0));
        assert_eq!(d.new_calls, []);
    }
}
