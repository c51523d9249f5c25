// SPDX-License-Identifier: Apache-2.0
//! speedscope's own JSON format: one evented profile a thread, times in ns since the trace's first event.

use std::io::{self, Write};

use hindsight_decoder::{Call, Thread, Trace};

use crate::calls::{walk_closed, CallEvent};
use crate::json::Json;
use crate::{method_names, Summary};

pub(crate) fn write(
    trace: &Trace,
    threads: &[&Thread],
    out: &mut dyn Write,
) -> io::Result<Summary> {
    let names = method_names(trace);
    let epoch = threads.iter().map(|t| t.start_ns).min().unwrap_or(0);
    let main = trace.main_thread().map(|t| t.tid);
    let active = threads.iter().position(|t| Some(t.tid) == main);

    let mut json = Json::new(out);
    json.raw("{\"$schema\":\"https://www.speedscope.app/file-format-schema.json\",\"exporter\":")?
        .string(concat!("hindsight ", env!("CARGO_PKG_VERSION")))?
        .raw(",\"name\":")?
        .string(&trace.process.name)?
        .raw(",\"activeProfileIndex\":")?
        .number(active.unwrap_or(0) as u64)?;
    json.raw(",\"shared\":{\"frames\":")?;
    json.array(names.iter().enumerate(), |json, (i, name)| {
        json.raw("{\"name\":")?.string(name)?;
        let method = trace.methods.get(hindsight_decoder::MethodId(i as u32));
        if let Some(file) = method.map(|m| &m.source_file).filter(|f| !f.is_empty()) {
            json.raw(",\"file\":")?.string(file)?;
        }
        json.raw("}").map(|_| ())
    })?;
    json.raw("},\"profiles\":")?;
    json.array(threads, |json, thread| {
        json.raw("\n{\"type\":\"evented\",\"unit\":\"nanoseconds\",\"name\":")?
            .string(&format!("{} ({})", thread.name, thread.tid))?
            // The same for all, so that threads can be compared.
            .raw(",\"startValue\":0,\"endValue\":")?
            .number(thread.end_ns.max(thread.start_ns) - epoch)?
            .raw(",\"events\":[")?;
        let mut first = true;
        let mut event = |json: &mut Json<'_>, kind: &str, call: Call, at: u64| {
            let comma = if std::mem::take(&mut first) { "" } else { "," };
            let frame = u64::from(call.method.0).min(names.len() as u64 - 1);
            json.raw(comma)?
                .raw("{\"type\":\"")?
                .raw(kind)?
                .raw("\",\"frame\":")?
                .number(frame)?
                .raw(",\"at\":")?
                .number(at - epoch)?
                .raw("}")
                .map(|_| ())
        };
        walk_closed(&thread.calls, |call_event| match call_event {
            CallEvent::Begin(call) => event(json, "O", call, call.start_ns),
            CallEvent::End(call) => event(json, "C", call, call.end_ns),
        })?;
        json.raw("]}").map(|_| ())
    })?;
    json.raw("}\n")?;
    json.hand_on()?;
    Ok(Summary::of(threads))
}
