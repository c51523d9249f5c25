// SPDX-License-Identifier: Apache-2.0
//! Names of methods and threads, and the notes about missing data, as the formats show them.

use hashbrown::{HashMap, HashSet};
use hindsight_decoder::{losses_of, Call, Flags, Method, MethodId, Methods, Thread, Trace};

/// The names of all methods by their ids. The last one is for calls whose entry was not recorded.
pub(crate) fn method_names(trace: &Trace) -> Vec<String> {
    let known = trace.methods.iter().map(|(_, m)| m.full_name());
    known
        .chain([Methods::NOT_RECORDED_NAME.to_owned()])
        .collect()
}

/// One of [`method_names`].
pub(crate) fn name_of(names: &[String], method: MethodId) -> &str {
    let at = (method.0 as usize).min(names.len() - 1);
    &names[at]
}

/// What follows the names of methods where their calls are made of stacks.
pub(crate) const SAMPLED: &str = " (sampled)";

/// The frames of formats that have one name for all calls of a method: of each method, and after them of each method
/// where its calls are made of stacks.
pub(crate) struct Frames {
    pub(crate) names: Vec<String>,
    /// Number of methods, with the one for calls whose entry was not recorded.
    pub(crate) methods: usize,
}

impl Frames {
    pub(crate) fn of(trace: &Trace) -> Self {
        let mut names = method_names(trace);
        let methods = names.len();
        let flags = |t: &Thread| t.calls.flags.iter().any(|f| f.contains(Flags::SAMPLED));
        if trace.threads.iter().any(flags) {
            names.extend_from_within(..);
            for name in &mut names[methods..] {
                name.push_str(SAMPLED);
            }
        }
        Frames { names, methods }
    }

    /// The frame of a call.
    pub(crate) fn frame(&self, call: &Call) -> MethodId {
        let method = (call.method.0 as usize).min(self.methods - 1);
        let sampled = usize::from(call.flags.contains(Flags::SAMPLED));
        MethodId((method + sampled * self.methods) as u32)
    }

    /// The method of a frame; `None` if it was not recorded.
    pub(crate) fn method<'a>(&self, trace: &'a Trace, frame: usize) -> Option<&'a Method> {
        trace.methods.get(MethodId((frame % self.methods) as u32))
    }
}

/// For each thread its number among the recordings with the same name and thread id, from 1 on.
fn numbers(threads: &[Thread]) -> impl Iterator<Item = u32> + '_ {
    let mut uses: HashMap<(&str, u32), u32> = HashMap::new();
    threads.iter().map(move |thread| {
        let number = uses.entry((&thread.name, thread.tid)).or_default();
        *number += 1;
        *number
    })
}

/// For each thread `name (tid)`, and from the second recording with the same name and thread id on `name (tid) #2`.
pub(crate) fn thread_labels(threads: &[Thread]) -> Vec<String> {
    let numbered = threads.iter().zip(numbers(threads));
    numbered
        .map(|(thread, number)| match number {
            1 => format!("{} ({})", thread.name, thread.tid),
            _ => format!("{} ({}) #{number}", thread.name, thread.tid),
        })
        .collect()
}

/// For each thread its name, and from the second recording with the same name and thread id on `name #2`.
pub(crate) fn thread_names(threads: &[Thread]) -> Vec<String> {
    let numbered = threads.iter().zip(numbers(threads));
    numbered
        .map(|(thread, number)| match number {
            1 => thread.name.clone(),
            _ => format!("{} #{number}", thread.name),
        })
        .collect()
}

/// For each thread an id and a name, for formats that tell threads apart by their ids. Usually these are its own. From
/// the second recording of a thread id on, the id is a number that is no thread's, and the name has the real one.
pub(crate) fn unique_threads(threads: &[Thread]) -> Vec<(u32, String)> {
    let all: HashSet<u32> = threads.iter().map(|t| t.tid).collect();
    let mut taken = HashSet::new();
    // The kernel's ids are below 2^22.
    let greatest = all.iter().copied().max().unwrap_or(0).max(1 << 22);
    let mut next = greatest.wrapping_add(1);
    let labelled = threads.iter().zip(thread_labels(threads));
    labelled
        .map(|(thread, label)| {
            if taken.insert(thread.tid) {
                return (thread.tid, thread.name.clone());
            }
            while all.contains(&next) {
                next = next.wrapping_add(1);
            }
            let id = next;
            next = next.wrapping_add(1);
            (id, label)
        })
        .collect()
}

/// Data that the trace does not have, as `(description, count)`: lost by the writer, or damaged in the file.
pub(crate) fn missing(trace: &Trace) -> Vec<(String, u64)> {
    let lost = trace.losses.counts.iter();
    let lost = lost.map(|(what, count)| (what.clone(), *count));
    let missing = lost.chain(losses_of(&trace.damaged));
    missing.filter(|(_, count)| *count > 0).collect()
}

/// The position of the process's main thread among the trace's threads, else 0.
pub(crate) fn main_position(trace: &Trace) -> usize {
    let main = trace.main_thread().map(|t| t.key);
    let position = trace.threads.iter().position(|t| Some(t.key) == main);
    position.unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn threads(of: &[(u32, &str)]) -> Vec<Thread> {
        of.iter()
            .map(|&(tid, name)| Thread {
                tid,
                name: name.to_owned(),
                ..Thread::default()
            })
            .collect()
    }

    #[test]
    fn recordings_of_one_thread_id_have_labels_and_ids_of_their_own() {
        let threads = threads(&[
            (7, "main"),
            (8, "b"),
            (7, "Shutdown thread"),
            (7, "main"),
            (4_194_305, "c"),
        ]);
        let labels = [
            "main (7)",
            "b (8)",
            "Shutdown thread (7)",
            "main (7) #2",
            "c (4194305)",
        ];
        assert_eq!(thread_labels(&threads), labels);
        let names = ["main", "b", "Shutdown thread", "main #2", "c"];
        assert_eq!(thread_names(&threads), names);
        let unique = [
            (7, "main"),
            (8, "b"),
            (4_194_306, "Shutdown thread (7)"),
            (4_194_307, "main (7) #2"),
            (4_194_305, "c"),
        ];
        let unique = unique.map(|(id, name)| (id, name.to_owned()));
        assert_eq!(unique_threads(&threads), unique);
    }

    #[test]
    fn ids_are_unique_up_to_the_greatest() {
        let threads = threads(&[(u32::MAX, "a"), (u32::MAX, "b"), (0, "c"), (0, "d")]);
        let unique = unique_threads(&threads);
        let ids: Vec<u32> = unique.iter().map(|(id, _)| *id).collect();
        assert_eq!(ids, [u32::MAX, 1, 0, 2]);
    }
}
