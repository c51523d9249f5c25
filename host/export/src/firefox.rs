// SPDX-License-Identifier: Apache-2.0
//! The Firefox Profiler's processed profile format, gzipped.
//!
//! A thread's calls become samples: one whenever the stack changes, with the time until the next as its
//! weight (`tracing-ms`). So call tree, flame graph and stack chart are exact. Version 60 of the format is the first in
//! which threads share their tables, so that the tables can be written after the threads. The profiler upgrades older
//! versions when it loads them.

use std::io::{self, Write};

use flate2::{write::GzEncoder, Compression};
use hindsight_decoder::{Call, Method, Thread, Trace};

use crate::extras::{extras, Extras, Fact};
use crate::json::Json;
use crate::labels::{main_position, missing, Frames, SAMPLED};
use crate::tree::{Tree, NO_CALLER};
use crate::walk::{walk_closed, CallEvent};
use crate::written::Written;

/// `preprocessedProfileVersion`
const VERSION: u64 = 60;
/// The stack of samples without a call.
const NO_STACK: u32 = u32::MAX;

/// Categories colour the graphs; the discriminants are indices into [`CATEGORIES`].
#[derive(Clone, Copy)]
enum Category {
    Other,
    App,
    Android,
    Java,
    Waiting,
}

/// Names and colours, in the order of [`Category`]. The profiler uses the grey one as its default, and shows the
/// transparent one as idle.
const CATEGORIES: [(&str, &str); 5] = [
    ("Other", "grey"),
    ("App", "yellow"),
    ("Android", "green"),
    ("Java", "lightblue"),
    ("Waiting", "transparent"),
];

/// Methods in which a thread waits, as `class.name`.
const WAITING: [&str; 6] = [
    "android.os.MessageQueue.nativePollOnce",
    "java.lang.Object.wait",
    "java.lang.Thread.sleep",
    "java.util.concurrent.locks.LockSupport.park",
    "java.util.concurrent.locks.LockSupport.parkNanos",
    "sun.misc.Unsafe.park",
];

fn category(method: &Method, full_name: &str) -> Category {
    const ANDROID: [&str; 4] = [
        "android.",
        "androidx.",
        "com.android.",
        "com.google.android.",
    ];
    const JAVA: [&str; 7] = [
        "java.", "javax.", "jdk.", "sun.", "libcore.", "dalvik.", "kotlin.",
    ];
    let in_any = |prefixes: &[&str]| prefixes.iter().any(|p| method.class.starts_with(p));
    match () {
        () if !method.is_named() => Category::Other,
        () if WAITING.contains(&full_name) => Category::Waiting,
        () if in_any(&ANDROID) => Category::Android,
        () if in_any(&JAVA) => Category::Java,
        () => Category::App,
    }
}

/// Strings by number.
#[derive(Default)]
struct Strings {
    all: Vec<String>,
    numbers: hashbrown::HashMap<String, u64>,
}

impl Strings {
    fn number(&mut self, text: &str) -> u64 {
        let all = &mut self.all;
        *self.numbers.entry_ref(text).or_insert_with(|| {
            all.push(text.to_owned());
            (all.len() - 1) as u64
        })
    }
}

/// The time from which on a thread had this stack.
struct Sample {
    at_ns: u64,
    stack: u32,
}

pub(crate) fn write(trace: &Trace, out: &mut dyn Write) -> io::Result<Written> {
    let mut gzip = GzEncoder::new(out, Compression::fast());
    let written = write_plain(trace, &mut gzip)?;
    gzip.finish()?;
    Ok(written)
}

