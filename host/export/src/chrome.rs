// SPDX-License-Identifier: Apache-2.0
//! The Trace Event Format of Chrome, as JSON: a complete event (`X`) per call, times in µs with three decimals, as
//! CLOCK_BOOTTIME. Calls that were still running when the trace was taken have a begin only (`B`).
//!
//! The format tells threads apart by their ids, so a second recording of a thread id gets a free one.

use std::io::{self, Write};

use hindsight_analysis::costs;
use hindsight_decoder::{Call, Flags, SampleTimes, Trace};

use crate::extras::{cost_facts, extras, Extras, Fact, Flow};
use crate::json::Json;
use crate::labels::{method_names, missing, name_of, thread_labels, unique_threads};
use crate::written::Written;

pub(crate) fn write(trace: &Trace, out: &mut dyn Write) -> io::Result<Written> {
    let threads = &trace.threads;
    let pid = u64::from(trace.process.pid);
    // Quoted and escaped once per method, not per call.
    let names: Vec<String> = method_names(trace)
        .iter()
        .map(serde_json::to_string)
        .collect::<Result<_, _>>()?;
    let mut json = Json::new(out);
    json.raw("{\"displayTimeUnit\":\"ns\",\"otherData\":{\"exporter\":\"hindsight\",\"reason\":")?
        .string(&trace.process.reason)?
        .raw(",\"isa\":")?
        .string(&trace.process.isa)?
        .raw(",\"missing\":[")?;
    let mut comma = "";
    for (what, count) in missing(trace) {
        json.raw(comma)?.string(&format!("{what}: {count}"))?;
        comma = ",";
    }
    json.raw("]},\"traceEvents\":[\n{\"ph\":\"M\",\"name\":\"process_name\",\"pid\":")?
        .number(pid)?
        .raw(",\"args\":{\"name\":")?
        .string(&trace.process.name)?
        .raw("}}")?;
    let unique = unique_threads(threads);
    let ids: Vec<String> = unique
        .iter()
        .map(|(tid, _)| format!(",\"pid\":{pid},\"tid\":{tid}"))
        .collect();
    for (ids, (_, name)) in ids.iter().zip(&unique) {
        json.raw(",\n{\"ph\":\"M\",\"name\":\"thread_name\"")?
            .raw(ids)?
            .raw(",\"args\":{\"name\":")?
            .string(name)?
            .raw("}}")?;
    }
    let mut async_ids = 0;
    let (costs, labels) = (costs(trace), thread_labels(threads));
    let labelled = ids.iter().zip(&labels);
    let of_threads = threads.iter().zip(&costs).zip(extras(trace));
    for (((thread, costs), extras), (ids, label)) in of_threads.zip(labelled) {
        let costs = costs.of_calls(&thread.calls);
        let samples = SampleTimes::of(thread);
        for (i, call) in thread.calls.iter().enumerate() {
            let runs = call.flags.contains(Flags::OPEN_END) && call.end_ns == thread.end_ns;
            json.raw(if runs {
                ",\n{\"ph\":\"B\""
            } else {
                ",\n{\"ph\":\"X\""
            })?
            .raw(ids)?
            .raw(",\"ts\":")?
            .decimal(call.start_ns, 3)?;
            if !runs {
                json.raw(",\"dur\":")?.decimal(call.duration_ns(), 3)?;
            }
            json.raw(",\"name\":")?.raw(name_of(&names, call.method))?;
            let cost = costs.get(&i).map(|cost| cost_facts(cost, &labels));
            if call.flags != Flags::default() || cost.is_some() {
                arguments(&mut json, &call, &samples, &cost.unwrap_or_default())?;
            }
            json.raw("}")?;
        }
        slices(
            &mut json,
            ids,
            thread.calls.is_empty(),
            &extras,
            &mut async_ids,
        )?;
        instants_and_samples(&mut json, ids, label, &extras)?;
    }
    json.raw("\n]}\n")?;
    json.hand_on()?;
    Ok(Written::of(threads))
}

