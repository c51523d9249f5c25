// SPDX-License-Identifier: Apache-2.0
//! A stall of a thread that records events only, in words.

use hindsight_analysis::{
    EventStall, EventWait, Holder, LongWait, Missing, Party, Place, Reason, SpanKind, Used,
    WaitTotal,
};

use crate::unknown::{not_traced, several, unclear};
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
        Some(SpanKind::Message) => "One message".to_owned(),
        Some(kind) => format!("One {}", kind.name()),
        None => "All of the recorded time".to_owned(),
    };
    let headline = match (stall.what, stall.still_running) {
        (None, _) => format!("{what} of {thread} is {held}; no message or task begins in it."),
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
        let other = wait.owner.as_ref().or(wait.waker.as_ref());
        let other = other.filter(|p| p.ring.is_some());
        paragraphs.extend(other.map(|party| meanwhile(party, wait)));
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
    let kind = stall.what?;
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
        text += &format!(", which {} held when the wait began", named(owner));
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

/// `400 ms for locks that thread "pool-1" (tid 101) held`
fn wait_for(wait: &LongWait) -> String {
    let (is_one, longest) = (wait.count <= 1, &wait.longest);
    let what = match (longest.kind.as_str(), is_one) {
        ("lock", true) => "for a lock",
        ("lock", false) => "for locks",
        ("object", _) => "in Object.wait",
        ("park", _) => "parked",
        ("gc", _) => "for the garbage collector",
        ("transaction", true) => "for the reply to a transaction",
        ("transaction", false) => "for replies to transactions",
        (kind, _) => kind,
    };
    let who = match (&longest.owner, &longest.waker, longest.served_ns) {
        (Some(owner), ..) => format!(" that {} held", named(owner)),
        (None, Some(server), Some(_)) => format!(", which {} served", named(server)),
        (None, Some(waker), None) => format!(" until {} ended it", named(waker)),
        (None, None, _) if longest.result.as_deref() == Some("timed out") => {
            " until its time was over".to_owned()
        }
        (None, None, _) => String::new(),
    };
    format!("{} {what}{who}", duration(wait.ns))
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
            "has nothing of that time left in its ring".to_owned()
        }
        [] if party.missing.is_some() => {
            "has no task or message then in the part of its ring that could be read".to_owned()
        }
        [] => "recorded no task or message then".to_owned(),
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

/// `thread "main" (tid 4200)`
fn named(party: &Party) -> String {
    match &party.thread {
        Some(name) => format!("thread \"{name}\" (tid {})", party.tid),
        None => format!("thread {}", party.tid),
    }
}

/// What the party of this reason did for the wait.
fn role(reason: Reason, wait: Option<&EventWait>) -> &'static str {
    match reason {
        _ if wait.is_some_and(|w| w.served_ns.is_some()) => "served the transaction",
        Reason::WakerNotTraced | Reason::WakerUnclear | Reason::WakerUnnamed => "ended the wait",
        _ => "held the lock when the wait began",
    }
}