fn write_plain(trace: &Trace, out: &mut dyn Write) -> io::Result<Written> {
    let threads = &trace.threads;
    let epoch = threads.iter().map(|t| t.start_ns).min().unwrap_or(0);
    let mut strings = Strings::default();
    let mut tree = Tree::default();
    let frames = Frames::of(trace);
    let mut json = Json::new(out);
    json.raw("{\"meta\":")?;
    meta(&mut json, trace, epoch)?;
    json.raw(",\n\"libs\":[],\"counters\":[],\"threads\":[")?;
    let main = trace.main_thread().map(|t| t.key);
    for (i, (thread, extras)) in threads.iter().zip(extras(trace)).enumerate() {
        json.raw(if i == 0 { "\n" } else { ",\n" })?;
        let samples = samples(thread, &frames, &mut tree);
        write_thread(&mut json, trace, thread, main == Some(thread.key), epoch)?;
        json.raw(",\"samples\":")?;
        write_samples(&mut json, &samples, epoch)?;
        json.raw(",\"markers\":")?;
        markers(&mut json, &Marker::of(&extras), epoch, &mut strings)?;
        json.raw("}")?;
    }
    json.raw("],\n\"shared\":{")?;
    shared(&mut json, trace, &frames, &tree, &mut strings)?;
    json.raw("}}\n")?;
    json.hand_on()?;
    Ok(Written::of(threads))
}

/// Times are ms since the start of the profile.
fn time<'a, 'b>(json: &'a mut Json<'b>, at_ns: u64, epoch: u64) -> io::Result<&'a mut Json<'b>> {
    json.decimal(at_ns.saturating_sub(epoch), 6)
}

fn meta(json: &mut Json<'_>, trace: &Trace, epoch: u64) -> io::Result<()> {
    let taken = trace.clock.reference();
    let before_taken = taken.boottime_ns.saturating_sub(epoch);
    let end = trace
        .threads
        .iter()
        .map(|t| t.end_ns)
        .max()
        .unwrap_or(epoch);
    json.raw("{\"version\":27,\"preprocessedProfileVersion\":")?
        .number(VERSION)?
        .raw(",\"product\":")?
        .string(&trace.process.name)?
        .raw(",\"importedFrom\":\"Hindsight\",\"startTime\":")?
        .decimal(taken.realtime_ns.saturating_sub(before_taken), 6)?
        .raw(",\"startTimeAsClockMonotonicNanosecondsSinceBoot\":")?
        .number(taken.monotonic_ns.saturating_sub(before_taken))?
        .raw(",\"profilingStartTime\":0,\"profilingEndTime\":")?;
    time(json, end, epoch)?
        // Samples are not periodic: each has its own weight. This is the shortest time that the profiler shows.
        .raw(",\"interval\":0.001,\"processType\":0,\"stackwalk\":1,\"debug\":false")?
        .raw(",\"platform\":\"Android\",\"oscpu\":")?
        .string(&format!("Android {}", trace.process.isa))?
        .raw(",\"symbolicated\":true,\"symbolicationNotSupported\":true")?
        .raw(",\"usesOnlyOneStackType\":true,\"sourceCodeIsNotOnSearchfox\":true")?
        .raw(",\"keepProfileThreadOrder\":true,\"initialSelectedThreads\":[")?
        .number(main_position(trace) as u64)?
        .raw(
            "],\"sampleUnits\":{\"time\":\"ms\",\"eventDelay\":\"ms\",\"threadCPUDelta\":\"ns\"}",
        )?;
    json.raw(",\"categories\":")?;
    json.array(CATEGORIES, |json, (name, color)| {
        json.raw("{\"name\":")?
            .string(name)?
            .raw(",\"color\":")?
            .string(color)?
            .raw(",\"subcategories\":[\"Other\"]}")
            .map(|_| ())
    })?;
    json.raw(
        ",\"markerSchema\":[{\"name\":\"Hindsight\",\"display\":[\"marker-chart\",\"marker-table\",\
         \"timeline-overview\"],\"tableLabel\":\"{marker.data.details}\",\"fields\":[{\"key\":\"details\",\
         \"label\":\"Details\",\"format\":\"string\"}]}]",
    )?;
    let facts = [
        ("Saved because", trace.process.reason.clone()),
        ("Process", trace.process.name.clone()),
        ("Instruction set", trace.process.isa.clone()),
    ];
    let missing = missing(trace);
    let missing = missing
        .iter()
        .map(|(what, n)| ("Missing", format!("{what}: {n}")));
    json.raw(",\"extra\":[{\"label\":\"Hindsight\",\"entries\":")?;
    json.array(facts.into_iter().chain(missing), |json, (label, value)| {
        json.raw("{\"label\":")?
            .string(label)?
            .raw(",\"format\":\"string\",\"value\":")?
            .string(&value)?
            .raw("}")
            .map(|_| ())
    })?;
    json.raw("}]}").map(|_| ())
}

