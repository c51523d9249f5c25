// SPDX-License-Identifier: Apache-2.0
//! Damage of the file that a file was converted from. The converted file is sound, and lists it among its losses.

use hindsight_trace_format::container::Losses;

use crate::damage::{Damage, DamagedPart, UNKNOWN, UNKNOWN_ANCHORS, UNKNOWN_OPEN_CALLS};
use crate::key::ThreadKey;
use crate::model::Thread;

/// A loss that is damage begins with this.
const LOSS: &str = "damaged: ";
/// The reason of such damage begins with this.
const BEFORE: &str = "before the conversion: ";

/// The losses by which a converted file lists damage.
pub fn losses_of(damaged: &[Damage]) -> Vec<(String, u64)> {
    let mut losses: Vec<(String, u64)> = Vec::new();
    for damage in damaged {
        let loss = (format!("{LOSS}{damage}"), 1);
        // Threads of one id and name may share the damage of one.
        if !losses.contains(&loss) {
            losses.push(loss);
        }
    }
    losses
}

/// Takes the damage of the original file out of the losses. If it is not certain which of the `threads` is damaged, all that
/// may be are.
pub(crate) fn take(losses: &mut Losses, threads: &[Thread]) -> Vec<Damage> {
    let mut found = Vec::new();
    losses.counts.retain(|(loss, _)| {
        let damage = loss.strip_prefix(LOSS).and_then(|text| {
            let (part, reason) = part(text)?;
            let reason = reason.strip_prefix(BEFORE).unwrap_or(reason);
            let reason = format!("{BEFORE}{reason}");
            Some(Damage { part, reason })
        });
        let is_damage = damage.is_some();
        found.extend(damage.into_iter().flat_map(|d| of_each(&d, threads)));
        !is_damage
    });
    found
}

/// The damage of each thread that may be meant.
fn of_each(damage: &Damage, threads: &[Thread]) -> Vec<Damage> {
    let mut found = Vec::new();
    if let DamagedPart::Ring {
        tid: Some(tid),
        name: Some(name),
        ..
    } = &damage.part
    {
        let meant = threads.iter().filter(|t| t.tid == *tid && t.name == *name);
        for its in meant {
            let mut damage = damage.clone();
            if let DamagedPart::Ring { thread, .. } = &mut damage.part {
                *thread = its.key;
            }
            found.push(damage);
        }
    }
    if found.is_empty() {
        found.push(damage.clone());
    }
    found
}

/// The damaged part and the reason in the text of damage.
fn part(text: &str) -> Option<(DamagedPart, &str)> {
    if let Some(rest) = text.strip_prefix("thread \"") {
        let (name, rest) = rest.split_once("\" (tid ")?;
        let (tid, rest) = rest.split_once("): ")?;
        return ring(Some(tid.parse().ok()?), Some(name.to_owned()), rest);
    }
    let whole = [
        DamagedPart::Symbols,
        DamagedPart::Clocks,
        DamagedPart::Process,
        DamagedPart::Losses,
        DamagedPart::Strings,
        DamagedPart::Stacks,
    ];
    for part in whole {
        if let Some(reason) = text.strip_prefix(&format!("{part}: ")) {
            return Some((part, reason));
        }
    }
    let (what, rest) = text.split_once(": ")?;
    if what == UNKNOWN || what.starts_with("the thread of ring ") {
        return ring(None, None, rest);
    }
    if what == UNKNOWN_ANCHORS || what.starts_with("the anchors of ring ") {
        let thread = ThreadKey::NOT_IN_FILE;
        return Some((DamagedPart::Anchors { thread }, rest));
    }
    if what == UNKNOWN_OPEN_CALLS || what.starts_with("the open calls of ring ") {
        let thread = ThreadKey::NOT_IN_FILE;
        return Some((DamagedPart::OpenCalls { thread }, rest));
    }
    if let Some(range) = what.strip_prefix("bytes ") {
        let (from, to) = range.strip_suffix(" of the file")?.split_once("..")?;
        let (from, to) = (from.parse().ok()?, to.parse().ok()?);
        return Some((DamagedPart::Bytes { from, to }, rest));
    }
    (what == "the section table").then(|| table(rest))
}

