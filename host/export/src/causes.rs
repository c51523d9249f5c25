// SPDX-License-Identifier: Apache-2.0
//! Transactions, the graph's edges, critical paths and crashes as Parquet tables.

use std::fs;
use std::io;
use std::path::Path;

use hindsight_causality::transactions::{
    Component, Crash, CriticalPath, Step, StepKind, Transaction, TransactionId, Transactions,
};
use hindsight_causality::{Edge, Graph, Session, ThreadId};
use parquet::errors::ParquetError;

use crate::error::Error;
use crate::output::{folder_of, followed};
use crate::tables::{into_io, Finished, Table, GROUP_ROWS};

const TRANSACTIONS: &str = "message transactions {
    required int32 transaction (INTEGER(32,false));
    required binary kind (STRING);
    required binary what (STRING);
    required binary root (STRING);
    required int64 group (INTEGER(64,false));
    required int32 trace (INTEGER(32,false));
    required int32 tid (INTEGER(32,false));
    required binary thread_name (STRING);
    required int64 start_ns;
    required int64 end_ns;
    required int64 path_ns;
    required boolean path_to_update;
    required int32 updates (INTEGER(32,false));
    required int32 work (INTEGER(32,false));
    required boolean unfinished;
    optional int64 interrupted_by;
    required int64 running_ns;
    required int64 runnable_ns;
    required int64 lock_ns;
    required int64 wait_ns;
    required int64 queue_ns;
    required int64 binder_ns;
    required int64 network_ns;
    required int64 timer_ns;
    required int64 frame_ns;
    required int64 gc_ns;
    required int64 io_ns;
    required int64 unknown_ns;
}";

const EDGES: &str = "message edges {
    required binary kind (STRING);
    required binary class (STRING);
    required boolean inferred;
    required boolean ambiguous;
    required int32 from_trace (INTEGER(32,false));
    required int32 from_tid (INTEGER(32,false));
    required binary from_work (STRING);
    required int64 from_event;
    required int64 start_ns;
    required int32 to_trace (INTEGER(32,false));
    required int32 to_tid (INTEGER(32,false));
    required binary to_work (STRING);
    required int64 to_event;
    required int64 duration_ns;
    optional int64 transaction;
}";

const CRITICAL_PATHS: &str = "message critical_paths {
    required int32 transaction (INTEGER(32,false));
    required int32 step (INTEGER(32,false));
    required binary kind (STRING);
    required binary work (STRING);
    required int32 trace (INTEGER(32,false));
    required int32 tid (INTEGER(32,false));
    required binary thread_name (STRING);
    required int64 start_ns;
    required int64 duration_ns;
    required binary component (STRING);
    required int64 component_ns;
    optional binary by_thread (STRING);
}";

const EXCEPTIONS: &str = "message exceptions {
    required int64 at_ns;
    required int32 trace (INTEGER(32,false));
    required int32 tid (INTEGER(32,false));
    required binary thread_name (STRING);
    required binary exception (STRING);
    required int64 group (INTEGER(64,false));
    optional int64 transaction;
    required binary causes (STRING);
    required binary frames (STRING);
}";

/// What is written.
#[derive(Clone, Copy)]
pub struct Causes<'a> {
    /// The traces.
    pub session: &'a Session,
    /// Their graph.
    pub graph: &'a Graph,
    /// The transactions.
    pub transactions: &'a Transactions,
    /// What each transaction is called, and the key of its group; in the order of their numbers.
    pub names: &'a [(String, u64)],
    /// The critical path of each transaction, in the order of their numbers.
    pub paths: &'a [&'a CriticalPath],
    /// The crashes, each with the key of its group.
    pub crashes: &'a [(&'a Crash, u64)],
}

/// Writes the tables `transactions`, `edges`, `critical_paths` and `exceptions` into the folder `path`, which is made if it
/// does not exist. The files of an earlier export are replaced when all new ones are complete.
///
/// # Errors
/// If a file cannot be written; the error names the folder.
pub fn write_causes(causes: &Causes<'_>, path: &Path) -> Result<(), Error> {
    let cannot_write = |source| Error::File {
        path: path.to_owned(),
        source,
    };
    let write = || -> io::Result<()> {
        let folder = followed(path)?;
        let tables = causes.tables(folder_of(&folder)).map_err(into_io)?;
        match fs::create_dir(&folder) {
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists && folder.is_dir() => {}
            other => other?,
        }
        for (name, output) in tables {
            output.finish(&folder.join(name))?;
        }
        Ok(())
    };
    write().map_err(cannot_write)
}

