// SPDX-License-Identifier: Apache-2.0
//! Compares the calls that stacks show with the recorded ones.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fmt;

use hindsight_decoder::{
    Call, Calls, Flags, MethodId, SampleTimes, Sampler, Thread, Trace, LEAST_DURATION_NS,
};

/// Differences that are printed.
const EXAMPLES: usize = 4;

/// The results of programs.
#[derive(Debug, Default)]
pub(super) struct Sums {
    /// Stacks taken.
    pub(super) stacks: u64,
    /// Stacks in which the recorded calls of that moment are not.
    pub(super) wrong: u64,
    /// Long calls.
    pub(super) calls: u64,
    /// Of these, calls that the stacks show.
    found: u64,
    /// Found calls that the stacks cannot tell from another one: two executions look like one call.
    shared: u64,
    /// The sum of the durations of the other found calls, ns.
    exact_ns: u64,
    /// The sum of the differences between their durations and the sampled ones, ns.
    error_ns: u64,
    /// The same, of sampled calls that stand for a single recorded one.
    one_ns: u64,
    one_error_ns: u64,
    /// Found calls whose start or end is beyond the bounds that the stacks give.
    pub(super) outside: u64,
    pub(super) examples: Vec<String>,
}

impl Sums {
    pub(super) fn add(&mut self, other: &Sums) {
        self.stacks += other.stacks;
        self.wrong += other.wrong;
        self.calls += other.calls;
        self.found += other.found;
        self.exact_ns += other.exact_ns;
        self.error_ns += other.error_ns;
        self.one_ns += other.one_ns;
        self.one_error_ns += other.one_error_ns;
        self.shared += other.shared;
        self.outside += other.outside;
    }

    /// Percent of the long calls that the stacks show.
    pub(super) fn coverage(&self) -> f64 {
        percent(self.found, self.calls)
    }

    /// The mean error of the durations of the calls that are told apart, weighted by their durations, percent.
    pub(super) fn error(&self) -> f64 {
        percent(self.error_ns, self.exact_ns)
    }

    fn example(&mut self, text: impl FnOnce() -> String) {
        if self.examples.len() < EXAMPLES {
            self.examples.push(text());
        }
    }
}

impl fmt::Display for Sums {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} stacks ({} wrong), {} long calls, coverage {:.1} %, error {:.1} % ({:.1} % of single calls; {:.1} % of the calls are not told apart), {} out of bounds",
            self.stacks,
            self.wrong,
            self.calls,
            self.coverage(),
            self.error(),
            percent(self.one_error_ns, self.one_ns),
            percent(self.shared, self.found),
            self.outside
        )
    }
}

fn percent(part: u64, whole: u64) -> f64 {
    100.0 * part as f64 / whole.max(1) as f64
}

/// Compares all threads of a trace. Long calls are those of at least `long_ns`.
pub(super) fn compare(trace: &Trace, long_ns: u64) -> Sums {
    let mut sums = Sums::default();
    let sampler = Sampler::new(&trace.stacks, &trace.methods);
    for thread in &trace.threads {
        check_stacks(trace, thread, &mut sums);
        let sampled = sampler.calls(&thread.events).calls;
        check_calls(trace, thread, &sampled, long_ns, &mut sums);
    }
    sums
}

/// Whether each stack has the calls that were running when it was taken, in their order. It has more: inlined methods, and
/// methods entered before the thread was traced.
fn check_stacks(trace: &Trace, thread: &Thread, sums: &mut Sums) {
    let calls = &thread.calls;
    for event in &thread.events {
        let Some(stack) = event.stack() else {
            continue;
        };
        sums.stacks += 1;
        let mut frames: Vec<MethodId> = trace.stacks.frames(stack).map(|f| f.method).collect();
        frames.reverse();
        let mut running = running_at(calls, event.at_ns);
        if event.get("cut") != 0 {
            let kept = running.len().saturating_sub(frames.len());
            // At most as many frames as the stack has.
            running.drain(..kept);
            // The outermost of these may be cut: inlined methods take frames.
            while !running.is_empty() && !is_subsequence(&running, &frames) {
                running.remove(0);
            }
            // As many inlined frames as that are not in one call.
            if running.len() * 4 >= frames.len() {
                continue;
            }
        } else if is_subsequence(&running, &frames) {
            continue;
        }
        sums.wrong += 1;
        sums.example(|| {
            let names = |methods: &[MethodId]| {
                let innermost = methods.iter().rev().take(8).rev();
                let names: Vec<_> = innermost.map(|&m| trace.methods.name(m)).collect();
                format!("{} calls up to {}", methods.len(), names.join(" "))
            };
            format!(
                "{} at {}: running were {}; the stack is {}",
                thread.name,
                event.at_ns - thread.start_ns,
                names(&running),
                names(&frames)
            )
        });
    }
}

