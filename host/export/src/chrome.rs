// SPDX-License-Identifier: Apache-2.0
//! The Trace Event Format of Chrome, as JSON: a complete event (`X`) a call, times in µs to the ns, as
//! CLOCK_BOOTTIME. Calls that were still running when the trace was taken have a begin only (`B`).

use std::io::{self, Write};

use hindsight_decoder::{Flags, Thread, Trace};

use crate::json::Json;
use crate::moments::{beside_calls, Beside, Fact, Flow};
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
    for (thread, beside) in threads.iter().zip(beside_calls(threads)) {
        let ids = format!(",\"pid\":{pid},\"tid\":{}", thread.tid);
        for slice in thread.slices.iter() {
            let runs = slice.flags.contains(Flags::OPEN_END) && slice.end_ns == thread.end_ns;
            json.raw(if runs {
                ",\n{\"ph\":\"B\""
            } else {
                ",\n{\"ph\":\"X\""
            })?
            .raw(&ids)?
            .raw(",\"ts\":")?
            .decimal(slice.start_ns, 3)?;
            if !runs {
                json.raw(",\"dur\":")?.decimal(slice.duration_ns(), 3)?;
            }
            json.raw(",\"name\":")?.raw(name_of(&names, slice.method))?;
            if slice.flags != Flags::default() {
                arguments(&mut json, slice.flags)?;
            }
            json.raw("}")?;
        }
        beside_the_calls(&mut json, &ids, thread, &beside)?;
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

fn beside_the_calls(
    json: &mut Json<'_>,
    ids: &str,
    thread: &Thread,
    beside: &Beside,
) -> io::Result<()> {
    for moment in &beside.moments {
        json.raw(",\n{\"ph\":\"i\",\"s\":\"t\"")?
            .raw(ids)?
            .raw(",\"ts\":")?
            .decimal(moment.at_ns, 3)?
            .raw(",\"name\":")?
            .string(moment.name)?
            .raw(",\"args\":{")?;
        let mut comma = "";
        for (name, fact) in &moment.facts {
            json.raw(comma)?.string(name)?.raw(":")?;
            comma = ",";
            match fact {
                Fact::Text(text) => json.string(text)?,
                Fact::Number(number) => json.number(*number)?,
                Fact::Pointer(pointer) => json.string(&format!("{pointer:#x}"))?,
            };
        }
        json.raw("}}")?;
        let (kind, id) = match moment.flow {
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
            .decimal(moment.at_ns, 3)?
            .raw("}")?;
    }
    for sample in &beside.samples {
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
