// SPDX-License-Identifier: Apache-2.0
//! Per-method statistics without personal data, safe to upload: sums and distributions by method, without names of
//! threads, texts, paths, ids or times of day. Summaries can be added up. `docs/summary.md` describes the format.

use std::collections::{BTreeMap, HashMap};

use hindsight_decoder::{MethodId, Mode, Thread, Trace};
use serde::{Deserialize, Serialize};

use crate::events::SpanKind;
use crate::stalls::{stalls, Chain, EventStall, Question, STALL_NS};

/// The `schema` of a [`Summary`].
pub const SUMMARY_SCHEMA: &str = "hindsight-summary/1";
/// Stands for names that are unknown, or that are not let out.
const UNNAMED: &str = "<unnamed>";
/// Most stalls listed of one trace.
const MAX_STALLS: usize = 10;
/// Most calls listed of a stall's chain, the innermost ones.
const MAX_CHAIN: usize = 32;

/// Sums over the calls of one or more traces.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Summary {
    /// [`SUMMARY_SCHEMA`].
    pub schema: String,
    /// Number of traces.
    pub traces: u64,
    /// Number of traces of each program.
    pub programs: BTreeMap<String, u64>,
    /// Number of traces of each instruction set.
    pub isas: BTreeMap<String, u64>,
    /// Main threads.
    pub main: Part,
    /// All other threads.
    pub others: Part,
    /// Parts of traces that could not be read, so that their calls are missing here.
    #[serde(default)]
    pub damaged: u64,
    /// Stalls of main threads, of 100 ms or more.
    pub stalls: Vec<Stall>,
}

/// Threads of one kind.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Part {
    /// Number of threads.
    pub threads: u64,
    /// How many of them recorded events only, so that their calls are not counted.
    #[serde(default)]
    pub events_only: u64,
    /// Time that their rings cover, added up, ns.
    pub span_ns: u64,
    /// Calls that they took back while they recorded, because they were short: these are not counted.
    #[serde(default)]
    pub taken_back: u64,
    /// Number of threads that recorded calls, by the limit below which they took calls back: see [`rewind_limit`].
    #[serde(default)]
    pub rewind: BTreeMap<String, u64>,
    /// Their methods; longest self time first.
    pub methods: Vec<MethodSummary>,
    /// All other methods, added up.
    pub unlisted: Unlisted,
}

/// Methods that are not listed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Unlisted {
    /// Their calls.
    pub calls: u64,
    /// Their self time, ns.
    pub self_ns: u64,
}

/// All calls of a method, overloads together.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MethodSummary {
    /// `class.name`.
    pub method: String,
    /// Number of calls.
    pub calls: u64,
    /// Time in the method itself, ns.
    pub self_ns: u64,
    /// Durations of the calls whose entry and exit were both recorded.
    pub durations: Histogram,
}

/// A stall of a main thread.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stall {
    /// The methods of the chain, outermost first. Of a thread that recorded events only, the message or task, as in
    /// `message com.example.Screen`; empty if that is not recorded.
    pub chain: Vec<String>,
    /// The method, message or task of another thread that was waited for, where the trace records that thread as the owner of the lock
    /// or as the waker; never a guess.
    pub culprit: Option<String>,
    /// One duration for each time that it happened.
    pub durations: Histogram,
}

/// A distribution of durations. Bucket `4 e + f` counts durations from `2^e (1 + f / 4)` ns up to the lower limit of the
/// next bucket; 0 is counted as 1 ns.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Histogram {
    buckets: BTreeMap<u16, u64>,
}

impl Histogram {
    fn bucket(ns: u64) -> u16 {
        let ns = ns.max(1);
        let e = ns.ilog2();
        // The two bits after the leading one.
        let f = if e >= 2 { ns >> (e - 2) } else { ns << (2 - e) } & 3;
        (4 * e + f as u32) as u16
    }

    /// Smallest duration in a bucket, rounded down, ns.
    fn least(bucket: u16) -> u64 {
        let (e, f) = (u32::from(bucket / 4).min(63), u64::from(bucket % 4));
        if e >= 2 {
            (4 + f) << (e - 2)
        } else {
            (4 + f) >> (2 - e)
        }
    }

    /// One duration, ns.
    fn of(ns: u64) -> Self {
        let mut histogram = Histogram::default();
        histogram.add(ns);
        histogram
    }

    /// Counts a duration.
    pub fn add(&mut self, ns: u64) {
        *self.buckets.entry(Self::bucket(ns)).or_default() += 1;
    }

