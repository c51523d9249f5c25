// SPDX-License-Identifier: Apache-2.0
//! speedscope's own JSON format: one evented profile per thread, times in ns since the trace's first event.

use std::io::{self, Write};

use hindsight_decoder::{Call, Trace};

use crate::json::Json;
use crate::labels::{main_position, thread_labels, Frames};
use crate::walk::{walk_closed, CallEvent};
use crate::written::Written;

pub(crate) fn write(trace: &Trace, out: &mut dyn Write) -> io::Result<Written> {
    let threads = &trace.threads;
    let frames = Frames::of(trace);
    let epoch = threads.iter().map(|t| t.start_ns).min().unwrap_or(0);

    let mut json = Json::new(out);
    json.raw("{\"$schema\":\"https://www.speedscope.app/file-format-schema.json\",\"exporter\":")?
        .string(concat!("hindsight ", env!("CARGO_PKG_VERSION")))?
        .raw(",\"name\":")?
        .string(&trace.process.name)?
        .raw(",\"activeProfileIndex\":")?
        .number(main_position(trace) as u64)?;
    json.raw(",\"shared\":{\"frames\":")?;
    json.array(frames.names.iter().enumerate(), |json, (i, name)| {
        json.raw("{\"name\":")?.string(name)?;
        let method = frames.method(trace, i);
        if let Some(file) = method.map(|m| &m.source_file).filter(|f| !f.is_empty()) {
            json.raw(",\"file\":")?.string(file)?;
        }
        json.raw("}").map(|_| ())
    })?;
    json.raw("},\"profiles\":")?;
    let labelled = threads.iter().zip(thread_labels(threads));
    json.array(labelled, |json, (thread, label)| {
        json.raw("\n{\"type\":\"evented\",\"unit\":\"nanoseconds\",\"name\":")?
            .string(&label)?
            // The same axis for all threads, so that they can be compared.
            .raw(",\"startValue\":0,\"endValue\":")?
            .number(thread.end_ns.max(thread.start_ns) - epoch)?
            .raw(",\"events\":[")?;
        let mut first = true;
        let mut event = |json: &mut Json<'_>, kind: &str, call: Call, at: u64| {
            let comma = if std::mem::take(&mut first) { "" } else { "," };
            let frame = u64::from(frames.frame(&call).0);
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
    Ok(Written::of(threads))
}