/// A ring whose text ends with the slots that were kept.
fn ring(tid: Option<u32>, name: Option<String>, text: &str) -> Option<(DamagedPart, &str)> {
    let (reason, kept) = text.rsplit_once("; ")?;
    let (kept_slots, slots) = match kept.split_once(" of its ") {
        None => (0, None),
        Some((kept, all)) => {
            let slots = all.split_once(' ')?.0.parse().ok();
            match kept {
                "all" => (slots?, slots),
                kept => (kept.parse().ok()?, slots),
            }
        }
    };
    let part = DamagedPart::Ring {
        thread: ThreadKey::NOT_IN_FILE,
        tid,
        name,
        kept_slots,
        slots,
    };
    Some((part, reason))
}

/// A section table, whose text ends with what that means for the sections.
fn table(text: &str) -> (DamagedPart, &str) {
    let ends = [
        ("; nothing is lost", Some(0)),
        ("; the sections were found", Some(0)),
        ("; some sections are missing", Some(1)),
        ("; whether sections are missing", None),
    ];
    let found = ends
        .into_iter()
        .find_map(|(end, missing)| Some((text.find(end)?, missing)));
    let (at, missing) = found.unwrap_or((text.len(), None));
    let (reason, end) = text.split_at(at);
    let unchecked = end
        .split_once("; damage to ")
        .and_then(|(_, rest)| rest.split_once(' ')?.0.parse().ok());
    let unchecked = unchecked.unwrap_or(0);
    (DamagedPart::Table { missing, unchecked }, reason)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn damage_is_read_as_it_was_written() {
        let key = |ring| ThreadKey { process: 0, ring };
        let thread = Thread {
            key: key(3),
            tid: 7,
            name: "a: b".into(),
            ..Thread::default()
        };
        let ring = |tid: Option<u32>, kept_slots, slots| DamagedPart::Ring {
            thread: ThreadKey::NOT_IN_FILE,
            tid,
            name: tid.map(|_| "a: b".to_owned()),
            kept_slots,
            slots,
        };
        let table = |missing, unchecked| DamagedPart::Table { missing, unchecked };
        let parts = [
            ring(Some(7), 4, Some(9)),
            ring(Some(7), 4, None),
            ring(Some(7), 9, Some(9)),
            ring(Some(8), 0, None),
            ring(None, 0, None),
            DamagedPart::Anchors {
                thread: ThreadKey::NOT_IN_FILE,
            },
            DamagedPart::OpenCalls {
                thread: ThreadKey::NOT_IN_FILE,
            },
            DamagedPart::Symbols,
            DamagedPart::Strings,
            DamagedPart::Stacks,
            DamagedPart::Bytes { from: 5, to: 8 },
            table(Some(0), 0),
            table(Some(0), 2),
            table(Some(1), 2),
            table(None, 0),
        ];
        for part in parts {
            let damage = Damage {
                part: part.clone(),
                reason: "cut off; here: copy it".into(),
            };
            let mut losses = Losses {
                counts: losses_of(&[damage]),
            };
            let [found] = &take(&mut losses, std::slice::from_ref(&thread))[..] else {
                panic!("{part:?}")
            };
            assert!(losses.counts.is_empty());
            let mut expected = part;
            if let DamagedPart::Ring {
                thread,
                tid: Some(7),
                ..
            } = &mut expected
            {
                *thread = key(3);
            }
            assert_eq!(found.part, expected);
            assert_eq!(
                found.reason,
                "before the conversion: cut off; here: copy it"
            );
            // A second conversion adds nothing.
            let mut losses = Losses {
                counts: losses_of(std::slice::from_ref(found)),
            };
            assert_eq!(
                take(&mut losses, std::slice::from_ref(&thread)),
                std::slice::from_ref(found)
            );
        }
    }

    #[test]
    fn what_is_no_damage_stays_a_loss_and_threads_of_one_name_share_damage() {
        let damage = "damaged: thread \"a\" (tid 7): cut; 1 of its 2 slots are in the trace";
        let counts = [("events", 3), ("damaged: x", 1), (damage, 1)];
        let mut losses = Losses {
            counts: counts.map(|(text, n)| (text.to_owned(), n)).into(),
        };
        let thread = |ring| Thread {
            key: ThreadKey { process: 0, ring },
            tid: 7,
            name: "a".into(),
            ..Thread::default()
        };
        let found = take(&mut losses, &[thread(0), thread(1)]);
        assert_eq!(losses.counts.len(), 2);
        assert_eq!(found.len(), 2);
        assert_eq!(losses_of(&found).len(), 1);
    }
}
