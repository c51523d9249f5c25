// SPDX-License-Identifier: Apache-2.0
//! Packets, ends and times of several hostile processes, through the dispatcher and the engine of hindsightd. No process is told
//! anything before it has joined or after it is gone, and nothing of a process is left when it has ended.

#![no_main]

use std::collections::{BTreeMap, BTreeSet};
use std::io::Cursor;
use std::sync::OnceLock;

use hindsight_service::commands::Request;
use hindsight_service::daemon::{Decider, Dispatcher, Limits, Memory, Outlet, Verdict};
use hindsight_service::engine::{
    About, Asked, Connection, Engine, Event, Facts, Now, Peer, Pressure, Report, Service,
};
use hindsight_service::limits::Limiter;
use hindsight_service::policy::{Accepted, Keys, Level, Person, Policy, Trust};
use hindsight_trace_format::container::{Consent, Writer};
use hindsight_trace_format::protocol::{
    FromProcess, FromService, Hello, TakeOutcome, Trigger, TriggerSeverity, MAX_MESSAGE_BYTES,
};
use hindsight_trace_format::shared::{
    BootNames, Ending, ReadLimits, RingFilter, Served, SharedReader,
};
use libfuzzer_sys::fuzz_target;

const LIMITS: Limits = Limits {
    connections: 12,
    connections_per_uid: 5,
    hello_ns: 5_000_000_000,
    end_ns: 1_000_000_000,
    burst: 64,
    packet_ns: 50_000_000,
    waiting_reports: 4,
};

const POLICY: &str = "version = 1\n[memory]\nbudget-mib = 64\ncall-rings = 3\nprocesses = 8\n[reports]\nkilled = \"all\"\n\
[limits]\ndevice = 30\nper-uid = 20\nper-detector = 10\n";

/// What the service would have open.
#[derive(Default)]
struct Links {
    /// Connections that can be sent to.
    open: BTreeSet<Connection>,
    /// Whose memory there is.
    memory: BTreeSet<Connection>,
    /// Connections that the dispatcher may still name.
    known: BTreeSet<Connection>,
    /// Those that do not read.
    full: BTreeSet<Connection>,
    writes: Vec<Report>,
    written: BTreeSet<Report>,
    /// Reports that a process was asked to take.
    takes: BTreeMap<Connection, Report>,
    asked: BTreeSet<u64>,
}

impl Outlet for Links {
    fn send(&mut self, connection: Connection, message: &FromService) -> bool {
        assert!(self.known.contains(&connection), "sent to nobody");
        let packet = message.encode();
        assert!(packet.len() <= MAX_MESSAGE_BYTES);
        assert!(FromService::decode(&packet).unwrap().is_some());
        if let FromService::Take { report } = message {
            self.takes.insert(connection, *report);
        }
        self.open.contains(&connection) && !self.full.contains(&connection)
    }

    /// Every process says that it serves all others.
    fn services(&self) -> Vec<Service> {
        let all = (1..=8_u32).flat_map(|pid| (0..4_u32).map(move |uid| (pid, uid)));
        let of = |connection: &Connection| {
            let connection = *connection;
            all.clone().map(move |(pid, uid)| Service {
                connection,
                served: Served {
                    pid,
                    uid,
                    tid: 1,
                    began_ns: u64::from(pid),
                    ended_ns: None,
                },
            })
        };
        self.memory.iter().flat_map(of).collect()
    }

    fn close(&mut self, connection: Connection) {
        self.open.remove(&connection);
    }

    fn write(
        &mut self,
        report: Report,
        connection: Connection,
        _: About,
        _: bool,
        limits: ReadLimits,
    ) -> bool {
        assert!(limits.all_rings <= 512 << 20, "more than the budget");
        assert!(report != 0 && self.written.insert(report), "a number used twice");
        let is_possible = self.memory.contains(&connection) && self.writes.len() < 4;
        if is_possible {
            self.writes.push(report);
        }
        is_possible
    }

    fn forget(&mut self, connection: Connection) {
        self.memory.remove(&connection);
    }

    fn remove(&mut self, connection: Connection) {
        self.memory.remove(&connection);
        self.open.remove(&connection);
        assert!(self.known.remove(&connection), "removed twice");
    }

    fn wake_at(&mut self, _: Option<u64>) {}

    fn answer(&mut self, reply: u64, _: Result<Vec<String>, String>) {
        assert!(self.asked.remove(&reply), "an answer that nobody waits for");
    }

    fn save(&mut self, _: String) {}

    fn uses(&mut self, report: Report) {
        assert_ne!(report, 0);
    }

    fn log(&mut self, _: String) {}
}

/// Takes numbers off the input; zeros at its end.
struct Input<'a>(&'a [u8]);

impl<'a> Input<'a> {
    fn byte(&mut self) -> u8 {
        let (first, rest) = self.0.split_first().unwrap_or((&0, &[]));
        self.0 = rest;
        *first
    }

    fn number(&mut self) -> u64 {
        let bytes = self.take(8);
        bytes.iter().fold(0, |n, b| n << 8 | u64::from(*b))
    }

