// SPDX-License-Identifier: Apache-2.0
//! Tables for DuckDB, DataFusion, Spark, pandas: a folder of Parquet files.
//!
//! Written in row groups, so that memory is bounded for any number of calls.

use std::collections::HashMap;
use std::fs;
use std::io;
use std::iter::once;
use std::path::Path;

use hindsight_analysis::{costs, pairs, spans, Cost, End, Span};
use hindsight_decoder::{Flags, MethodId, SampleTimes, Thread, ThreadKey, Trace, NO_PARENT};
use parquet::data_type::{Int32Type, Int64Type};
use parquet::errors::ParquetError;

use crate::extras::event_fields;
use crate::labels::missing;
use crate::output::{folder_of, Output};
use crate::tables::{into_io, Finished, Table, GROUP_ROWS};
use crate::written::Written;

const TRACE: &str = "message trace {
    required binary process (STRING);
    required int32 pid (INTEGER(32,false));
    required int32 uid (INTEGER(32,false));
    required binary isa (STRING);
    required binary reason (STRING);
    required int32 raised_by (INTEGER(32,false));
    required int64 taken_boottime_ns;
    required int64 taken_monotonic_ns;
    required int64 taken_realtime_ns;
    required int64 start_ns;
    required int64 end_ns;
}";

const THREADS: &str = "message threads {
    required int32 thread (INTEGER(32,false));
    required int32 tid (INTEGER(32,false));
    required binary thread_name (STRING);
    required int64 start_ns;
    required int64 end_ns;
    required int64 points;
    required int64 overwritten_slots;
    required int64 open_starts;
    required int64 open_ends;
}";

const METHODS: &str = "message methods {
    required int32 method (INTEGER(32,false));
    required binary method_name (STRING);
    optional binary class (STRING);
    optional binary name (STRING);
    optional binary signature (STRING);
    optional binary source_file (STRING);
    required int64 address (INTEGER(64,false));
}";

const SLICES: &str = "message slices {
    required int64 slice;
    required int32 thread (INTEGER(32,false));
    required int64 start_ns;
    required int64 duration_ns;
    required int64 self_ns;
    optional int32 method (INTEGER(32,false));
    required int32 depth (INTEGER(32,false));
    optional int64 parent;
    required boolean open_start;
    required boolean open_end;
    required boolean by_exception;
    required boolean native;
    required boolean sampled;
    required int64 start_error_ns;
    required int64 end_error_ns;
    optional int32 woken_by (INTEGER(32,false));
    optional int64 block_ns;
    optional int64 cpu_ns;
    optional int64 allocated_objects;
    optional int64 allocated_bytes;
    optional int64 minor_faults;
    optional int64 major_faults;
    optional int64 voluntary_switches;
    optional int64 involuntary_switches;
    optional int64 calls_made;
    optional int64 self_cpu_ns;
}";

const EVENTS: &str = "message events {
    required int32 thread (INTEGER(32,false));
    required int64 event;
    required int64 at_ns;
    required binary kind (STRING);
    required binary category (STRING);
    required int64 a (INTEGER(64,false));
    required int64 b (INTEGER(64,false));
    required int64 c (INTEGER(64,false));
    required int64 d (INTEGER(64,false));
    required binary fields (STRING);
}";

const SPANS: &str = "message spans {
    required int32 thread (INTEGER(32,false));
    required binary kind (STRING);
    required int64 begin_event;
    optional int64 end_event;
    required int64 start_ns;
    required int64 duration_ns;
    optional int32 woken_by (INTEGER(32,false));
    optional int64 block_ns;
    optional int64 cpu_ns;
    optional int64 allocated_objects;
    optional int64 allocated_bytes;
    optional int64 minor_faults;
    optional int64 major_faults;
    optional int64 voluntary_switches;
    optional int64 involuntary_switches;
}";

const PAIRS: &str = "message pairs {
    required binary kind (STRING);
    required int32 from_thread (INTEGER(32,false));
    required int64 from_event;
    required int32 to_thread (INTEGER(32,false));
    required int64 to_event;
}";

const MISSING: &str = "message missing {
    required binary what (STRING);
    required int64 count;
}";

/// Writes all tables into the folder `path`, which is made if it does not exist. The files of an earlier export are
/// replaced when all new ones are complete.
pub(crate) fn write_folder(trace: &Trace, path: &Path) -> io::Result<Written> {
    let (outputs, written) = write_tables(trace, folder_of(path)).map_err(into_io)?;
    match fs::create_dir(path) {
        Err(e) if e.kind() == io::ErrorKind::AlreadyExists && path.is_dir() => {}
        other => other?,
    }
    for (name, output) in outputs {
        output.finish(&path.join(name))?;
    }
    Ok(written)
}