/// The stacks of a thread, with the times of their changes. The last sample has no stack: it ends the one before.
fn samples(thread: &Thread, frames: &Frames, tree: &mut Tree) -> Vec<Sample> {
    let mut samples: Vec<Sample> = Vec::with_capacity(2 * thread.calls.len() + 1);
    let mut running: Vec<u32> = Vec::new();
    let mut change = |at_ns: u64, stack: u32| match samples.last_mut() {
        // A stack that lasted no time is replaced.
        Some(last) if last.at_ns == at_ns => last.stack = stack,
        _ => samples.push(Sample { at_ns, stack }),
    };
    let visited: Result<(), std::convert::Infallible> = walk_closed(&thread.calls, |call_event| {
        match call_event {
            CallEvent::Begin(call) => {
                let caller = running.last().copied().unwrap_or(NO_CALLER);
                running.push(tree.node(caller, frames.frame(&call)));
                change(call.start_ns, running.last().copied().unwrap_or(NO_STACK));
            }
            CallEvent::End(Call { end_ns, .. }) => {
                running.pop();
                change(end_ns, running.last().copied().unwrap_or(NO_STACK));
            }
        }
        Ok(())
    });
    match visited {
        Ok(()) => samples,
    }
}

fn write_thread(
    json: &mut Json<'_>,
    trace: &Trace,
    thread: &Thread,
    is_main: bool,
    epoch: u64,
) -> io::Result<()> {
    let pid = trace.process.pid;
    json.raw("{\"processType\":\"default\",\"processStartupTime\":0,\"processShutdownTime\":null")?
        .raw(",\"registerTime\":")?;
    time(json, thread.start_ns, epoch)?
        .raw(",\"unregisterTime\":null,\"pausedRanges\":[],\"name\":")?
        .string(&thread.name)?
        .raw(",\"processName\":")?
        .string(&trace.process.name)?
        .raw(",\"isMainThread\":")?
        .raw(if is_main { "true" } else { "false" })?
        .raw(",\"pid\":")?
        .string(&pid.to_string())?
        .raw(",\"tid\":")?
        .number(u64::from(thread.tid))
        .map(|_| ())
}

fn write_samples(json: &mut Json<'_>, samples: &[Sample], epoch: u64) -> io::Result<()> {
    json.raw("{\"weightType\":\"tracing-ms\",\"length\":")?
        .number(samples.len() as u64)?
        .raw(",\"stack\":")?
        .array(samples, |json, sample| match sample.stack {
            NO_STACK => json.raw("null").map(|_| ()),
            stack => json.number(u64::from(stack)).map(|_| ()),
        })?
        .raw(",\"time\":")?
        .array(samples, |json, s| time(json, s.at_ns, epoch).map(|_| ()))?;
    let next = samples
        .iter()
        .skip(1)
        .map(|s| s.at_ns)
        .map(Some)
        .chain([None]);
    json.raw(",\"weight\":")?
        .array(samples.iter().zip(next), |json, (sample, next)| {
            let weight = next.map_or(0, |next| next - sample.at_ns);
            json.decimal(weight, 6).map(|_| ())
        })?
        .raw("}")
        .map(|_| ())
}

/// An event that is not a call.
struct Marker<'a> {
    start_ns: u64,
    /// Of an event with a duration.
    end_ns: Option<u64>,
    name: &'a str,
    facts: &'a [(&'static str, Fact)],
}

impl<'a> Marker<'a> {
    /// The markers of a thread, in the order of time.
    fn of(extras: &'a Extras) -> Vec<Self> {
        let instants = extras.instants.iter().map(|instant| Marker {
            start_ns: instant.at_ns,
            end_ns: None,
            name: &instant.name,
            facts: &instant.facts,
        });
        let slices = extras.slices.iter().map(|slice| Marker {
            start_ns: slice.start_ns,
            end_ns: Some(slice.end_ns),
            name: &slice.name,
            facts: &slice.facts,
        });
        let mut markers: Vec<_> = instants.chain(slices).collect();
        markers.sort_by_key(|m| m.start_ns);
        markers
    }
}