    fn take(&mut self, length: usize) -> &'a [u8] {
        let (taken, rest) = self.0.split_at(length.min(self.0.len()));
        self.0 = rest;
        taken
    }

    fn message(&mut self, taken: u64) -> FromProcess {
        match self.byte() % 7 {
            0 => FromProcess::Hello(Hello {
                versions: (1, u32::from(self.byte())),
                memory_version: u32::from(self.byte()),
                name: String::from_utf8_lossy(self.take(5)).into_owned(),
                ring_bytes: 1 << (12 + self.byte() % 20),
                other_bytes: u64::from(self.byte()) << (self.byte() % 40),
                held: u32::from(self.byte() % 4),
                is_foreground: self.byte() % 2 == 0,
                taken: u64::from(self.byte() % 4),
            }),
            1 => FromProcess::Foreground {
                is_foreground: self.byte() % 2 == 0,
                tid: 1,
            },
            2 => FromProcess::Held {
                rings: u32::from(self.byte() % 5),
            },
            3 => FromProcess::Trigger(Trigger {
                severity: TriggerSeverity::ALL[usize::from(self.byte() % 4)],
                detector: String::from_utf8_lossy(self.take(2)).into_owned(),
                reason: String::new(),
                tid: 0,
                at_boottime_ns: self.number(),
            }),
            4 => FromProcess::Taken {
                report: taken.wrapping_add(u64::from(self.byte() / 250)),
                outcome: match self.byte() % 4 {
                    0 => TakeOutcome::Nothing,
                    1 => TakeOutcome::Refused,
                    _ => TakeOutcome::Taken,
                },
            },
            5 => FromProcess::Activities {
                are_started: self.byte() % 2 == 0,
            },
            _ => FromProcess::Farewell,
        }
    }
}

/// A well-formed hello, so that most processes get further than the first packet.
fn hello(uid: u32) -> FromProcess {
    FromProcess::Hello(Hello {
        versions: (1, 1),
        memory_version: 1,
        name: format!("app{uid}"),
        ring_bytes: 1 << 20,
        other_bytes: 1 << 18,
        held: 0,
        is_foreground: true,
        taken: 0,
    })
}

fn step(
    input: &mut Input<'_>,
    now: &mut Now,
    dispatcher: &mut Dispatcher<Decider>,
    links: &mut Links,
) {
    let what = input.byte();
    let which = usize::from(input.byte());
    let connections: Vec<Connection> = links.known.iter().copied().collect();
    let one = connections.get(which % connections.len().max(1)).copied().unwrap_or(0);
    match what % 16 {
        0 | 1 => {
            let uid = u32::from(input.byte() % 4);
            let pid = u32::from(input.byte() % 8) + 1;
            let shows_end = what & 0x40 == 0;
            if let Ok(connection) = dispatcher.connect(*now, Peer { pid, uid }, shows_end) {
                links.known.insert(connection);
                links.open.insert(connection);
                if what & 0x80 == 0 {
                    let packet = hello(uid).encode();
                    receive(dispatcher, links, *now, connection, &packet, Memory::Good);
                }
            }
        }
        2..=7 => {
            let taken = links.takes.get(&one).copied().unwrap_or(0);
            let mut packet = input.message(taken).encode();
            if what & 0xc0 == 0xc0 {
                let at = usize::from(input.byte()) % packet.len();
                packet[at] ^= input.byte();
            }
            receive(dispatcher, links, *now, one, &packet, Memory::Good);
        }
        8 => {
            let length = usize::from(input.byte());
            let packet = input.take(length);
            let memory = Memory::Bad("bad".into());
            receive(dispatcher, links, *now, one, packet, memory);
        }
        9 => dispatcher.closed(*now, one, links),
        10 => dispatcher.ended(one, links),
        11 => {
            links.full.insert(one);
        }
        12 => {
            let seconds = u64::from(input.byte());
            now.boottime_ns += seconds * seconds * 10_000_000;
            if what & 0x80 != 0 {
                dispatcher.slept(seconds * seconds * 10_000_000);
            }
            dispatcher.expire(*now, links);
            dispatcher.push(Event::Woke);
        }
        13 => {
            if !links.writes.is_empty() {
                let report = links.writes.remove(which % links.writes.len());
                let is_kept = what & 0x80 == 0;
                dispatcher.push(Event::Written { report, is_kept });
            }
        }
        14 => {
            let reply = u64::from(input.byte()) << 32 | now.boottime_ns;
            if links.asked.insert(reply) {
                let what = Asked::Report {
                    process: format!("app{}", which % 4),
                    reason: "why".into(),
                };
                dispatcher.push(Event::Asked { reply, what });
            }
        }
        _ => match which % 5 {
            0 => dispatcher.push(Event::Pressure(Pressure::None)),
            1 => dispatcher.push(Event::Pressure(Pressure::Some)),
            2 => dispatcher.push(Event::Pressure(Pressure::Full)),
            3 if what & 0x80 != 0 => {
                let length = usize::from(input.byte()) << 3;
                let text = String::from_utf8_lossy(input.take(length)).into_owned();
                // Refused: the policy before it stays.
                let _ = dispatcher.load_policy(*now, Some(&text), links);
            }
            3 => {
                let off = Some("version = 1\nenabled = false\n");
                dispatcher.load_policy(*now, off, links).unwrap();
            }
            _ => dispatcher.load_policy(*now, None, links).unwrap(),
        },
    }
    dispatcher.drain(*now, links);
    let (entries, joined) = dispatcher.counts();
    assert_eq!(entries, links.known.len());
    assert!(entries <= LIMITS.connections && joined <= links.open.len());
}