    /// Number of durations.
    pub fn count(&self) -> u64 {
        self.buckets.values().copied().fold(0, u64::saturating_add)
    }

    /// The quantile `part` (0 ..= 1) of the durations, ns, to a quarter of an octave; 0 if there is none.
    pub fn quantile(&self, part: f64) -> u64 {
        let rank = (self.count() as f64 * part).ceil().max(1.0) as u64;
        let mut seen: u64 = 0;
        for (&bucket, &count) in &self.buckets {
            seen = seen.saturating_add(count);
            if seen >= rank {
                let (least, next) = (Self::least(bucket), Self::least(bucket.saturating_add(1)));
                return least + next.saturating_sub(least) / 2;
            }
        }
        0
    }

    fn merge(&mut self, other: &Histogram) {
        for (&bucket, &count) in &other.buckets {
            let sum = self.buckets.entry(bucket).or_default();
            *sum = sum.saturating_add(count);
        }
    }
}

/// A limit of calls that were taken back, as a key of [`Part::rewind`]: ns, rounded to two digits, since a thread's limit is
/// a number of its counter's ticks; `all`, or `off` for none.
fn rewind_limit(below_ns: u64) -> String {
    match below_ns {
        0 => "off".to_owned(),
        u64::MAX => "all".to_owned(),
        ns => {
            let unit = 10_u64.pow(ns.ilog10().saturating_sub(1));
            let rounded = ns.saturating_add(unit / 2) / unit;
            rounded.saturating_mul(unit).to_string()
        }
    }
}

impl Summary {
    /// The largest limit below which threads took calls back, ns: `u64::MAX` for calls of any length, 0 for none.
    pub fn rewind_below_ns(&self) -> u64 {
        let limits = self.main.rewind.keys().chain(self.others.rewind.keys());
        let limit = |key: &String| match key.as_str() {
            "all" => u64::MAX,
            key => key.parse().unwrap_or(0),
        };
        limits.map(limit).max().unwrap_or(0)
    }

    /// The summary of one trace. Of the main thread and of the others, it lists the `limit` methods with the longest
    /// self time.
    pub fn of(trace: &Trace, limit: usize) -> Self {
        // Names of packages and system processes may leave; a path or a command line may not.
        let plain = |c: char| c.is_ascii_alphanumeric() || "._:-".contains(c);
        let name = |text: &str| {
            if !text.is_empty() && text.chars().all(plain) {
                text.to_owned()
            } else {
                UNNAMED.to_owned()
            }
        };
        let mut summary = Summary {
            schema: SUMMARY_SCHEMA.to_owned(),
            traces: 1,
            programs: [(name(&trace.process.name), 1)].into(),
            isas: [(name(&trace.process.isa), 1)].into(),
            damaged: trace.damaged.len() as u64,
            ..Summary::default()
        };
        let main = trace.main_thread();
        let method = |id: MethodId| match trace.methods.get(id) {
            Some(m) if m.is_named() => m.full_name(),
            _ => UNNAMED.to_owned(),
        };
        for is_main in [true, false] {
            let mut sums: HashMap<MethodId, MethodSummary> = HashMap::new();
            let mut part = Part::default();
            let is_of_kind = |key| main.is_some_and(|m| m.key == key) == is_main;
            for thread in trace.threads.iter().filter(|t| is_of_kind(t.key)) {
                // How often sampled calls were made is not known.
                let calls = thread.calls.exact();
                part.threads += 1;
                part.events_only += u64::from(thread.mode == Mode::Events);
                part.span_ns += thread.end_ns - thread.start_ns;
                part.taken_back = part.taken_back.saturating_add(thread.stats.taken_back);
                if thread.mode != Mode::Events {
                    let limit = rewind_limit(thread.stats.rewind_below_ns);
                    *part.rewind.entry(limit).or_default() += 1;
                }
                let own = calls.self_ns();
                for (i, call) in calls.iter().enumerate() {
                    let sum = sums.entry(call.method).or_default();
                    sum.calls += 1;
                    sum.self_ns += own[i];
                    const CUT: u8 = hindsight_decoder::Flags::OPEN_START.0
                        | hindsight_decoder::Flags::OPEN_END.0;
                    if call.flags.0 & CUT == 0 {
                        sum.durations.add(call.duration_ns());
                    }
                }
            }
            // Overloads, and methods whose class was loaded again, are one.
            let mut by_name: BTreeMap<String, MethodSummary> = BTreeMap::new();
            for (id, sum) in sums {
                by_name.entry(method(id)).or_default().merge(&sum);
            }
            part.methods = listed(by_name);
            part.cut(limit);
            *(if is_main {
                &mut summary.main
            } else {
                &mut summary.others
            }) = part;
        }
        for stall in main.map_or_else(Vec::new, |main| stalls_of(trace, main)) {
            summary.add_stall(stall);
        }
        summary.sort_stalls();
        summary
    }