fn markers(
    json: &mut Json<'_>,
    markers: &[Marker<'_>],
    epoch: u64,
    strings: &mut Strings,
) -> io::Result<()> {
    json.raw("{\"length\":")?
        .number(markers.len() as u64)?
        .raw(",\"data\":")?
        .array(markers, |json, marker| {
            let details: Vec<String> = marker
                .facts
                .iter()
                .map(|(name, fact)| match fact {
                    Fact::Text(text) => format!("{name} {text}"),
                    Fact::Number(number) => format!("{name} {number}"),
                    Fact::Pointer(pointer) => format!("{name} {pointer:#x}"),
                })
                .collect();
            json.raw("{\"type\":\"Hindsight\",\"details\":")?
                .string(&details.join(", "))?
                .raw("}")
                .map(|_| ())
        })?
        .raw(",\"name\":")?
        .array(markers, |json, marker| {
            json.number(strings.number(marker.name)).map(|_| ())
        })?
        .raw(",\"startTime\":")?
        .array(markers, |json, m| time(json, m.start_ns, epoch).map(|_| ()))?
        .raw(",\"endTime\":")?
        .array(markers, |json, m| match m.end_ns {
            Some(end_ns) => time(json, end_ns, epoch).map(|_| ()),
            None => json.raw("null").map(|_| ()),
        })?
        // Instants, and intervals.
        .raw(",\"phase\":")?
        .array(markers, |json, m| {
            json.number(u64::from(m.end_ns.is_some())).map(|_| ())
        })?
        .raw(",\"category\":")?
        .repeat("0", markers.len())?
        .raw("}")
        .map(|_| ())
}

/// The tables that all threads share, with one frame and one function per method, and another one where its calls are made
/// of stacks.
fn shared(
    json: &mut Json<'_>,
    trace: &Trace,
    frames: &Frames,
    tree: &Tree,
    strings: &mut Strings,
) -> io::Result<()> {
    let names = &frames.names;
    let count = names.len();
    let method = |i: usize| frames.method(trace, i);

    json.raw("\"stackTable\":{\"length\":")?
        .number(tree.nodes.len() as u64)?
        .raw(",\"frame\":")?
        .array(&tree.nodes, |json, n| {
            json.number(u64::from(n.method.0)).map(|_| ())
        })?
        .raw(",\"prefix\":")?
        .array(&tree.nodes, |json, n| match n.caller {
            NO_CALLER => json.raw("null").map(|_| ()),
            caller => json.number(u64::from(caller)).map(|_| ()),
        })?;

    json.raw("},\n\"frameTable\":{\"length\":")?
        .number(count as u64)?;
    for (column, value) in [
        ("address", "-1"),
        ("inlineDepth", "0"),
        ("subcategory", "0"),
        ("nativeSymbol", "null"),
        ("innerWindowID", "null"),
        ("line", "null"),
        ("column", "null"),
    ] {
        json.raw(",\"")?
            .raw(column)?
            .raw("\":")?
            .repeat(value, count)?;
    }
    json.raw(",\"func\":")?
        .array(0..count, |json, i| json.number(i as u64).map(|_| ()))?
        .raw(",\"category\":")?
        .array(names.iter().enumerate(), |json, (i, name)| {
            let name = name.strip_suffix(SAMPLED).unwrap_or(name);
            let category = method(i).map_or(Category::Other, |m| category(m, name));
            json.number(category as u64).map(|_| ())
        })?;

    let mut sources: Vec<u64> = Vec::new();
    let mut by_file = Strings::default();
    json.raw("},\n\"funcTable\":{\"length\":")?
        .number(count as u64)?;
    for (column, value) in [
        ("isJS", "false"),
        ("relevantForJS", "false"),
        ("resource", "-1"),
        ("lineNumber", "null"),
        ("columnNumber", "null"),
    ] {
        json.raw(",\"")?
            .raw(column)?
            .raw("\":")?
            .repeat(value, count)?;
    }
    json.raw(",\"name\":")?
        .array(names, |json, name| {
            json.number(strings.number(name)).map(|_| ())
        })?
        .raw(",\"source\":")?
        .array(0..count, |json, i| {
            let Some(file) = method(i).map(|m| &m.source_file).filter(|f| !f.is_empty()) else {
                return json.raw("null").map(|_| ());
            };
            let source = by_file.number(file);
            if source == sources.len() as u64 {
                sources.push(strings.number(file));
            }
            json.number(source).map(|_| ())
        })?;
    json.raw("},\n\"sources\":{\"length\":")?
        .number(sources.len() as u64)?
        .raw(",\"id\":")?
        .repeat("null", sources.len())?
        .raw(",\"filename\":")?
        .array(&sources, |json, s| json.number(*s).map(|_| ()))?
        .raw("},\"resourceTable\":{\"length\":0,\"lib\":[],\"name\":[],\"host\":[],\"type\":[]}")?
        .raw(",\"nativeSymbols\":{\"length\":0,\"libIndex\":[],\"address\":[],\"name\":[]")?
        .raw(",\"functionSize\":[]},\n\"stringArray\":")?
        .array(&strings.all, |json, text| json.string(text).map(|_| ()))
        .map(|_| ())
}

#[cfg(test)]
mod tests {
    use super::*;
    use hindsight_decoder::Extension;
    use hindsight_testkit::Script;
    use serde_json::{json, Value};

    fn exported(s: &Script) -> Value {
        let trace = Trace::decode("t".as_ref(), &s.encode()).unwrap();
        let mut out = Vec::new();
        write_plain(&trace, &mut out).unwrap();
        serde_json::from_slice(&out).unwrap()
    }

    #[test]
    fn a_sample_for_each_change_of_the_stack() {
        let mut s = Script::new("p");
        let (f, g) = (s.method("a.C.f", "()V"), s.method("java.B.g", "()V"));
        let t = s.thread(1, "main");
        s.at(t, 0)
            .enter(f)
            .after(1_000_000)
            .call(g, 0)
            .call(g, 2_500_000)
            .call(g, 500_000)
            .exit();
        let profile = exported(&s);
        let samples = &profile["threads"][0]["samples"];
        // No time passes between the second and the third call of g, nor between the last end of g and the end of f.
        assert_eq!(samples["stack"], json!([0, 1, 1, null]));
        assert_eq!(samples["time"], json!([0, 1, 3.5, 4]));
        assert_eq!(samples["weight"], json!([1, 2.5, 0.5, 0]));
        let stacks = &profile["shared"]["stackTable"];
        assert_eq!(stacks["prefix"], json!([null, 0]));
        assert_eq!(
            profile["shared"]["frameTable"]["category"],
            json!([
                Category::App as u8,
                Category::Java as u8,
                Category::Other as u8
            ])
        );
        assert_eq!(
            profile["meta"]["startTime"].as_f64().unwrap(),
            (hindsight_testkit::REALTIME_OFFSET + hindsight_testkit::EPOCH) as f64 / 1e6
        );
    }

    #[test]
    fn tables_are_as_long_as_they_say() {
        let mut s = hindsight_testkit::stall();
        s.at(hindsight_testkit::ThreadIndex::FIRST, 2_000_000_000)
            .extension(Extension::UserMark, &[5]);
        let profile = exported(&s);
        let mut tables: Vec<&Value> = profile["shared"].as_object().unwrap().values().collect();
        for thread in profile["threads"].as_array().unwrap() {
            tables.extend([&thread["samples"], &thread["markers"]]);
        }
        for table in tables.into_iter().filter(|t| t.is_object()) {
            let columns = table.as_object().unwrap().values();
            for column in columns.filter_map(Value::as_array) {
                assert_eq!(table["length"], column.len());
            }
        }
        let marker = &profile["threads"][0]["markers"];
        let name = marker["name"][0].as_u64().unwrap() as usize;
        assert_eq!(profile["shared"]["stringArray"][name], "mark");
    }
}