fn receive(
    dispatcher: &mut Dispatcher<Decider>,
    links: &mut Links,
    now: Now,
    connection: Connection,
    packet: &[u8],
    memory: Memory,
) {
    let verdict = dispatcher.receive(now, connection, packet, memory, links);
    if matches!(verdict, Verdict::KeepMemory) {
        links.memory.insert(connection);
    }
}

/// A key whose private half nobody has kept: no input can be signed with it.
const KEY: &str = "-----BEGIN PUBLIC KEY-----\nMCowBQYDK2VwAyEAgO28JwQ79cBQPxbALHYrhC12oLDUHPfe47y+azbQSG8=\n-----END PUBLIC KEY-----\n";

/// A policy file where signatures are looked at, with one of them or without: it is never taken as signed.
fn signed(input: &mut Input<'_>) {
    let mut keys = Keys::default();
    keys.add("key.pem", KEY).unwrap();
    let takes_unsigned = input.byte() % 2 == 0;
    let mut text = String::from_utf8_lossy(input.0).into_owned();
    if takes_unsigned {
        // The key's file is input as well.
        let _ = keys.add("other.pem", &text);
    } else if text.len() % 2 == 0 {
        text = text.replace("$", "# signature: key ");
    }
    let keys = Some(keys);
    let trust = Trust { keys, takes_unsigned };
    match trust.admit(&text, Accepted::UpTo(0), 0) {
        Ok(admitted) => assert!(takes_unsigned && admitted.key.is_none()),
        Err(refused) => assert!(!refused.to_string().is_empty()),
    }
}

fuzz_target!(|data: &[u8]| {
    let mut input = Input(data);
    let kind = input.byte();
    // A policy file, and a line of the command socket: each is taken or refused with a reason.
    if kind == 2 {
        let text = String::from_utf8_lossy(input.0);
        match Policy::parse(&text) {
            Ok(policy) => drop(Engine::new(policy, Limiter::fresh("boot"), Facts::default())),
            Err(error) => assert!(!error.to_string().is_empty()),
        }
        return;
    }
    if kind == 4 {
        return signed(&mut input);
    }
    if kind == 3 {
        if let Err(why) = Request::parse(&String::from_utf8_lossy(input.0)) {
            assert!(!why.is_empty());
        }
        return;
    }
    // The memory that such processes hand over: it is read or refused.
    if kind == 1 {
        let limits = ReadLimits {
            all_rings: 1 << 24,
            ring: 1 << 20,
            other: 1 << 20,
            memory: 1 << 23,
        };
        if let Ok(mut reader) = SharedReader::new(input.0, RingFilter::Taken, limits) {
            reader.set_boot_names(BootNames::learn(input.0, limits.other).ok().flatten());
            if let Ok(mut writer) = Writer::new(Cursor::new(Vec::new())) {
                let _ = reader.write(&mut writer, &Ending::default(), Consent::Names);
            }
        }
        return;
    }
    let facts = Facts {
        person: Person {
            agreed: Some(Level::Full),
            ..Person::default()
        },
        is_restart: input.byte() % 4 == 0,
        first_report: 5,
        ..Facts::default()
    };
    static PARSED: OnceLock<Policy> = OnceLock::new();
    let policy = PARSED.get_or_init(|| Policy::parse(POLICY).unwrap());
    let engine = Engine::new(policy.clone(), Limiter::fresh("boot"), facts);
    let mut dispatcher = Dispatcher::new(Decider::new(engine, String::new()), LIMITS);
    let mut links = Links::default();
    let mut now = Now {
        boottime_ns: 1_000_000_000,
        realtime_ns: 0,
    };
    while !input.0.is_empty() {
        step(&mut input, &mut now, &mut dispatcher, &mut links);
    }
    // All processes end, and all that waits for the disk is done.
    for connection in links.known.clone() {
        dispatcher.ended(connection, &mut links);
    }
    dispatcher.drain(now, &mut links);
    while let Some(report) = links.writes.pop() {
        let is_kept = true;
        dispatcher.push(Event::Written { report, is_kept });
        dispatcher.drain(now, &mut links);
    }
    assert!(links.known.is_empty() && links.memory.is_empty());
    assert!(links.asked.is_empty(), "a client waits for ever");
    assert_eq!(dispatcher.counts(), (0, 0));
});
