// SPDX-License-Identifier: Apache-2.0
//! pprof's `profile.proto`, gzipped: for each call chain of each thread, the number of its calls and the self time of
//! its innermost method.

use std::io::{self, Write};

use flate2::{write::GzEncoder, Compression};
use hashbrown::HashMap;
use hindsight_decoder::{MethodId, Trace};
use prost::Message;

use crate::labels::{method_names, missing, thread_names};
use crate::tree::Tree;
use crate::written::Written;

/// `perftools.profiles.Profile`: the fields that are needed.
#[derive(Clone, PartialEq, Message)]
struct Profile {
    #[prost(message, repeated, tag = "1")]
    sample_type: Vec<ValueType>,
    #[prost(message, repeated, tag = "2")]
    sample: Vec<Sample>,
    #[prost(message, repeated, tag = "4")]
    location: Vec<Location>,
    #[prost(message, repeated, tag = "5")]
    function: Vec<Function>,
    #[prost(string, repeated, tag = "6")]
    string_table: Vec<String>,
    #[prost(int64, tag = "9")]
    time_nanos: i64,
    #[prost(int64, tag = "10")]
    duration_nanos: i64,
    #[prost(int64, repeated, tag = "13")]
    comment: Vec<i64>,
    #[prost(int64, tag = "14")]
    default_sample_type: i64,
}

#[derive(Clone, PartialEq, Message)]
struct ValueType {
    #[prost(int64, tag = "1")]
    r#type: i64,
    #[prost(int64, tag = "2")]
    unit: i64,
}

#[derive(Clone, PartialEq, Message)]
struct Sample {
    /// Innermost first.
    #[prost(uint64, repeated, tag = "1")]
    location_id: Vec<u64>,
    #[prost(int64, repeated, tag = "2")]
    value: Vec<i64>,
    #[prost(message, repeated, tag = "3")]
    label: Vec<Label>,
}

#[derive(Clone, PartialEq, Message)]
struct Label {
    #[prost(int64, tag = "1")]
    key: i64,
    #[prost(int64, tag = "2")]
    str: i64,
    #[prost(int64, tag = "3")]
    num: i64,
}

#[derive(Clone, PartialEq, Message)]
struct Location {
    #[prost(uint64, tag = "1")]
    id: u64,
    #[prost(message, repeated, tag = "4")]
    line: Vec<Line>,
}

#[derive(Clone, PartialEq, Message)]
struct Line {
    #[prost(uint64, tag = "1")]
    function_id: u64,
}

#[derive(Clone, PartialEq, Message)]
struct Function {
    #[prost(uint64, tag = "1")]
    id: u64,
    #[prost(int64, tag = "2")]
    name: i64,
    #[prost(int64, tag = "3")]
    system_name: i64,
    #[prost(int64, tag = "4")]
    filename: i64,
}

/// Numbers of strings. A new string is added to a part of the profile.
#[derive(Default)]
struct Strings(HashMap<String, i64>);

impl Strings {
    fn number(&mut self, text: &str, part: &mut Profile) -> i64 {
        let next = self.0.len() as i64;
        *self.0.entry_ref(text).or_insert_with(|| {
            part.string_table.push(text.to_owned());
            next
        })
    }
}

/// Writes a profile in parts: protobuf reads concatenated messages as one.
struct Parts<W: Write> {
    out: W,
    encoded: Vec<u8>,
}

impl<W: Write> Parts<W> {
    fn write(&mut self, part: &Profile) -> io::Result<()> {
        self.encoded.clear();
        part.encode(&mut self.encoded).map_err(io::Error::other)?;
        self.out.write_all(&self.encoded)
    }
}

