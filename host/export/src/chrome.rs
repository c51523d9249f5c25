// SPDX-License-Identifier: Apache-2.0
//! The Trace Event Format of Chrome, as JSON: a complete event (`X`) a call, times in µs to the ns, as
//! CLOCK_BOOTTIME. Calls that were still running when the trace was taken have a begin only (`B`).

use std::io::{self, Write};

use hindsight_decoder::{Flags, Thread, Trace};

use crate::events::{thread_events, Fact, Flow, ThreadEvents};
use crate::json::Json;
use crate::{method_names, name_of, Summary};

pub(crate) fn write(
    trace: &Trace,
    threads: &[&Thread],
    out: &mut dyn Write,
) -> io::Result<Summary> {
    let pid = u64::from(trace.process.pid);
    // Quoted and escaped once, not once a call.
    let names: Vec<String> = method_names(trace)
        .iter()
        .map(serde_json::to_string)
        .collect::<Result<_, _>>()?;
    let mut json = Json::new(out);
    json.raw("{\"displayTimeUnit\":\"ns\",\"otherData\":{\"exporter\":\"hindsight\",\"reason\":")?
        .string(&trace.process.reason)?
        .raw(",\"isa\":")?
        .string(&trace.process.isa)?
        .raw("},\"traceEvents\":[\n{\"ph\":\"M\",\"name\":\"process_name\",\"pid\":")?
        .number(pid)?
        .raw(",\"args\":{\"name\":")?
        .string(&trace.process.name)?
        .raw("}}")?;
    for thread in threads {
        meta(&mut json, pid, thread)?;
    }
    for (thread, recorded) in threads.iter().zip(thread_events(threads)) {
        let ids = format!(",\"pid\":{pid},\"tid\":{}", thread.tid);
        for call in thread.calls.iter() {
            let runs = call.flags.contains(Flags::OPEN_END) && call.end_ns == thread.end_ns;
            json.raw(if runs {
                ",\n{\"ph\":\"B\""
            } else {
                ",\n{\"ph\":\"X\""
            })?
            .raw(&ids)?
            .raw(",\"ts\":")?
            .decimal(call.start_ns, 3)?;
            if !runs {
                json.raw(",\"dur\":")?.decimal(call.duration_ns(), 3)?;
            }
            json.raw(",\"name\":")?.raw(name_of(&names, call.method))?;
            if call.flags != Flags::default() {
                arguments(&mut json, call.flags)?;
            }
            json.raw("}")?;
        }
        events_and_samples(&mut json, &ids, thread, &recorded)?;
    }
    json.raw("\n]}\n")?;
    json.hand_on()?;
    Ok(Summary::of(threads))
}

fn meta(json: &mut Json<'_>, pid: u64, thread: &Thread) -> io::Result<()> {
    json.raw(",\n{\"ph\":\"M\",\"name\":\"thread_name\",\"pid\":")?
        .number(pid)?
        .raw(",\"tid\":")?
        .number(u64::from(thread.tid))?
        .raw(",\"args\":{\"name\":")?
        .string(&thread.name)?
        .raw("}}")
        .map(|_| ())
}

fn arguments(json: &mut Json<'_>, flags: Flags) -> io::Result<()> {
    const TEXTS: [(Flags, &str); 4] = [
        (Flags::OPEN_START, "\"start\":\"before the trace\""),
        (Flags::OPEN_END, "\"end\":\"not seen\""),
        (Flags::BY_EXCEPTION, "\"left by\":\"exception\""),
        (Flags::NATIVE, "\"part\":\"native\""),
    ];
    let mut separator = ",\"args\":{";
    for (_, text) in TEXTS.iter().filter(|(flag, _)| flags.contains(*flag)) {
        json.raw(separator)?.raw(text)?;
        separator = ",";
    }
    json.raw("}").map(|_| ())
}

fn events_and_samples(
    json: &mut Json<'_>,
    ids: &str,
    thread: &Thread,
    recorded: &ThreadEvents,
) -> io::Result<()> {
    for event in &recorded.events {
        json.raw(",\n{\"ph\":\"i\",\"s\":\"t\"")?
            .raw(ids)?
            .raw(",\"ts\":")?
            .decimal(event.at_ns, 3)?
            .raw(",\"name\":")?
            .string(event.name)?
            .raw(",\"args\":{")?;
        let mut comma = "";
        for (name, fact) in &event.facts {
            json.raw(comma)?.string(name)?.raw(":")?;
            comma = ",";
            match fact {
                Fact::Text(text) => json.string(text)?,
                Fact::Number(number) => json.number(*number)?,
                Fact::Pointer(pointer) => json.string(&format!("{pointer:#x}"))?,
            };
        }
        json.raw("}}")?;
        let (kind, id) = match event.flow {
            Some(Flow::From(id)) => ("s", id),
            Some(Flow::To(id)) => ("f\",\"bp\":\"e", id),
            None => continue,
        };
        json.raw(",\n{\"ph\":\"")?
            .raw(kind)?
            .raw("\",\"cat\":\"hindsight\",\"name\":\"leads to\",\"id\":")?
            .number(id)?
            .raw(ids)?
            .raw(",\"ts\":")?
            .decimal(event.at_ns, 3)?
            .raw("}")?;
    }
    for sample in &recorded.samples {
        let name = format!("{} {}: {}", thread.name, thread.tid, sample.counter.name());
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
