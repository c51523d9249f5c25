// SPDX-License-Identifier: Apache-2.0
//! A stall of a thread that records events only, in words.

use hindsight_analysis::{
    EventStall, EventWait, LongWait, Missing, Party, Place, SpanKind, Used, WaitTotal,
};

use super::event_culprit::{conclusion, named, wait_for, NOTHING};
use crate::words::{bytes, count, counted, duration};

/// What is said about a stall, in this order.
pub(crate) struct Account {
    /// What took how long, where and when.
    pub(crate) headline: String,
    /// What happened in that time, a paragraph each.
    pub(crate) paragraphs: Vec<String>,
    /// What held the thread up.
    pub(crate) conclusion: Option<String>,
}

/// The account of a stall of `thread`. `end` names the end of the recorded or selected time;
/// whether its beginning `is_cut`: what begins with it may have begun before.
pub(crate) fn account(stall: &EventStall, thread: &str, end: &str, is_cut: bool) -> Account {
    let at_least = match is_cut && stall.may_have_begun_before {
        true => "at least ",
        false => "",
    };
    let held = format!("{at_least}{}", duration(stall.held_ns));
    let what = match stall.what {
        SpanKind::Wait => "One wait for a lock".to_owned(),
        kind => format!("One {}", kind.name()),
    };
    let headline = match (stall.what, stall.still_running) {
        (SpanKind::Wait, true) => format!("{what} had lasted {held} on {thread} at {end}."),
        (_, true) => format!("{what} had run for {held} on {thread} at {end}."),
        (_, false) => {
            let before = duration(stall.ended_before_ns);
            format!("{what} took {held} on {thread}, until {before} before {end}.")
        }
    };
    let mut paragraphs = Vec::new();
    paragraphs.extend(work(stall));
    paragraphs.push(time(stall));
    if let Some(wait) = &stall.wait {
        let place = stall.place.as_ref();
        let place = place.map(|p| format!(" Meanwhile it was in {}.", calls(p)));
        paragraphs.push(of_wait(wait) + &place.unwrap_or_default());
        let mut wait = wait;
        for next in stall.followed.iter().map(Some).chain([None]) {
            let other = wait.party().filter(|p| p.ring.is_some());
            let waited = next.map(|next| format!(" {}", of_wait(next)));
            paragraphs.extend(other.map(|p| meanwhile(p, wait) + &waited.unwrap_or_default()));
            wait = next.unwrap_or(wait);
        }
    } else if let Some(place) = &stall.place {
        let ns = duration(place.ns);
        paragraphs.push(format!("For {ns} of that time it was in {}.", calls(place)));
    }
    paragraphs.extend(stall.long_waits.iter().map(long_wait));
    Account {
        headline,
        paragraphs,
        conclusion: conclusion(stall),
    }
}

/// What the message or task was, and who sent it.
fn work(stall: &EventStall) -> Option<String> {
    let kind = stall.what;
    let mut text = match (kind, stall.name.as_str()) {
        (_, "") => String::new(),
        (SpanKind::Message, class) => format!("The message was for {class}"),
        (SpanKind::Task, class) => format!("The task was a {class}"),
        (SpanKind::Frame | SpanKind::FrameCallbacks, class) => {
            format!("Most of it was the callback {class}")
        }
        (_, name) => format!("It was {name}"),
    };
    if let Some(code) = stall.code.filter(|_| !text.is_empty()) {
        text += &format!(" (what {})", count(code));
    }
    let sent = stall.sender.as_ref().zip(stall.sent_before_ns);
    if let Some((sender, before)) = sent {
        let mut doing = match sender.doing.last() {
            Some(doing) => format!(", in {doing}"),
            None => String::new(),
        };
        if let Some(place) = &sender.place {
            doing += &format!(", from {},", place.method);
        }
        let delay = match stall.delay_ns {
            0 => String::new(),
            ns => format!(", with a delay of {}", duration(ns)),
        };
        let subject = match (kind, text.is_empty()) {
            (_, false) => "; it was",
            (SpanKind::Frame | SpanKind::FrameCallbacks, true) => {
                "Most of it was a callback that was"
            }
            (_, true) => "It was",
        };
        text += &format!(
            "{subject} sent by {}{doing} {} before it began{delay}",
            named(sender),
            duration(before)
        );
    }
    (!text.is_empty()).then(|| text + ".")
}