/// The tables as unfinished files on the file system of `folder`, with their names.
fn write_tables(
    trace: &Trace,
    folder: &Path,
) -> Result<(Vec<(String, Output)>, Written), ParquetError> {
    let threads = &trace.threads;
    let tables = [
        write_trace(trace, folder)?,
        write_threads(threads, folder)?,
        write_methods(trace, folder)?,
        write_calls(trace, folder)?,
        write_events(trace, folder)?,
        write_spans(trace, folder)?,
        write_pairs(trace, folder)?,
        write_missing(trace, folder)?,
    ];
    let mut written = Written::of(threads);
    let mut outputs = Vec::new();
    for (name, output) in tables {
        written.bytes += output.file.metadata()?.len();
        outputs.push((name, output));
    }
    Ok((outputs, written))
}

fn write_trace(trace: &Trace, folder: &Path) -> Result<Finished, ParquetError> {
    let facts = &trace.process;
    let taken = trace.clock.reference();
    let mut table = Table::create(folder, TRACE)?;
    table.rows(|c| {
        c.text(once(facts.name.as_str()))?;
        c.int(once(facts.pid))?;
        c.int(once(facts.uid))?;
        c.text(once(facts.isa.as_str()))?;
        c.text(once(facts.reason.as_str()))?;
        c.int(once(facts.raised_by))?;
        c.long(once(taken.boottime_ns))?;
        c.long(once(taken.monotonic_ns))?;
        c.long(once(taken.realtime_ns))?;
        c.long(once(trace.start_ns()))?;
        c.long(once(trace.end_ns()))
    })?;
    table.close()
}

fn write_threads(threads: &[Thread], folder: &Path) -> Result<Finished, ParquetError> {
    let mut table = Table::create(folder, THREADS)?;
    table.rows(|c| {
        c.int(0..threads.len() as u32)?;
        c.int(threads.iter().map(|t| t.tid))?;
        c.text(threads.iter().map(|t| t.name.as_str()))?;
        c.long(threads.iter().map(|t| t.start_ns))?;
        c.long(threads.iter().map(|t| t.end_ns))?;
        c.long(threads.iter().map(|t| t.stats.trace_points))?;
        c.long(threads.iter().map(|t| t.stats.overwritten_slots))?;
        c.long(threads.iter().map(|t| t.stats.open_starts))?;
        c.long(threads.iter().map(|t| t.stats.open_ends))
    })?;
    table.close()
}

fn write_methods(trace: &Trace, folder: &Path) -> Result<Finished, ParquetError> {
    let mut table = Table::create(folder, METHODS)?;
    let methods = || trace.methods.iter().map(|(_, m)| m);
    let full: Vec<String> = methods().map(|m| m.full_name()).collect();
    table.rows(|c| {
        c.int(0..trace.methods.len() as u32)?;
        c.text(full.iter().map(String::as_str))?;
        c.optional_text(methods().map(|m| m.class.as_str()))?;
        c.optional_text(methods().map(|m| m.name.as_str()))?;
        c.optional_text(methods().map(|m| m.signature.as_str()))?;
        c.optional_text(methods().map(|m| m.source_file.as_str()))?;
        c.long(methods().map(|m| m.address))
    })?;
    table.close()
}

fn write_calls(trace: &Trace, folder: &Path) -> Result<Finished, ParquetError> {
    let mut table = Table::create(folder, SLICES)?;
    // Number of the thread's first call.
    let mut first = 0_u64;
    let threads = trace.threads.iter().zip(costs(trace));
    for (i, (thread, costs)) in threads.enumerate() {
        let calls = &thread.calls;
        let own = calls.self_ns();
        let costs = costs.of_calls(calls);
        let samples = SampleTimes::of(thread);
        for start in (0..calls.len()).step_by(GROUP_ROWS) {
            let rows = start..calls.len().min(start + GROUP_ROWS);
            let count = rows.len();
            table.rows(|c| {
                c.long(rows.clone().map(|i| first + i as u64))?;
                c.int(std::iter::repeat_n(i as u32, count))?;
                c.long(calls.start_ns[rows.clone()].iter().copied())?;
                c.long(rows.clone().map(|i| calls.end_ns[i] - calls.start_ns[i]))?;
                c.long(own[rows.clone()].iter().copied())?;

                let methods = &calls.method[rows.clone()];
                let known = |m: &MethodId| *m != MethodId::NOT_RECORDED;
                let present: Vec<i16> = methods.iter().map(|m| i16::from(known(m))).collect();
                let methods = methods.iter().filter(|m| known(m));
                let methods: Vec<i32> = methods.map(|m| m.0 as i32).collect();
                c.write::<Int32Type>(&methods, Some(&present))?;

                c.int(calls.depth[rows.clone()].iter().copied())?;

                let parents = &calls.parent[rows.clone()];
                let present: Vec<i16> =
                    parents.iter().map(|&p| i16::from(p != NO_PARENT)).collect();
                let parents = parents.iter().filter(|&&p| p != NO_PARENT);
                let parents: Vec<i64> = parents.map(|&p| (first + u64::from(p)) as i64).collect();
                c.write::<Int64Type>(&parents, Some(&present))?;

                let flags = [
                    Flags::OPEN_START,
                    Flags::OPEN_END,
                    Flags::BY_EXCEPTION,
                    Flags::NATIVE,
                    Flags::SAMPLED,
                ];
                for flag in flags {
                    let flags = calls.flags[rows.clone()].iter();
                    c.bool(flags.map(|f| f.contains(flag)))?;
                }
                let errors = rows.clone().map(|i| match calls.flags[i] {
                    flags if flags.contains(Flags::SAMPLED) => {
                        let call = calls.get(i);
                        let (earliest, latest) = samples.bounds(&call);
                        (call.start_ns - earliest, latest - call.end_ns)
                    }
                    _ => (0, 0),
                });
                c.long(errors.clone().map(|(start, _)| start))?;
                c.long(errors.map(|(_, end)| end))?;
                let costs = rows.clone().map(|i| costs.get(&i));
                c.costs(costs.clone())?;
                let own = costs.map(|c| c.and_then(|c| c.own.as_ref()));
                c.optional_long(own.clone().map(|o| o.map(|o| o.calls)))?;
                c.optional_long(own.map(|o| o.and_then(|o| o.self_cpu_ns)))
            })?;
        }
        first += calls.len() as u64;
    }
    table.close()
}

