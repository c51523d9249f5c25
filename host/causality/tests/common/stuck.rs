// SPDX-License-Identifier: Apache-2.0
//! Logs of processes whose main threads are stuck in a message, and what is said about them.

use hindsight_causality::story::Report;
use hindsight_decoder::Extension as E;
use hindsight_testkit::{Recorder, Script, ThreadIndex};

use super::MS;

pub(crate) const LOCK: u64 = 0;
pub(crate) const OBJECT: u64 = 1;
pub(crate) const SLEEP: u64 = 2;
pub(crate) const PARK: u64 = 3;
pub(crate) const SIGNALLED: u64 = 0;
pub(crate) const TIMED_OUT: u64 = 1;

pub(crate) fn wait(
    r: &mut Recorder<'_>,
    kind: u64,
    number: u64,
    object: u64,
    until_ms: u64,
    result: u64,
) {
    let of = [("kind", kind), ("number", number)];
    let object = ("object", object);
    r.event(E::WaitBegin, &[of[0], of[1], object])
        .at(until_ms * MS)
        .event(E::WaitEnd, &[of[0], of[1], ("result", result)]);
}

pub(crate) fn lock_wait(r: &mut Recorder<'_>, number: u64, lock: u64, owner: u64, until_ms: u64) {
    r.event(E::LockWait, &[("held by", owner), ("lock", lock)]);
    wait(r, LOCK, number, lock, until_ms, SIGNALLED);
}

pub(crate) fn cpu(r: &mut Recorder<'_>, ms: u64) {
    r.extension(E::ThreadCpuTime, &[ms * MS]);
}

/// The methods of the culprit's threads, or the class of what they did.
pub(crate) fn culprit(report: &Report) -> Vec<String> {
    let threads = report.culprit.iter().flat_map(|c| &c.threads);
    let what = threads.map(|t| {
        let work = t.work.as_ref().map(|w| w.what.clone());
        let what = t.method.clone().or(work).unwrap_or_default();
        format!("{} {what}", t.thread.thread)
    });
    what.collect()
}

pub(crate) fn suspects(report: &Report) -> Vec<String> {
    let threads = report.suspect.iter().flat_map(|c| &c.threads);
    threads.map(|t| t.thread.thread.clone()).collect()
}

pub(crate) fn chain(report: &Report) -> Vec<String> {
    let hops = report.chain.iter();
    hops.map(|h| {
        let how = format!("{:?}", h.how);
        let mark = if h.certainty.is_recorded() { "" } else { "?" };
        format!("{} {how}{mark} {}", h.thread.thread, h.to.thread)
    })
    .collect()
}

/// A process with a main thread that runs a message from 10 ms on, posted by thread "user".
pub(crate) struct App {
    pub(crate) script: Script,
    pub(crate) main: ThreadIndex,
}

impl App {
    pub(crate) fn new(first_tid: u32, name: &str) -> Self {
        let mut script = Script::new(name);
        let main = script.events_thread(first_tid, "main", 1);
        App { script, main }
    }

    pub(crate) fn thread(&mut self, tid: u32, name: &str) -> ThreadIndex {
        self.script.events_thread(tid, name, u64::from(tid))
    }

    /// Main dispatches a message of `class` from `from_ms` to `to_ms`, and does this in it.
    pub(crate) fn message(
        &mut self,
        (id, class): (u64, u64),
        from_ms: u64,
        to_ms: u64,
        record: impl FnOnce(&mut Recorder<'_>),
    ) {
        let of = [("message", id), ("class", class)];
        let mut r = self.script.at(self.main, from_ms * MS);
        r.event(E::MessageDispatched, &of);
        record(&mut r);
        r.at(to_ms * MS).event(E::MessageDone, &of[..1]);
    }
}