    /// Adds another summary. The order in which summaries are added does not matter.
    pub fn merge(&mut self, other: &Summary) {
        if self.schema.is_empty() {
            self.schema = SUMMARY_SCHEMA.to_owned();
        }
        self.traces = self.traces.saturating_add(other.traces);
        add_counts(&mut self.programs, &other.programs);
        add_counts(&mut self.isas, &other.isas);
        self.damaged = self.damaged.saturating_add(other.damaged);
        self.main.merge(&other.main);
        self.others.merge(&other.others);
        for stall in &other.stalls {
            self.add_stall(stall.clone());
        }
        self.sort_stalls();
    }

    fn add_stall(&mut self, stall: Stall) {
        let same = |s: &&mut Stall| s.chain == stall.chain && s.culprit == stall.culprit;
        match self.stalls.iter_mut().find(same) {
            Some(known) => known.durations.merge(&stall.durations),
            None => self.stalls.push(stall),
        }
    }

    fn sort_stalls(&mut self) {
        self.stalls.sort_by(|a, b| {
            let key =
                |s: &Stall| std::cmp::Reverse((s.durations.count(), s.durations.quantile(1.0)));
            (key(a), &a.chain, &a.culprit).cmp(&(key(b), &b.chain, &b.culprit))
        });
    }
}

fn add_counts(mine: &mut BTreeMap<String, u64>, theirs: &BTreeMap<String, u64>) {
    for (name, count) in theirs {
        let sum = mine.entry(name.clone()).or_default();
        *sum = sum.saturating_add(*count);
    }
}

/// The stalls of a thread, without names that may not be let out.
fn stalls_of(trace: &Trace, thread: &Thread) -> Vec<Stall> {
    let question = Question {
        limit: MAX_STALLS,
        stall_ns: STALL_NS,
    };
    let found = stalls(trace, thread, &question);
    if found.stall != Some(true) {
        return Vec::new();
    }
    let of_calls = found.chains.iter().map(of_calls);
    of_calls
        .chain(found.event_stalls.iter().map(of_events))
        .collect()
}

fn of_calls(chain: &Chain) -> Stall {
    let shown = |name: &str| match name.starts_with('<') {
        true => UNNAMED.to_owned(),
        false => name.to_owned(),
    };
    let calls = &chain.calls;
    let innermost = calls.iter().skip(calls.len().saturating_sub(MAX_CHAIN));
    Stall {
        chain: innermost.map(|call| shown(&call.method)).collect(),
        culprit: chain.culprit.as_ref().map(|(method, _)| shown(method)),
        durations: Histogram::of(chain.held_ns),
    }
}

fn of_events(stall: &EventStall) -> Stall {
    let what = match stall.what {
        kind @ (SpanKind::Message | SpanKind::Task) => work(kind, &stall.name),
        kind => kind.name().to_owned(),
    };
    let known = |doing: &str| {
        let (kind, class) = doing.split_once(' ').unwrap_or((doing, ""));
        let mut kinds = [SpanKind::Message, SpanKind::Task].into_iter();
        match kinds.find(|k| k.name() == kind) {
            Some(kind) => work(kind, class),
            // A method: what the program names comes after the kind of work.
            None if is_class(doing) => doing.to_owned(),
            None => UNNAMED.to_owned(),
        }
    };
    Stall {
        chain: vec![what],
        culprit: stall.culprit.as_ref().map(|(doing, _)| known(doing)),
        durations: Histogram::of(stall.held_ns),
    }
}

/// A message or task with its class. The names of other work, such as a mark of the program, may be a person's texts.
fn work(kind: SpanKind, class: &str) -> String {
    let kind = kind.name();
    match class {
        "" => kind.to_owned(),
        class if is_class(class) => format!("{kind} {class}"),
        _ => format!("{kind} {UNNAMED}"),
    }
}

/// Whether a name can be that of a class.
fn is_class(name: &str) -> bool {
    let is_part = |c: char| c.is_alphanumeric() || "._$-[]".contains(c);
    !name.is_empty() && name.chars().all(is_part)
}