/// What is known of a call besides its method and time.
fn arguments(
    json: &mut Json<'_>,
    call: &Call,
    samples: &SampleTimes,
    cost: &[(&'static str, Fact)],
) -> io::Result<()> {
    const TEXTS: [(Flags, &str); 5] = [
        (Flags::OPEN_START, "\"start\":\"before the trace\""),
        (Flags::OPEN_END, "\"end\":\"not seen\""),
        (Flags::BY_EXCEPTION, "\"left by\":\"exception\""),
        (Flags::NATIVE, "\"part\":\"native\""),
        (Flags::SAMPLED, "\"sampled\":true"),
    ];
    json.raw(",\"args\":{")?;
    let mut comma = "";
    for (_, text) in TEXTS.iter().filter(|(f, _)| call.flags.contains(*f)) {
        json.raw(comma)?.raw(text)?;
        comma = ",";
    }
    if call.flags.contains(Flags::SAMPLED) {
        let (earliest, latest) = samples.bounds(call);
        json.raw(",\"start_error_ns\":")?
            .number(call.start_ns.saturating_sub(earliest))?
            .raw(",\"end_error_ns\":")?
            .number(latest.saturating_sub(call.end_ns))?;
    }
    members(json, cost, comma)?;
    json.raw("}").map(|_| ())
}

/// Slices are on the thread's track if it has no calls, otherwise on one of their own: they may overlap calls.
fn slices(
    json: &mut Json<'_>,
    ids: &str,
    on_thread: bool,
    extras: &Extras,
    async_ids: &mut u64,
) -> io::Result<()> {
    for slice in &extras.slices {
        let phase = if on_thread { "X" } else { "b" };
        *async_ids += 1;
        json.raw(",\n{\"ph\":\"")?
            .raw(phase)?
            .raw("\",\"cat\":\"hindsight\"")?
            .raw(ids)?
            .raw(",\"ts\":")?
            .decimal(slice.start_ns, 3)?;
        if on_thread {
            json.raw(",\"dur\":")?
                .decimal(slice.end_ns - slice.start_ns, 3)?;
        } else {
            json.raw(",\"id\":")?.number(*async_ids)?;
        }
        json.raw(",\"name\":")?.string(&slice.name)?;
        facts(json, &slice.facts)?;
        json.raw("}")?;
        if !on_thread {
            json.raw(",\n{\"ph\":\"e\",\"cat\":\"hindsight\"")?
                .raw(ids)?
                .raw(",\"ts\":")?
                .decimal(slice.end_ns, 3)?
                .raw(",\"id\":")?
                .number(*async_ids)?
                .raw(",\"name\":")?
                .string(&slice.name)?
                .raw("}")?;
        }
        flows(json, ids, slice.start_ns, &slice.flows)?;
    }
    Ok(())
}

fn facts(json: &mut Json<'_>, facts: &[(&'static str, Fact)]) -> io::Result<()> {
    json.raw(",\"args\":{")?;
    members(json, facts, "")?;
    json.raw("}").map(|_| ())
}

/// The facts as members of an object, the first one after `comma`.
fn members(json: &mut Json<'_>, facts: &[(&'static str, Fact)], mut comma: &str) -> io::Result<()> {
    for (name, fact) in facts {
        json.raw(comma)?.string(name)?.raw(":")?;
        comma = ",";
        match fact {
            Fact::Text(text) => json.string(text)?,
            Fact::Number(number) => json.number(*number)?,
            Fact::Pointer(pointer) => json.string(&format!("{pointer:#x}"))?,
        };
    }
    Ok(())
}

fn flows(json: &mut Json<'_>, ids: &str, at_ns: u64, flows: &[Flow]) -> io::Result<()> {
    for flow in flows {
        let (kind, id) = match flow {
            Flow::From(id) => ("s", *id),
            Flow::To(id) => ("f\",\"bp\":\"e", *id),
        };
        json.raw(",\n{\"ph\":\"")?
            .raw(kind)?
            .raw("\",\"cat\":\"hindsight\",\"name\":\"leads to\",\"id\":")?
            .number(id)?
            .raw(ids)?
            .raw(",\"ts\":")?
            .decimal(at_ns, 3)?
            .raw("}")?;
    }
    Ok(())
}

fn instants_and_samples(
    json: &mut Json<'_>,
    ids: &str,
    label: &str,
    extras: &Extras,
) -> io::Result<()> {
    for instant in &extras.instants {
        json.raw(",\n{\"ph\":\"i\",\"s\":\"t\",\"cat\":\"hindsight\"")?
            .raw(ids)?
            .raw(",\"ts\":")?
            .decimal(instant.at_ns, 3)?
            .raw(",\"name\":")?
            .string(&instant.name)?;
        facts(json, &instant.facts)?;
        json.raw("}")?;
        flows(json, ids, instant.at_ns, &instant.flows)?;
    }
    for sample in &extras.samples {
        let name = format!("{label}: {}", sample.counter.name());
        json.raw(",\n{\"ph\":\"C\"")?
            .raw(ids)?
            .raw(",\"ts\":")?
            .decimal(sample.at_ns, 3)?
            .raw(",\"name\":")?
            .string(&name)?
            .raw(",\"args\":{\"value\":")?
            .number(sample.value)?
            .raw("}}")?;
    }
    Ok(())
}