/// The methods of the calls that run at this time, outermost first.
fn running_at(calls: &Calls, at_ns: u64) -> Vec<MethodId> {
    let last = calls.start_ns.partition_point(|&start| start <= at_ns);
    let Some(last) = last.checked_sub(1) else {
        return Vec::new();
    };
    let path = calls.path_to(last).into_iter();
    let known = |i: &usize| calls.method[*i] != MethodId::NOT_RECORDED;
    path.filter(|&i| calls.end_ns[i] > at_ns)
        .filter(known)
        .map(|i| calls.method[i])
        .collect()
}

fn is_subsequence(part: &[MethodId], whole: &[MethodId]) -> bool {
    let mut rest = whole.iter();
    part.iter().all(|method| rest.any(|other| other == method))
}

fn check_calls(trace: &Trace, thread: &Thread, sampled: &Calls, long_ns: u64, sums: &mut Sums) {
    let times = SampleTimes::of(thread);
    let mut by_method: HashMap<MethodId, Vec<Call>> = HashMap::new();
    for call in sampled.iter() {
        by_method.entry(call.method).or_default().push(call);
    }
    // For each sampled call, the recorded calls that it stands for.
    let mut stands_for: BTreeMap<(u64, u32), (Call, Vec<Call>)> = BTreeMap::new();
    let is_whole = |call: &Call| {
        !call.flags.contains(Flags::OPEN_START) && !call.flags.contains(Flags::OPEN_END)
    };
    let mut recursive: HashSet<MethodId> = HashSet::new();
    for (i, call) in thread.calls.iter().enumerate() {
        if !is_whole(&call) || call.duration_ns() < long_ns {
            continue;
        }
        sums.calls += 1;
        let candidates = by_method.get(&call.method).map_or(&[][..], |c| &c[..]);
        let Some(best) = most_alike(&call, candidates) else {
            sums.example(|| {
                let name = trace.methods.name(call.method);
                format!("not found: {name}, {} us", call.duration_ns() / 1000)
            });
            continue;
        };
        sums.found += 1;
        let caller = |&i: &usize| thread.calls.parent_of(i);
        let mut callers = std::iter::successors(thread.calls.parent_of(i), caller);
        if callers.any(|i| thread.calls.method[i] == call.method) {
            recursive.insert(call.method);
        }
        let entry = stands_for.entry((best.start_ns, best.depth));
        entry.or_insert((*best, Vec::new())).1.push(call);
    }
    for (best, calls) in stands_for.values() {
        // The others cannot be told from it.
        let Some(call) = most_alike(best, calls) else {
            continue;
        };
        let difference = call.duration_ns().abs_diff(best.duration_ns());
        sums.shared += calls.len() as u64 - 1;
        sums.exact_ns += call.duration_ns();
        sums.error_ns += difference;
        // A sampled call that is longer than the recorded one consists of several, which may be short.
        let is_one = call.start_ns <= best.start_ns
            && best.end_ns <= call.end_ns + LEAST_DURATION_NS
            && calls.len() == 1;
        if !is_one {
            continue;
        }
        sums.one_ns += call.duration_ns();
        sums.one_error_ns += difference;
        // Of a method that calls itself, another level may be the most alike.
        if recursive.contains(&call.method) {
            continue;
        }
        let (earliest, latest) = times.bounds(best);
        if call.start_ns < earliest || latest < call.end_ns {
            sums.outside += 1;
            sums.example(|| {
                let name = trace.methods.name(call.method);
                format!(
                    "out of bounds: {name}, begins {} us before the bound, ends {} us after it",
                    earliest.saturating_sub(call.start_ns) / 1000,
                    call.end_ns.saturating_sub(latest) / 1000
                )
            });
        }
    }
}