/// Where the thread's time went.
fn time(stall: &EventStall) -> String {
    let held = duration(stall.held_ns);
    let mut text = match stall.waited_ns {
        0 => format!("The thread recorded no wait in the {held}"),
        waited => format!(
            "The thread waited for {} of the {held} ({})",
            duration(waited),
            waits(&stall.waits)
        ),
    };
    match stall.used {
        Some(used) => {
            text += &format!(", and used {} of CPU time.", duration(used.cpu_ns));
            let paused: u64 = stall.gc_pauses.iter().map(|p| p.outside_waits_ns).sum();
            let rest = stall
                .held_ns
                .saturating_sub(stall.waited_ns)
                .saturating_sub(used.cpu_ns)
                .saturating_sub(paused);
            if rest * 10 > stall.held_ns {
                text += &format!(
                    " For {} it did neither: it was ready to run, or waited for something that is not recorded.",
                    duration(rest)
                );
            }
            text += &format!(" {}.", others(&used));
        }
        None => text += "; its CPU time was not read.",
    }
    for pauses in &stall.gc_pauses {
        let often = match pauses.count {
            1 => "a garbage collection".to_owned(),
            n => format!("{} pauses of garbage collections", count(n)),
        };
        text += &format!(
            " All threads were suspended for {} of the time, by {often} on thread \"{}\" (tid {}).",
            duration(pauses.ns),
            pauses.thread,
            pauses.tid
        );
    }
    text
}

fn others(used: &Used) -> String {
    let allocated = match used.objects {
        0 => "It allocated nothing".to_owned(),
        n => format!(
            "It allocated {} ({})",
            counted(n, "object", "objects"),
            bytes(used.bytes)
        ),
    };
    let faults = used.minor_faults + used.major_faults;
    let times =
        |what: &str, n: u64| (n > 0).then(|| format!("{what} {}", counted(n, "time", "times")));
    let had = (faults > 0).then(|| {
        let disk = match used.major_faults {
            0 => String::new(),
            n => format!(" ({} from disk)", count(n)),
        };
        format!("had {}{disk}", counted(faults, "page fault", "page faults"))
    });
    let parts: Vec<String> = [
        Some(allocated),
        times("gave up the processor", used.voluntary_switches),
        times("lost the processor", used.involuntary_switches),
        had,
    ]
    .into_iter()
    .flatten()
    .collect();
    match &parts[..] {
        [all @ .., last] if !all.is_empty() => format!("{} and {last}", all.join(", ")),
        _ => parts.concat(),
    }
}

/// `702 ms for locks, 3.00 ms for the garbage collector`
fn waits(totals: &[WaitTotal]) -> String {
    let parts: Vec<String> = totals
        .iter()
        .map(|total| {
            let what = match (total.kind.as_str(), total.count) {
                ("lock", 1) => "for a lock".to_owned(),
                ("lock", n) => format!("for locks, {} times", count(n)),
                ("object", 1) => "in Object.wait".to_owned(),
                ("object", n) => format!("in Object.wait, {} times", count(n)),
                ("sleep", _) => "asleep".to_owned(),
                ("park", 1) => "parked".to_owned(),
                ("park", n) => format!("parked, {} times", count(n)),
                ("gc", _) => "for the garbage collector".to_owned(),
                ("poll", _) => "for work".to_owned(),
                ("transaction", 1) => "for the reply to a transaction".to_owned(),
                ("transaction", n) => format!("for replies to transactions, {} times", count(n)),
                (kind, _) => kind.to_owned(),
            };
            format!("{} {what}", duration(total.ns))
        })
        .collect();
    parts.join(", ")
}

