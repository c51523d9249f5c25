// SPDX-License-Identifier: Apache-2.0
//! The kernel's events of the guest: from the text of tracefs to records, and to a Perfetto trace, as `traced_probes` makes it on
//! a device.

use anyhow::{bail, ensure, Context as _, Result};

/// Flags of an event, as letters of the text: it happened in an interrupt.
const HARD_INTERRUPT: [char; 2] = ['h', 'H'];
const SOFT_INTERRUPT: char = 's';

/// An event of the kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Event {
    /// The processor, and the thread that it ran.
    pub(super) cpu: u64,
    pub(super) tid: u32,
    /// CLOCK_BOOTTIME, ns; the text has whole microseconds.
    pub(super) at_ns: u64,
    /// `TRACE_FLAG_HARDIRQ` and `TRACE_FLAG_SOFTIRQ`.
    flags: u64,
    pub(super) what: What,
}

/// What happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum What {
    Switch {
        prev: u64,
        state: u64,
        next: u64,
        next_name: String,
    },
    Waking {
        tid: u64,
        name: String,
    },
    /// A transaction, or the reply to one, is sent.
    Sent {
        id: u32,
        to_process: u32,
        to_thread: u32,
        is_reply: bool,
        flags: u32,
        code: u32,
    },
    Received {
        id: u32,
    },
}

/// All events, in the order of time.
#[derive(Debug)]
pub(super) struct KernelEvents {
    /// Readings of CLOCK_REALTIME, CLOCK_MONOTONIC and CLOCK_BOOTTIME at one time, ns.
    clocks: [u64; 3],
    pub(super) all: Vec<Event>,
}

/// The number after `name=` among words.
fn number(body: &str, name: &str) -> Option<u64> {
    let text = body.split_whitespace().find_map(|word| {
        let (key, value) = word.split_once('=')?;
        (key == name).then_some(value)
    })?;
    match text.strip_prefix("0x") {
        Some(hex) => u64::from_str_radix(hex, 16).ok(),
        None => text.parse().ok(),
    }
}

/// What a thread that leaves the processor does then, as the kernel numbers it.
fn state(letters: &str) -> u64 {
    let one = |letter| match letter {
        'S' => 1,
        'D' => 2,
        'T' => 4,
        't' => 8,
        'X' => 16,
        'Z' => 32,
        'P' => 64,
        'I' => 128,
        '+' => 256,
        _ => 0,
    };
    letters.chars().map(one).sum()
}

fn switch(body: &str) -> Option<What> {
    let (prev, next) = body.split_once(" ==> ")?;
    let (_, prev_state) = prev.split_once(" prev_state=")?;
    let (name, _) = next.strip_prefix("next_comm=")?.rsplit_once(" next_pid=")?;
    Some(What::Switch {
        prev: number(&prev[prev.rfind(" prev_pid=")?..], "prev_pid")?,
        state: state(prev_state),
        next: number(&next[next.rfind(" next_pid=")?..], "next_pid")?,
        next_name: name.to_owned(),
    })
}

fn waking(body: &str) -> Option<What> {
    let (name, rest) = body.strip_prefix("comm=")?.rsplit_once(" pid=")?;
    Some(What::Waking {
        tid: rest.split_whitespace().next()?.parse().ok()?,
        name: name.to_owned(),
    })
}

fn sent(body: &str) -> Option<What> {
    let word = |name| u32::try_from(number(body, name)?).ok();
    Some(What::Sent {
        id: word("transaction")?,
        to_process: word("dest_proc")?,
        to_thread: word("dest_thread")?,
        is_reply: word("reply")? != 0,
        flags: word("flags")?,
        code: word("code")?,
    })
}

fn received(body: &str) -> Option<What> {
    let id = u32::try_from(number(body, "transaction")?).ok()?;
    Some(What::Received { id })
}

type Parse = fn(&str) -> Option<What>;
const KINDS: [(&str, Parse); 4] = [
    (": sched_switch: ", switch),
    (": sched_waking: ", waking),
    (": binder_transaction: ", sent),
    (": binder_transaction_received: ", received),
];

/// The event of a line: `name-12 [001] d..2. 5.000001: sched_switch: …`.
fn event(line: &str) -> Option<Event> {
    let (head, body, parse) = KINDS.iter().find_map(|(mark, parse)| {
        let (head, body) = line.split_once(mark)?;
        Some((head, body, parse))
    })?;
    let (thread, rest) = head.rsplit_once(" [")?;
    let (_, tid) = thread.trim_end().rsplit_once('-')?;
    let (cpu, rest) = rest.split_once(']')?;
    let [letters, at] = rest.split_whitespace().collect::<Vec<_>>()[..] else {
        return None;
    };
    let (seconds, micros) = at.split_once('.')?;
    let hard = u64::from(letters.contains(HARD_INTERRUPT));
    let soft = u64::from(letters.contains([SOFT_INTERRUPT, 'H']));
    Some(Event {
        cpu: cpu.parse().ok()?,
        tid: tid.parse().ok()?,
        at_ns: seconds.parse::<u64>().ok()? * 1_000_000_000 + micros.parse::<u64>().ok()? * 1000,
        flags: hard << 3 | soft << 4,
        what: parse(body)?,
    })
}