/// The call that overlaps this one for the longest time; of equal ones, as in recursion, the one of the most similar length.
fn most_alike<'a>(call: &Call, candidates: &'a [Call]) -> Option<&'a Call> {
    let overlap = |other: &&Call| {
        let start = call.start_ns.max(other.start_ns);
        let end = call.end_ns.min(other.end_ns);
        let difference = call.duration_ns().abs_diff(other.duration_ns());
        (end.saturating_sub(start), std::cmp::Reverse(difference))
    };
    let meets = |other: &&Call| other.start_ns <= call.end_ns && call.start_ns <= other.end_ns;
    candidates.iter().filter(meets).max_by_key(overlap)
}

#[cfg(test)]
mod tests {
    use super::*;
    use hindsight_decoder::Extension;
    use hindsight_testkit::{Script, ThreadIndex};

    const MS: u64 = 1_000_000;

    struct Recording {
        script: Script,
        thread: ThreadIndex,
        methods: Vec<u64>,
    }

    /// A thread that is to record methods 0, 1 and 2.
    fn recording() -> Recording {
        let mut script = Script::new("test");
        let methods = (0..3)
            .map(|i| script.method(&format!("A.m{i}"), "()V"))
            .collect();
        let thread = script.thread(100, "main");
        Recording {
            script,
            thread,
            methods,
        }
    }

    impl Recording {
        fn enter(&mut self, at_ms: u64, method: usize) {
            let method = self.methods[method];
            self.script.at(self.thread, at_ms * MS).enter(method);
        }

        fn exit(&mut self, at_ms: u64) {
            self.script.at(self.thread, at_ms * MS).exit();
        }

        fn stack(&mut self, at_ms: u64, methods: &[usize]) {
            let frames: Vec<_> = methods.iter().map(|&m| (self.methods[m], 1)).collect();
            let payload = self.script.stack(&frames);
            self.script
                .at(self.thread, at_ms * MS)
                .extension(Extension::Stack, &payload);
        }

        fn compare(&mut self) -> Sums {
            self.script.stop_at(200 * MS);
            let bytes = self.script.encode();
            compare(&Trace::decode("test".as_ref(), &bytes).unwrap(), 10 * MS)
        }
    }

    #[test]
    fn long_calls_that_stacks_show_are_found() {
        let mut recording = recording();
        recording.enter(1, 0);
        recording.enter(10, 1);
        // An inlined method is in the stack only.
        recording.stack(12, &[0, 2, 1]);
        recording.stack(28, &[0, 2, 1]);
        recording.exit(30);
        recording.enter(40, 2);
        recording.exit(60);
        recording.stack(70, &[0]);
        recording.exit(90);
        let sums = recording.compare();
        assert_eq!((sums.stacks, sums.wrong, sums.outside), (3, 0, 0));
        // Method 2 ran for 20 ms without a stack, but was inlined elsewhere at another time.
        assert_eq!((sums.calls, sums.found), (3, 2));
        // 4 of 20 ms, and 31 of 89 ms.
        assert_eq!(sums.error_ns / MS, 34);
    }

    #[test]
    fn stacks_without_a_running_call_are_wrong() {
        let mut recording = recording();
        recording.enter(1, 0);
        recording.enter(2, 1);
        recording.stack(3, &[0]);
        recording.stack(4, &[1, 0]);
        recording.exit(5);
        recording.exit(6);
        assert_eq!(recording.compare().wrong, 2);
    }

    #[test]
    fn two_calls_that_look_like_one_are_counted() {
        let mut recording = recording();
        recording.enter(1, 0);
        for start in [10, 40] {
            recording.enter(start, 1);
            recording.stack(start + 5, &[0, 1]);
            recording.exit(start + 20);
        }
        recording.exit(90);
        let sums = recording.compare();
        assert_eq!((sums.found, sums.shared, sums.outside), (3, 1, 0));
    }
}