fn write_events(trace: &Trace, folder: &Path) -> Result<Finished, ParquetError> {
    let mut table = Table::create(folder, EVENTS)?;
    let fields = event_fields(trace);
    for (i, thread) in trace.threads.iter().enumerate() {
        for (group, events) in thread.events.chunks(GROUP_ROWS).enumerate() {
            let first = (group * GROUP_ROWS) as u64;
            let texts: Vec<String> = events.iter().map(&fields).collect();
            table.rows(|c| {
                c.int(std::iter::repeat_n(i as u32, events.len()))?;
                c.long(first..first + events.len() as u64)?;
                c.long(events.iter().map(|e| e.at_ns))?;
                c.text(events.iter().map(|e| e.spec().identifier))?;
                c.text(events.iter().map(|e| e.spec().category.name()))?;
                for part in 0..4 {
                    c.long(events.iter().map(|e| e.payload[part]))?;
                }
                c.text(texts.iter().map(String::as_str))
            })?;
        }
    }
    table.close()
}

/// Waits, tasks, messages: two events of one thread.
fn write_spans(trace: &Trace, folder: &Path) -> Result<Finished, ParquetError> {
    let mut table = Table::create(folder, SPANS)?;
    let threads = trace.threads.iter().zip(costs(trace));
    for (i, (thread, costs)) in threads.enumerate() {
        let spans = spans(thread).spans;
        for spans in spans.chunks(GROUP_ROWS) {
            let costs = spans.iter().map(|s| costs.of_span(s.start_ns, s.end_ns));
            let costs: Vec<Cost> = costs.collect();
            table.rows(|c| {
                c.int(std::iter::repeat_n(i as u32, spans.len()))?;
                c.text(spans.iter().map(|s| s.kind.name()))?;
                c.long(spans.iter().map(|s| s.begin as u64))?;
                let present: Vec<i16> = spans.iter().map(|s| i16::from(s.end.is_some())).collect();
                let ends: Vec<i64> = spans
                    .iter()
                    .filter_map(|s| s.end.map(|e| e as i64))
                    .collect();
                c.write::<Int64Type>(&ends, Some(&present))?;
                c.long(spans.iter().map(|s| s.start_ns))?;
                c.long(spans.iter().map(Span::duration_ns))?;
                c.costs(costs.iter().map(Some))
            })?;
        }
    }
    table.close()
}

/// Causes and their effects: events of two threads.
fn write_pairs(trace: &Trace, folder: &Path) -> Result<Finished, ParquetError> {
    let mut table = Table::create(folder, PAIRS)?;
    let numbers: HashMap<ThreadKey, u32> = trace.threads.iter().map(|t| t.key).zip(0..).collect();
    let thread = |end: End| numbers.get(&end.thread).copied().unwrap_or(u32::MAX);
    for pairs in pairs(trace).pairs.chunks(GROUP_ROWS) {
        table.rows(|c| {
            c.text(pairs.iter().map(|p| p.kind.name()))?;
            c.int(pairs.iter().map(|p| thread(p.from)))?;
            c.long(pairs.iter().map(|p| p.from.event as u64))?;
            c.int(pairs.iter().map(|p| thread(p.to)))?;
            c.long(pairs.iter().map(|p| p.to.event as u64))
        })?;
    }
    table.close()
}

fn write_missing(trace: &Trace, folder: &Path) -> Result<Finished, ParquetError> {
    let missing = missing(trace);
    let mut table = Table::create(folder, MISSING)?;
    table.rows(|c| {
        c.text(missing.iter().map(|(what, _)| what.as_str()))?;
        c.long(missing.iter().map(|&(_, count)| count))
    })?;
    table.close()
}