impl Part {
    fn merge(&mut self, other: &Part) {
        self.threads = self.threads.saturating_add(other.threads);
        self.events_only = self.events_only.saturating_add(other.events_only);
        self.span_ns = self.span_ns.saturating_add(other.span_ns);
        self.taken_back = self.taken_back.saturating_add(other.taken_back);
        add_counts(&mut self.rewind, &other.rewind);
        self.unlisted
            .add(other.unlisted.calls, other.unlisted.self_ns);
        let mut by_name: BTreeMap<String, MethodSummary> = BTreeMap::new();
        for method in self.methods.drain(..).chain(other.methods.iter().cloned()) {
            by_name
                .entry(method.method.clone())
                .or_default()
                .merge(&method);
        }
        self.methods = listed(by_name);
    }

    /// Lists only the first methods.
    fn cut(&mut self, limit: usize) {
        for method in self.methods.drain(limit.min(self.methods.len())..) {
            self.unlisted.add(method.calls, method.self_ns);
        }
    }
}

impl Unlisted {
    fn add(&mut self, calls: u64, self_ns: u64) {
        self.calls = self.calls.saturating_add(calls);
        self.self_ns = self.self_ns.saturating_add(self_ns);
    }
}

impl MethodSummary {
    fn merge(&mut self, other: &MethodSummary) {
        self.calls = self.calls.saturating_add(other.calls);
        self.self_ns = self.self_ns.saturating_add(other.self_ns);
        self.durations.merge(&other.durations);
    }
}

fn listed(by_name: BTreeMap<String, MethodSummary>) -> Vec<MethodSummary> {
    let named = by_name
        .into_iter()
        .map(|(method, sum)| MethodSummary { method, ..sum });
    let mut methods: Vec<MethodSummary> = named.collect();
    // By name where equal: the sort is stable.
    methods.sort_by_key(|m| std::cmp::Reverse(m.self_ns));
    methods
}

#[cfg(test)]
mod tests {
    use super::*;
    use hindsight_decoder::Extension;
    use hindsight_testkit::{events_only, stall, Script, ThreadIndex};

    fn of(script: &Script, limit: usize) -> Summary {
        Summary::of(
            &Trace::decode("t".as_ref(), &script.encode()).unwrap(),
            limit,
        )
    }

    #[test]
    fn nothing_but_methods_and_numbers_leaves() {
        let mut script = stall();
        script.process.name = "/data/app/secret.apk".into();
        script.process.reason = "a secret message".into();
        script
            .process
            .extra
            .push(("secret".into(), "secret".into()));
        let t = script.thread(9_999, "secret-thread");
        script.at(t, 0).call(0x5ec_2e70, 10).after(5).exit();
        let json = serde_json::to_string(&of(&script, 100)).unwrap();
        let texts = json.replace(SUMMARY_SCHEMA, "");
        let is_number = |c: char| c.is_ascii_digit();
        let numbers: Vec<&str> = texts.split(|c| !is_number(c)).collect();
        for hidden in ["secret", "notes-sync", "0x", "/"] {
            assert!(!texts.contains(hidden), "{hidden}: {json}");
        }
        for id in ["4200", "4217", "9999", "10123"] {
            assert!(!numbers.contains(&id), "{id}: {json}");
        }
        assert!(json.contains("com.example.notes.NoteFile.syncToFlash"));
        assert!(json.contains("<unnamed>"));
    }

    #[test]
    fn a_stall_is_listed_without_a_guess() {
        let (summary, all) = (of(&stall(), 5), of(&stall(), 1_000));
        assert_eq!(summary.stalls.len(), 1);
        let stall = &summary.stalls[0];
        let last = stall.chain.last().map(String::as_str);
        assert_eq!(last, Some("com.example.notes.NoteStore.find"));
        // The trace does not name the owner of the lock, and a conclusion from times may not enter the sums of a fleet.
        assert_eq!(stall.culprit, None);
        assert_eq!(stall.durations.count(), 1);
        assert!((600_000_000..800_000_000).contains(&stall.durations.quantile(0.5)));
        assert_eq!((summary.main.threads, summary.others.threads), (1, 1));
        // A call that was still running has no duration.
        let app = all
            .main
            .methods
            .iter()
            .find(|m| m.method.ends_with("NotesApp.main"));
        let app = app.unwrap();
        assert_eq!((app.calls, app.durations.count()), (1, 0));
        // Methods that are not listed are counted.
        let sum = |p: &Part| p.methods.iter().map(|m| m.calls).sum::<u64>() + p.unlisted.calls;
        assert_eq!(summary.main.methods.len(), 5);
        assert_eq!(sum(&summary.main), sum(&all.main));
        assert_eq!(all.main.unlisted, Unlisted::default());
    }