pub(crate) fn write(trace: &Trace, out: &mut dyn Write) -> io::Result<Written> {
    let threads = &trace.threads;
    let mut parts = Parts {
        out: GzEncoder::new(out, Compression::fast()),
        encoded: Vec::new(),
    };
    let mut written = Written::of(threads);
    let mut strings = Strings::default();
    let start_ns = threads.iter().map(|t| t.start_ns).min().unwrap_or(0);
    let end_ns = threads.iter().map(|t| t.end_ns).max().unwrap_or(0);
    let taken = trace.clock.reference();
    let before_taken = taken.boottime_ns.saturating_sub(start_ns);

    let mut head = Profile::default();
    // The first string is always empty.
    strings.number("", &mut head);
    for (what, unit) in [("calls", "count"), ("time", "nanoseconds")] {
        let value = ValueType {
            r#type: strings.number(what, &mut head),
            unit: strings.number(unit, &mut head),
        };
        head.default_sample_type = value.r#type;
        head.sample_type.push(value);
    }
    head.time_nanos = i64::try_from(taken.realtime_ns.saturating_sub(before_taken)).unwrap_or(0);
    head.duration_nanos = i64::try_from(end_ns.saturating_sub(start_ns)).unwrap_or(i64::MAX);
    let facts = [
        format!("process: {} ({})", trace.process.name, trace.process.pid),
        format!("reason: {}", trace.process.reason),
    ];
    let missing = missing(trace);
    let missing = missing
        .iter()
        .map(|(what, n)| format!("missing: {what}: {n}"));
    for fact in facts.into_iter().chain(missing) {
        let fact = strings.number(&fact, &mut head);
        head.comment.push(fact);
    }
    let thread_key = strings.number("thread", &mut head);
    let tid_key = strings.number("tid", &mut head);
    parts.write(&head)?;

    let names = method_names(trace);
    for (i, name) in names.iter().enumerate() {
        let mut part = Profile::default();
        let id = i as u64 + 1;
        let method = trace.methods.get(MethodId(i as u32));
        // If the two names were equal, pprof would try to demangle the name as C++.
        let system_name = match method {
            Some(m) if !m.signature.is_empty() => {
                strings.number(&format!("{name}{}", m.signature), &mut part)
            }
            _ => 0,
        };
        let name = strings.number(name, &mut part);
        let filename = strings.number(method.map_or("", |m| &m.source_file), &mut part);
        part.function.push(Function {
            id,
            name,
            system_name,
            filename,
        });
        part.location.push(Location {
            id,
            line: vec![Line { function_id: id }],
        });
        parts.write(&part)?;
    }

    for (thread, name) in threads.iter().zip(thread_names(threads)) {
        let mut tree = Tree::default();
        written.left_out_calls += tree.add(&thread.calls, |call| call.method);
        for (i, node) in tree.nodes.iter().enumerate() {
            let mut part = Profile::default();
            let label = vec![
                Label {
                    key: thread_key,
                    str: strings.number(&name, &mut part),
                    num: 0,
                },
                Label {
                    key: tid_key,
                    str: 0,
                    num: i64::from(thread.tid),
                },
            ];
            let location = |m: MethodId| u64::from(m.0).min(names.len() as u64 - 1) + 1;
            part.sample.push(Sample {
                location_id: tree.stack(i as u32).map(location).collect(),
                value: vec![
                    i64::try_from(node.calls).unwrap_or(i64::MAX),
                    i64::try_from(node.self_ns).unwrap_or(i64::MAX),
                ],
                label,
            });
            parts.write(&part)?;
            written.chains += 1;
        }
    }
    parts.out.finish()?;
    Ok(written)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read as _;

    #[test]
    fn parts_are_read_as_one_profile_with_all_calls_and_times() {
        let trace = Trace::decode("t".as_ref(), &hindsight_testkit::stall().encode()).unwrap();
        let threads = &trace.threads;
        let mut out = Vec::new();
        let written = write(&trace, &mut out).unwrap();
        let mut plain = Vec::new();
        flate2::read::GzDecoder::new(&out[..])
            .read_to_end(&mut plain)
            .unwrap();
        let profile = Profile::decode(&plain[..]).unwrap();
        assert_eq!(profile.sample.len() as u64, written.chains);
        assert_eq!(profile.string_table[0], "");
        let sum = |i: usize| -> i64 { profile.sample.iter().map(|s| s.value[i]).sum() };
        let calls = threads.iter().map(|t| t.calls.len()).sum::<usize>();
        assert_eq!(sum(0), calls as i64);
        let own: u64 = threads.iter().flat_map(|t| t.calls.self_ns()).sum();
        assert_eq!(sum(1), own as i64);
        let name = |s: &Sample| {
            let f = &profile.function[s.location_id[0] as usize - 1];
            profile.string_table[f.name as usize].as_str()
        };
        let longest = profile.sample.iter().max_by_key(|s| s.value[1]).unwrap();
        assert_eq!(name(longest), "android.os.MessageQueue.nativePollOnce");
    }
}