/// A row of `critical_paths`.
struct Row<'a> {
    transaction: TransactionId,
    number: u32,
    step: &'a Step,
    component: Component,
    ns: u64,
}

impl Causes<'_> {
    fn tables(&self, folder: &Path) -> Result<[Finished; 4], ParquetError> {
        Ok([
            self.write_transactions(folder)?,
            self.write_edges(folder)?,
            self.write_paths(folder)?,
            self.write_exceptions(folder)?,
        ])
    }

    fn trace(&self, thread: ThreadId) -> u32 {
        self.session.about(thread).trace() as u32
    }

    fn tid(&self, thread: ThreadId) -> u32 {
        self.session.about(thread).tid
    }

    /// What a thread does in a node: `message com.example.Screen`.
    pub(crate) fn work(&self, node: hindsight_causality::NodeId) -> String {
        let about = self.graph.node(node);
        match self.session.string(about.what) {
            "" => about.kind.name().to_owned(),
            what => format!("{} {what}", about.kind.name()),
        }
    }

    fn write_transactions(&self, folder: &Path) -> Result<Finished, ParquetError> {
        let mut table = Table::create(folder, TRANSACTIONS)?;
        let rows: Vec<_> = self
            .transactions
            .iter()
            .zip(self.names)
            .zip(self.paths)
            .collect();
        for rows in rows.chunks(GROUP_ROWS) {
            let all = || rows.iter().map(|((t, _), _)| *t);
            let of = |get: fn(&Transaction) -> u64| all().map(move |(_, t)| get(t));
            let names = || rows.iter().map(|((_, name), _)| *name);
            let paths = || rows.iter().map(|(_, path)| *path);
            let threads = || all().map(|(_, t)| t.thread);
            table.rows(|c| {
                c.int(all().map(|(id, _)| id.0))?;
                c.text(all().map(|(_, t)| t.kind.name()))?;
                c.text(names().map(|n| n.0.as_str()))?;
                c.text(all().map(|(_, t)| self.session.string(t.what)))?;
                c.long(names().map(|n| n.1))?;
                c.int(threads().map(|t| self.trace(t)))?;
                c.int(threads().map(|t| self.tid(t)))?;
                c.text(threads().map(|t| self.session.thread_name(t)))?;
                c.long(of(|t| t.begin_ns))?;
                c.long(of(|t| t.end_ns))?;
                c.long(paths().map(|p| p.duration_ns()))?;
                c.bool(paths().map(|p| p.update.is_some()))?;
                c.int(all().map(|(_, t)| t.updates.len() as u32))?;
                c.int(all().map(|(_, t)| t.members.len() as u32))?;
                c.bool(all().map(|(_, t)| t.is_unfinished))?;
                c.optional_long(all().map(|(_, t)| t.interrupted_by.map(|by| by.0.into())))?;
                let shares: Vec<_> = paths().map(|p| p.shares()).collect();
                for component in Component::ALL {
                    c.long(shares.iter().map(|s| s[component]))?;
                }
                Ok(())
            })?;
        }
        table.close()
    }

    fn write_edges(&self, folder: &Path) -> Result<Finished, ParquetError> {
        let mut table = Table::create(folder, EDGES)?;
        let ids: Vec<_> = self.graph.edge_ids().collect();
        for ids in ids.chunks(GROUP_ROWS) {
            let edges: Vec<Edge> = ids.iter().map(|&id| self.graph.edge(id)).collect();
            let from = || edges.iter().map(|e| self.graph.node(e.from).thread);
            let to = || edges.iter().map(|e| self.graph.node(e.to).thread);
            let works: Vec<(String, String)> = edges
                .iter()
                .map(|e| (self.work(e.from), self.work(e.to)))
                .collect();
            let owner = |e: &Edge| {
                let member = self.transactions.at(e.from, e.from_event)?;
                Some(u64::from(self.transactions.member(member).transaction.0))
            };
            table.rows(|c| {
                c.text(edges.iter().map(|e| e.reason.name()))?;
                c.text(edges.iter().map(|e| e.class.name()))?;
                c.bool(edges.iter().map(|e| e.is_inferred))?;
                c.bool(edges.iter().map(|e| e.is_ambiguous))?;
                c.int(from().map(|t| self.trace(t)))?;
                c.int(from().map(|t| self.tid(t)))?;
                c.text(works.iter().map(|w| w.0.as_str()))?;
                c.long(edges.iter().map(|e| e.from_event.into()))?;
                c.long(edges.iter().map(|e| e.from_ns))?;
                c.int(to().map(|t| self.trace(t)))?;
                c.int(to().map(|t| self.tid(t)))?;
                c.text(works.iter().map(|w| w.1.as_str()))?;
                c.long(edges.iter().map(|e| e.to_event.into()))?;
                c.long(edges.iter().map(|e| e.to_ns - e.from_ns))?;
                c.optional_long(edges.iter().map(owner))
            })?;
        }
        table.close()
    }

    fn write_paths(&self, folder: &Path) -> Result<Finished, ParquetError> {
        let mut table = Table::create(folder, CRITICAL_PATHS)?;
        let mut rows: Vec<Row<'_>> = Vec::new();
        for path in self.paths {
            for (step, number) in path.steps.iter().zip(0..) {
                rows.extend(step.shares.parts().map(|(component, ns)| Row {
                    transaction: path.transaction,
                    number,
                    step,
                    component,
                    ns,
                }));
            }
        }
        for rows in rows.chunks(GROUP_ROWS) {
            let works: Vec<String> = rows.iter().map(|r| self.work(r.step.node)).collect();
            let by = |r: &Row<'_>| {
                let by = r.step.by.as_ref();
                by.map_or("", |by| self.session.thread_name(by.thread))
            };
            table.rows(|c| {
                c.int(rows.iter().map(|r| r.transaction.0))?;
                c.int(rows.iter().map(|r| r.number))?;
                c.text(rows.iter().map(|r| kind(r.step)))?;
                c.text(works.iter().map(String::as_str))?;
                c.int(rows.iter().map(|r| self.trace(r.step.thread)))?;
                c.int(rows.iter().map(|r| self.tid(r.step.thread)))?;
                c.text(rows.iter().map(|r| self.session.thread_name(r.step.thread)))?;
                c.long(rows.iter().map(|r| r.step.begin_ns))?;
                c.long(rows.iter().map(|r| r.step.end_ns - r.step.begin_ns))?;
                c.text(rows.iter().map(|r| r.component.key()))?;
                c.long(rows.iter().map(|r| r.ns))?;
                c.optional_text(rows.iter().map(by))
            })?;
        }
        table.close()
    }

    fn write_exceptions(&self, folder: &Path) -> Result<Finished, ParquetError> {
        let mut table = Table::create(folder, EXCEPTIONS)?;
        for crashes in self.crashes.chunks(GROUP_ROWS) {
            let threads = || crashes.iter().map(|(c, _)| c.event.thread);
            let lines = |of: Vec<String>| of.join("\n");
            let causes: Vec<String> = crashes
                .iter()
                .map(|(c, _)| lines(c.causes.iter().map(|(n, _)| self.work(*n)).collect()))
                .collect();
            let name = |id| self.session.string(id).to_owned();
            let frames: Vec<String> = crashes
                .iter()
                .map(|(c, _)| lines(c.frames.iter().map(|f| name(*f)).collect()))
                .collect();
            table.rows(|c| {
                c.long(crashes.iter().map(|(c, _)| c.at_ns))?;
                c.int(threads().map(|t| self.trace(t)))?;
                c.int(threads().map(|t| self.tid(t)))?;
                c.text(threads().map(|t| self.session.thread_name(t)))?;
                c.text(crashes.iter().map(|(c, _)| self.session.string(c.class)))?;
                c.long(crashes.iter().map(|(_, key)| *key))?;
                c.optional_long(
                    crashes
                        .iter()
                        .map(|(c, _)| c.transaction.map(|t| t.0.into())),
                )?;
                c.text(causes.iter().map(String::as_str))?;
                c.text(frames.iter().map(String::as_str))
            })?;
        }
        table.close()
    }
}

/// The kind of a step, as in JSON.
fn kind(step: &Step) -> &'static str {
    match step.kind {
        StepKind::Own => "own",
        StepKind::Wait(_) => "wait",
        StepKind::Woken => "woken",
        StepKind::HandedOver(_) => "handed_over",
        StepKind::Delivery => "delivery",
        StepKind::Cut => "cut",
    }
}