impl KernelEvents {
    /// Reads the text: a line with the clocks, then what tracefs has.
    ///
    /// # Errors
    /// If a line makes no sense, or the kernel has lost events.
    pub(super) fn parse(text: &str) -> Result<Self> {
        let mut lines = text.lines();
        let clocks = lines
            .next()
            .and_then(|line| line.strip_prefix("# clocks "))
            .context("the kernel's events begin without the clocks")?;
        let clocks: Vec<u64> = clocks
            .split(' ')
            .map(str::parse)
            .collect::<Result<_, _>>()?;
        let clocks = <[u64; 3]>::try_from(clocks).ok().context("three clocks")?;
        let mut all = Vec::new();
        for line in lines.filter(|line| !line.starts_with('#')) {
            ensure!(!line.contains(" [LOST "), "the kernel lost events: {line}");
            match event(line) {
                Some(event) => all.push(event),
                None => bail!("'{line}' is no event of the kernel that is known"),
            }
        }
        Ok(KernelEvents { clocks, all })
    }

    /// The bytes of a Perfetto trace with these events.
    pub(super) fn to_perfetto(&self) -> Vec<u8> {
        const CLOCKS: [u64; 3] = [1, 3, 6];
        let mut snapshot = Proto::default();
        for (clock, ns) in CLOCKS.into_iter().zip(self.clocks) {
            let mut reading = Proto::default();
            reading.number(1, clock).number(2, ns);
            snapshot.message(1, &reading);
        }
        let mut packet = Proto::default();
        packet.message(6, &snapshot);
        let mut trace = Proto::default();
        trace.message(1, &packet);
        let cpus = self.all.iter().map(|event| event.cpu);
        for cpu in cpus.collect::<std::collections::BTreeSet<_>>() {
            let mut bundle = Proto::default();
            bundle.number(1, cpu);
            for event in self.all.iter().filter(|event| event.cpu == cpu) {
                bundle.message(2, &encode(event));
            }
            let mut packet = Proto::default();
            packet.message(1, &bundle);
            trace.message(1, &packet);
        }
        trace.0
    }
}

fn encode(event: &Event) -> Proto {
    let mut body = Proto::default();
    let field = match &event.what {
        What::Switch {
            prev,
            state,
            next,
            next_name,
        } => {
            body.number(2, *prev).number(4, *state);
            body.bytes(5, next_name.as_bytes()).number(6, *next);
            4
        }
        What::Waking { tid, name } => {
            body.bytes(1, name.as_bytes()).number(2, *tid);
            20
        }
        What::Sent {
            id,
            to_process,
            to_thread,
            is_reply,
            flags,
            code,
        } => {
            let numbers = [*id, 0, *to_process, *to_thread, (*is_reply).into(), *code];
            for (field, number) in (1..).zip(numbers) {
                body.number(field, number.into());
            }
            body.number(7, (*flags).into());
            50
        }
        What::Received { id } => {
            body.number(1, (*id).into());
            51
        }
    };
    let mut message = Proto::default();
    message.number(1, event.at_ns).number(2, event.tid.into());
    message.message(field, &body).number(5, event.flags);
    message
}

/// The encoded fields of a message of protobuf.
#[derive(Default)]
struct Proto(Vec<u8>);

impl Proto {
    fn varint(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.0.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.0.push(value as u8);
    }

    fn number(&mut self, field: u64, value: u64) -> &mut Self {
        self.varint(field << 3);
        self.varint(value);
        self
    }

    fn bytes(&mut self, field: u64, value: &[u8]) -> &mut Self {
        self.varint(field << 3 | 2);
        self.varint(value.len() as u64);
        self.0.extend_from_slice(value);
        self
    }

    fn message(&mut self, field: u64, message: &Proto) -> &mut Self {
        self.bytes(field, &message.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "# clocks 9000000000 5000000000 6000000000\n# tracer: nop\n\
        \x20     a [b-12      [001] d.h2.    5.000001: sched_switch: prev_comm=a [b prev_pid=12 prev_prio=120 prev_state=R+ ==> next_comm=c d next_pid=0 next_prio=120\n\
        \x20       <idle>-0       [000] dNs2.    5.000002: sched_waking: comm=rcu x pid=15 prio=120 target_cpu=000\n\
        \x20         main-708     [000] .....    5.000003: binder_transaction: transaction=3 dest_node=1 dest_proc=628 dest_thread=0 reply=0 flags=0x10 code=0x5f504e47\n\
        \x20         main-628     [000] .....    5.000004: binder_transaction_received: transaction=3\n";

    #[test]
    fn lines_of_tracefs_are_events() {
        let events = KernelEvents::parse(TEXT).unwrap();
        assert_eq!(events.clocks, [9_000_000_000, 5_000_000_000, 6_000_000_000]);
        let heads = events
            .all
            .iter()
            .map(|e| (e.cpu, e.tid, e.at_ns - 5_000_000_000, e.flags));
        let expected = [
            (1, 12, 1000, 8),
            (0, 0, 2000, 16),
            (0, 708, 3000, 0),
            (0, 628, 4000, 0),
        ];
        assert_eq!(heads.collect::<Vec<_>>(), expected);
        let switch = What::Switch {
            prev: 12,
            state: 256,
            next: 0,
            next_name: "c d".to_owned(),
        };
        let waking = What::Waking {
            tid: 15,
            name: "rcu x".to_owned(),
        };
        let sent = What::Sent {
            id: 3,
            to_process: 628,
            to_thread: 0,
            is_reply: false,
            flags: 0x10,
            code: 0x5f50_4e47,
        };
        let whats: Vec<What> = events.all.into_iter().map(|e| e.what).collect();
        assert_eq!(whats, [switch, waking, sent, What::Received { id: 3 }]);
    }

    #[test]
    fn what_is_no_event_is_refused() {
        let error = |text: &str| KernelEvents::parse(text).unwrap_err().to_string();
        assert!(error("nonsense").contains("without the clocks"));
        assert!(error(&format!("{TEXT}nonsense")).contains("'nonsense' is no event"));
        assert!(error(&format!("{TEXT}CPU:1 [LOST 12 EVENTS]")).contains("lost events"));
    }
}
