// SPDX-License-Identifier: Apache-2.0
//! What the programs of `lab/events` write down about themselves; `Causes.java` describes the lines.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{bail, Context as _, Result};

/// A wait that a thread has made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Wait {
    /// How it ended, if that is known.
    pub(super) result: Option<String>,
    /// The thread that ended it, if one did.
    pub(super) waker: Option<String>,
    /// Whether it is certain that the waker came while the thread waited.
    pub(super) certain: bool,
}

/// Something that was handed over: kind and identity.
pub(super) type Handed = (String, u64);
/// Who handed it over, and who got it: names of threads.
pub(super) type FromTo = (String, String);

/// What really happened.
#[derive(Debug, Default)]
pub(super) struct Truth {
    /// The waits of a thread, by its name and their kind, in their order.
    pub(super) waits: BTreeMap<(String, String), Vec<Wait>>,
    /// Threads whose parks only one other thread can have ended.
    pub(super) races: BTreeMap<String, String>,
    /// By waiting thread and owner: how often the owner released a lock to the thread.
    pub(super) locks: BTreeMap<FromTo, u64>,
    /// The owners of locks that are fought for.
    pub(super) orders: Vec<Vec<String>>,
    /// Tasks that were run.
    pub(super) tasks: BTreeMap<Handed, Vec<FromTo>>,
    /// Tasks that were not run.
    pub(super) cancelled: BTreeMap<Handed, Vec<FromTo>>,
    /// Elements that went through a queue, with the kind [`ITEM`]. Those that nobody knows the way of have an empty list.
    pub(super) items: BTreeMap<Handed, Vec<FromTo>>,
    /// The program's own events; the kind is the name.
    pub(super) posts: BTreeMap<Handed, Vec<FromTo>>,
    /// All threads in it.
    pub(super) threads: BTreeSet<String>,
}

/// Bits of the identity of an object that the program knows, too: ART's identity hash.
const HASH: u64 = (1 << 28) - 1;
/// Bits of the identity of a thread; of an element, which is two hashes.
const THREAD: u64 = (1 << 56) - 1;
/// The kind of an element of a queue.
pub(super) const ITEM: &str = "item";

/// The part of a task's identity that the program can know.
pub(super) fn known_part(kind: &str, identity: u64) -> u64 {
    match kind {
        "thread" | ITEM => identity & THREAD,
        _ => identity & HASH,
    }
}

impl Truth {
    /// Reads the program's file.
    pub(super) fn parse(text: &str) -> Result<Truth> {
        let mut truth = Truth::default();
        for (number, line) in text.lines().enumerate() {
            truth
                .line(line)
                .with_context(|| format!("line {}: {line}", number + 1))?;
        }
        Ok(truth)
    }

    fn line(&mut self, line: &str) -> Result<()> {
        let words: Vec<&str> = line.split(' ').collect();
        let own = |word: &str| word.to_owned();
        match words[..] {
            ["wait", thread, kind, result, waker, how] => {
                let wait = Wait {
                    result: match result {
                        "any" => None,
                        "timed" => Some("timed out".to_owned()),
                        _ => Some(own(result)),
                    },
                    waker: (waker != "-").then(|| own(waker)),
                    certain: how == "always",
                };
                self.threads.insert(own(thread));
                let key = (own(thread), own(kind));
                self.waits.entry(key).or_default().push(wait);
            }
            ["race", thread, waker] => {
                self.threads.extend([own(thread), own(waker)]);
                self.races.insert(own(thread), own(waker));
            }
            ["lock", thread, owner, count] => {
                self.threads.extend([own(thread), own(owner)]);
                *self.locks.entry((own(thread), own(owner))).or_default() +=
                    count.parse::<u64>()?;
            }
            ["order", ref owners @ ..] => {
                self.threads.extend(owners.iter().map(|owner| own(owner)));
                self.orders
                    .push(owners.iter().map(|owner| own(owner)).collect());
            }
            ["unpaired", ITEM, id] => {
                self.items.entry((own(ITEM), id.parse()?)).or_default();
            }
            [ITEM, id, from, to] => {
                self.threads.extend([own(from), own(to)]);
                let id = (own(ITEM), id.parse()?);
                self.items.entry(id).or_default().push((own(from), own(to)));
            }
            [list @ ("task" | "cancelled" | "post"), kind, id, from, to] => {
                let id: u64 = id.parse()?;
                let id = match list {
                    "post" => id,
                    _ => known_part(kind, id),
                };
                self.threads.extend([own(from), own(to)]);
                let list = match list {
                    "task" => &mut self.tasks,
                    "cancelled" => &mut self.cancelled,
                    _ => &mut self.posts,
                };
                (list.entry((own(kind), id)).or_default()).push((own(from), own(to)));
            }
            _ => bail!("is not known"),
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_is_read() {
        let text = "item 268435461 a b\nunpaired item 7\ncancelled item 268435462 a a\nwait a park any b perhaps\nwait a park timed - always\nrace a b\nlock a b 2\nlock a b 1\n\
                    order a b a\ntask timer 268435457 a b\ncancelled executor 5 a a\npost n 268435457 a b\n";
        let truth = Truth::parse(text).unwrap();
        let waits = &truth.waits[&("a".to_owned(), "park".to_owned())];
        assert_eq!(waits[0].waker.as_deref(), Some("b"));
        assert!(!waits[0].certain && waits[0].result.is_none());
        assert_eq!(waits[1].result.as_deref(), Some("timed out"));
        assert_eq!(truth.races["a"], "b");
        assert_eq!(truth.locks[&("a".to_owned(), "b".to_owned())], 3);
        assert_eq!(truth.orders[0].len(), 3);
        // Of a task's identity only the hash is known.
        assert!(truth.tasks.contains_key(&("timer".to_owned(), 1)));
        assert!(truth.posts.contains_key(&("n".to_owned(), 268435457)));
        assert_eq!(truth.cancelled.len(), 2);
        let item = |id| (ITEM.to_owned(), id);
        assert!(truth.cancelled.contains_key(&item(268435462)));
        assert_eq!(truth.items[&item(268435461)].len(), 1);
        assert!(truth.items[&item(7)].is_empty());
        assert!(Truth::parse("wait a\n")
            .unwrap_err()
            .to_string()
            .contains("line 1"));
    }
}