    #[test]
    fn stalls_of_threads_that_record_events_only_are_listed_without_texts() {
        let summary = of(&events_only(), 5);
        let stall = &summary.stalls[0];
        assert_eq!(stall.chain, ["message com.example.notes.NoteListScreen"]);
        let culprit = "task com.example.notes.SaveTask";
        assert_eq!(stall.culprit.as_deref(), Some(culprit));
        assert_eq!(stall.durations.count(), 1);
        assert_eq!(summary.main.events_only, 1);
        assert_eq!(summary.others.events_only, summary.others.threads);
        let mut script = Script::new("p");
        let text = script.string("a secret");
        let t = script.events_thread(1, "main", 1);
        script
            .at(t, 0)
            .event(Extension::UserBegin, &[("name", text), ("id", 1)])
            .after(500_000_000)
            .event(Extension::UserEnd, &[("name", text), ("id", 1)]);
        let marked = of(&script, 5);
        assert_eq!(marked.stalls[0].chain, ["marked"]);
        assert!(!serde_json::to_string(&marked).unwrap().contains("secret"));
        let mut sum = summary.clone();
        sum.merge(&marked);
        assert_eq!(sum.main.events_only, 2);
    }

    #[test]
    fn limits_of_calls_taken_back_are_counted_by_thread() {
        let with = |below_ns, calls| {
            let mut script = stall();
            script.taken_back(ThreadIndex::FIRST, below_ns, calls);
            of(&script, 5)
        };
        let mut sum = with(50_000, 7);
        assert_eq!((sum.main.taken_back, sum.rewind_below_ns()), (7, 50_000));
        for (below_ns, calls) in [(49_960, 2), (1_234, 1), (u32::MAX, 5)] {
            sum.merge(&with(below_ns, calls));
        }
        sum.merge(&of(&stall(), 5));
        assert_eq!((sum.main.taken_back, sum.others.taken_back), (15, 0));
        let limits: Vec<(&str, u64)> = (sum.main.rewind.iter())
            .map(|(limit, threads)| (limit.as_str(), *threads))
            .collect();
        assert_eq!(limits, [("1200", 1), ("50000", 2), ("all", 1), ("off", 1)]);
        assert_eq!(sum.others.rewind["off"], sum.others.threads);
        assert_eq!(sum.rewind_below_ns(), u64::MAX);
        // A summary of an earlier version does not say.
        assert_eq!(Summary::default().rewind_below_ns(), 0);
        for (ns, key) in [(1, "1"), (9, "9"), (99, "99"), (101, "100"), (995, "1000")] {
            assert_eq!(rewind_limit(ns), key);
        }
    }

    #[test]
    fn summaries_add_up_in_any_order() {
        let mut s = Script::new("com.example.other");
        let f = s.method("com.example.notes.NoteStore.find", "()V");
        let t = s.thread(1, "main");
        s.at(t, 0).call(f, 150_000_000);
        let (a, b, c) = (of(&stall(), 100), of(&s, 100), of(&stall(), 3));
        let add = |parts: [&Summary; 3]| {
            let mut sum = Summary::default();
            parts.into_iter().for_each(|p| sum.merge(p));
            sum
        };
        let sum = add([&a, &b, &c]);
        assert_eq!(sum, add([&c, &a, &b]));
        assert_eq!(sum, add([&b, &c, &a]));
        assert_eq!(sum.traces, 3);
        assert_eq!(sum.programs["com.example.notes"], 2);
        assert_eq!(sum.stalls.len(), 2);
        assert_eq!(sum.stalls[0].durations.count(), 2);
        let find = sum
            .main
            .methods
            .iter()
            .find(|m| m.method.ends_with("find"))
            .unwrap();
        assert_eq!(find.calls, 3);
    }

    #[test]
    fn quantiles_are_right_to_a_quarter_of_an_octave() {
        for ns in (0..63)
            .map(|e| (1u64 << e) + (1 << e) / 3)
            .chain([0, 1, 2, 3, u64::MAX])
        {
            let mut h = Histogram::default();
            h.add(ns);
            let got = h.quantile(0.5) as f64;
            assert!((got / ns.max(1) as f64 - 1.0).abs() <= 0.25, "{ns}: {got}");
        }
        let mut h = Histogram::default();
        (1..=1_000).for_each(|i| h.add(i * 1_000));
        assert!((440_000..560_000).contains(&h.quantile(0.5)));
        assert!((880_000..1_120_000).contains(&h.quantile(0.99)));
        assert_eq!(Histogram::default().quantile(0.5), 0);
    }
}