/// A long wait.
pub(crate) fn of_wait(wait: &EventWait) -> String {
    let ns = duration(wait.ns);
    let object = match wait.object {
        0 => String::new(),
        id => format!(" {id:#x}"),
    };
    let mut text = match wait.kind.as_str() {
        "lock" => format!("It waited {ns} for the lock{object}"),
        "object" => format!("It waited {ns} in Object.wait on the object{object}"),
        "sleep" => format!("It slept {ns}"),
        "park" if wait.object == 0 => format!("It was parked for {ns}"),
        "park" => format!("It was parked for {ns} on the object{object}"),
        "gc" => format!("It waited {ns} for the garbage collector"),
        "transaction" => return transaction(wait),
        _ => format!("It waited {ns}"),
    };
    if let Some(owner) = &wait.owner {
        text += &match wait.owner_since_ns {
            Some(since) => format!(
                ", which another thread released {} after the wait began; then {} held it",
                duration(since),
                named(owner)
            ),
            None => format!(", which {} held when the wait began", named(owner)),
        };
        if let Some(before) = wait.released_before_ns {
            text += &format!(" and released {} before it ended", duration(before));
        }
    } else if wait.kind == "lock" {
        text += ", whose owner was not recorded";
    }
    match (&wait.waker, wait.result.as_deref()) {
        (_, None) => text += "; the wait had not ended",
        (Some(waker), Some("interrupted")) => text += &format!("; {} interrupted it", named(waker)),
        (Some(waker), _) => text += &format!("; {} ended the wait", named(waker)),
        (None, Some("timed out")) if wait.kind != "sleep" => text += "; its time was over",
        (None, Some("interrupted")) => text += "; it was interrupted",
        _ => {}
    }
    text + "."
}

/// Waits for another thread, besides the one that took most of the time.
fn long_wait(wait: &LongWait) -> String {
    match wait.count {
        0 | 1 => of_wait(&wait.longest),
        n => format!(
            "It waited {}, {} times, the longest time {}.",
            wait_for(wait),
            count(n),
            duration(wait.longest.ns)
        ),
    }
}

/// A wait for the reply to a transaction.
fn transaction(wait: &EventWait) -> String {
    let code = wait
        .code
        .map_or_else(String::new, |code| format!(" (code {code})"));
    let server = match (&wait.waker, wait.served_ns) {
        (Some(server), Some(ns)) => {
            format!(", which {} served for {}", named(server), duration(ns))
        }
        _ => "; the thread that served it is not recorded".to_owned(),
    };
    let going_on = match wait.result {
        Some(_) => "",
        None => "; it had not returned",
    };
    let ns = duration(wait.ns);
    format!("It waited {ns} for the reply to a transaction{code}{server}{going_on}.")
}

/// `com.example.A.f → com.example.B.g`, the innermost calls last.
fn calls(place: &Place) -> String {
    /// More of them do not fit into a sentence.
    const MOST: usize = 5;
    let mut calls = place.calls.clone();
    // Methods of one name often call each other.
    calls.dedup();
    let inner = calls.len().saturating_sub(MOST);
    let more = if inner > 0 { "… → " } else { "" };
    format!("{more}{}", calls[inner..].join(" → "))
}

/// What the owner, the waker or the server did.
fn meanwhile(party: &Party, wait: &EventWait) -> String {
    let doing = match &party.doing[..] {
        [] if party.missing == Some(Missing::Overwritten) => {
            format!(
                "recorded {NOTHING}, but its ring does not reach back to the beginning of the wait"
            )
        }
        [] if party.missing.is_some() => {
            "has no task or message that ran for most of the wait in the part of its ring that could be read".to_owned()
        }
        [] => format!("recorded {NOTHING}"),
        doing => format!("was in {}", doing.join(" → ")),
    };
    let waited = match &party.waits[..] {
        [] => String::new(),
        totals => format!("; meanwhile it waited {}", waits(totals)),
    };
    let used = match party.used {
        Some(used) => format!("; it used {} of CPU time", duration(used.cpu_ns)),
        None => String::new(),
    };
    let long = match &party.place_meanwhile {
        Some(place) => format!(
            "; for {} of the wait in {}",
            duration(place.ns),
            calls(place)
        ),
        None => String::new(),
    };
    let did = match wait.owner {
        Some(_) => "released the lock",
        None => "ended the wait",
    };
    let place = match &party.place {
        Some(place) => format!(" It {did} in {}.", calls(place)),
        None => String::new(),
    };
    let name = named(party);
    let upper = name[..1].to_uppercase() + &name[1..];
    format!("{upper} {doing}{long}{waited}{used}.{place}")
}
