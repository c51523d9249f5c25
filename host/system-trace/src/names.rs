// SPDX-License-Identifier: Apache-2.0
//! Names of threads and processes, at the times when they had them.

use bytes::Bytes;
use hashbrown::HashMap;

/// More names are not kept: the threads with later ones have no name.
const MOST_NAMES: usize = 1 << 20;
/// Longer names are cut, bytes.
const MOST_BYTES: usize = 256;

/// What became known of a thread at a time.
#[derive(Clone, Debug)]
struct Known<T> {
    at_ns: u64,
    what: T,
}

/// What is known of threads and processes.
#[derive(Debug, Default)]
pub(crate) struct Names {
    count: usize,
    /// By thread id.
    threads: HashMap<u32, Vec<Known<Bytes>>>,
    /// By thread id: the id of its process.
    owners: HashMap<u32, Vec<Known<u32>>>,
    /// By process id.
    processes: HashMap<u32, Vec<Known<Bytes>>>,
    /// Names were left out.
    pub(crate) is_full: bool,
}

impl Names {
    pub(crate) fn thread(&mut self, tid: u32, at_ns: u64, name: &Bytes) {
        note(
            &mut self.threads,
            &mut self.count,
            &mut self.is_full,
            (tid, at_ns),
            name,
        );
    }

    pub(crate) fn process(&mut self, pid: u32, at_ns: u64, name: &Bytes) {
        note(
            &mut self.processes,
            &mut self.count,
            &mut self.is_full,
            (pid, at_ns),
            name,
        );
    }

    /// The process that a thread is of.
    pub(crate) fn owner(&mut self, tid: u32, at_ns: u64, pid: u32) {
        if self.count >= MOST_NAMES && !self.owners.contains_key(&tid) {
            self.is_full = true;
            return;
        }
        let known = self.owners.entry(tid).or_default();
        if known.last().is_some_and(|k| k.what == pid) {
            return;
        }
        if self.count >= MOST_NAMES {
            self.is_full = true;
            return;
        }
        self.count += 1;
        known.push(Known { at_ns, what: pid });
    }

    /// Puts what is known in the order of time.
    pub(crate) fn sort(&mut self) {
        for known in self.threads.values_mut().chain(self.processes.values_mut()) {
            known.sort_by_key(|k| k.at_ns);
        }
        for known in self.owners.values_mut() {
            known.sort_by_key(|k| k.at_ns);
        }
    }

    /// The last name of a thread before a time; if there is none, the first one after it.
    pub(crate) fn of_thread(&self, tid: u32, at_ns: u64) -> String {
        text(at(self.threads.get(&tid), at_ns))
    }

    pub(crate) fn of_process(&self, pid: u32, at_ns: u64) -> String {
        text(at(self.processes.get(&pid), at_ns))
    }

    pub(crate) fn owner_of(&self, tid: u32, at_ns: u64) -> Option<u32> {
        let known = at(self.owners.get(&tid), at_ns).copied();
        known.or_else(|| self.processes.contains_key(&tid).then_some(tid))
    }

    /// Whether no process is known.
    pub(crate) fn has_no_processes(&self) -> bool {
        self.processes.is_empty()
    }
}

fn note(
    all: &mut HashMap<u32, Vec<Known<Bytes>>>,
    count: &mut usize,
    is_full: &mut bool,
    (id, at_ns): (u32, u64),
    name: &Bytes,
) {
    let name = &name[..name.len().min(MOST_BYTES)];
    if name.is_empty() {
        return;
    }
    if *count >= MOST_NAMES && !all.contains_key(&id) {
        *is_full = true;
        return;
    }
    let known = all.entry(id).or_default();
    if known.last().is_some_and(|k| k.what == name) {
        return;
    }
    if *count >= MOST_NAMES {
        *is_full = true;
        return;
    }
    *count += 1;
    // A copy: the original would keep its whole packet in memory.
    known.push(Known {
        at_ns,
        what: Bytes::copy_from_slice(name),
    });
}

fn at<T>(known: Option<&Vec<Known<T>>>, at_ns: u64) -> Option<&T> {
    let known = known?;
    let after = known.partition_point(|k| k.at_ns <= at_ns);
    known.get(after.saturating_sub(1)).map(|k| &k.what)
}

fn text(name: Option<&Bytes>) -> String {
    name.map_or(String::new(), |n| String::from_utf8_lossy(n).into_owned())
}