fn conclusion(stall: &EventStall) -> Option<String> {
    let wait = stall.wait.as_ref();
    let party = wait.and_then(|w| w.owner.as_ref().or(w.waker.as_ref()));
    let name = party.map_or_else(String::new, named);
    let (tid, missing) = party.map_or((0, None), |p| (p.tid, p.missing));
    let is_one = party.is_some_and(|p| p.ring.is_some());
    let culprit = stall.culprit.as_ref();
    let culprit = culprit.map(|(what, thread)| format!("{what}, on thread \"{thread}\""));
    let culprit = culprit.unwrap_or_default();
    let reason = stall.culprit_reason;
    let role = role(reason, wait);
    if !stall.circle.is_empty() {
        return Some(deadlock(&stall.circle));
    }
    Some(match reason {
        Reason::LockOwner => format!("Culprit: {culprit}, which held the lock."),
        Reason::Waker if wait.is_some_and(|w| w.served_ns.is_some()) => {
            format!("Culprit: {culprit}, which served the transaction.")
        }
        Reason::Waker => format!("Culprit: {culprit}, which ended the wait."),
        Reason::OwnerNotTraced | Reason::WakerNotTraced => {
            format!("Culprit: unknown: {}", not_traced(role, &name, missing))
        }
        Reason::OwnerUnclear | Reason::OwnerUnnamed if !is_one => {
            format!("Culprit: unknown: {}", several("the owner of the lock", tid))
        }
        Reason::WakerUnclear | Reason::WakerUnnamed if !is_one => {
            format!("Culprit: unknown: {}", several("the thread that ended the wait", tid))
        }
        Reason::OwnerUnclear | Reason::OwnerUnnamed | Reason::WakerUnclear | Reason::WakerUnnamed => {
            let why = unclear(role, &name, ("recorded", "no task or message then"), missing);
            format!("Culprit: unknown: {why}")
        }
        Reason::OwnerWaited => format!(
            "Culprit: unknown: {name} held the lock, but waited for a lock itself. For more: hindsight why --thread {tid}"
        ),
        Reason::WakerWaited => format!(
            "Culprit: unknown: {name} {role}, but waited for a lock itself. For more: hindsight why --thread {tid}"
        ),
        Reason::Slept => alone(stall, &slept(wait)),
        Reason::Busy => alone(stall, "it computed for most of the time"),
        Reason::Paused => {
            let thread = stall.culprit.as_ref().map_or("", |(_, thread)| thread);
            format!("Culprit: a garbage collection on thread \"{thread}\", which suspended all threads.")
        }
        Reason::NotRecorded if wait.is_none() => return several_waits(&stall.long_waits),
        Reason::NotRecorded => return None,
    })
}

/// That the thread slept, and until when.
fn slept(wait: Option<&EventWait>) -> String {
    let interrupted = wait.filter(|w| w.result.as_deref() == Some("interrupted"));
    match interrupted.map(|w| &w.waker) {
        None => "it slept for a time that it chose".to_owned(),
        Some(None) => "it slept until it was interrupted".to_owned(),
        Some(Some(waker)) => format!("it slept until {} interrupted it", named(waker)),
    }
}

/// Of a thread that took most of the time itself.
fn alone(stall: &EventStall, what: &str) -> String {
    let upper = what[..1].to_uppercase() + &what[1..];
    let paused: u64 = stall.gc_pauses.iter().map(|p| p.outside_waits_ns).sum();
    let paused = (paused.saturating_mul(10) >= stall.held_ns).then(|| duration(paused));
    match (list(&stall.long_waits), paused) {
        (None, None) => format!("No other thread held it up: {what}."),
        (None, Some(ns)) => format!("{upper}. But it was also suspended for {ns}."),
        (Some(waits), None) => format!("{upper}. But it also waited {waits}."),
        (Some(waits), Some(ns)) => {
            format!("{upper}. But it also waited {waits}, and was suspended for {ns}.")
        }
    }
}

/// No wait took most of the time.
fn several_waits(long_waits: &[LongWait]) -> Option<String> {
    let waits = list(long_waits)?;
    let parties = long_waits
        .iter()
        .filter_map(|w| w.longest.owner.as_ref().or(w.longest.waker.as_ref()));
    let first = parties.filter(|p| p.ring.is_some()).map(|p| p.tid).next();
    let more = first.map_or_else(String::new, |tid| {
        format!(" For more: hindsight why --thread {tid}")
    });
    Some(format!(
        "No wait took most of the time: it waited {waits}.{more}"
    ))
}

/// `400 ms for a lock that … held, and 300 ms …`
fn list(long_waits: &[LongWait]) -> Option<String> {
    let waits: Vec<String> = long_waits.iter().map(wait_for).collect();
    match &waits[..] {
        [] => None,
        [one] => Some(one.clone()),
        [all @ .., last] => Some(format!("{}, and {last}", all.join(", "))),
    }
}

/// Threads that wait for each other's locks.
fn deadlock(circle: &[Holder]) -> String {
    let names: Vec<String> = (circle
        .iter()
        .map(|t| format!("thread \"{}\" (tid {})", t.thread, t.tid)))
    .collect();
    match &names[..] {
        [one] => format!("Deadlock: {one} waits for a lock that it holds itself."),
        [a, b] => format!("Deadlock: {a} and {b} wait for each other's locks."),
        all => format!("Deadlock: each of these threads waits for a lock that the next one holds, the last one for one of the first one: {}.", all.join(", ")),
    }
}
