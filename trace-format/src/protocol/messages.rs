// SPDX-License-Identifier: Apache-2.0
//! The messages, and their bytes.

use crate::container::codec::{Decoder, Encoder};
use crate::container::{Consent, DecodeError};

use super::detectors::DetectorRules;
use super::severity::TriggerSeverity;
use super::{MAX_MESSAGE_BYTES, MAX_TEXT_BYTES};

/// A process introduces itself. Its memory comes in the same packet.
///
/// The service learns process and user from the kernel; what is here is the process's own account.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Hello {
    /// The oldest and the newest version of the protocol that the process speaks.
    pub versions: (u32, u32),
    /// [`crate::shared::SHARED_VERSION`] of the process.
    pub memory_version: u32,
    /// Process or package name.
    pub name: String,
    /// Size of a ring of calls, bytes.
    pub ring_bytes: u64,
    /// The memory that all else but rings of calls may take for now, bytes: rings of events, stacks, names. A process of version 2
    /// begins with a part of what it may need, and asks for more by [`FromProcess::Needs`]; one of version 1 says the most that it
    /// may ever take.
    pub other_bytes: u64,
    /// Rings of calls in use now: not 0 if the service was started again.
    pub held: u32,
    /// Whether the user sees the process now.
    pub is_foreground: bool,
    /// The report whose rings are taken, and not released yet; 0: none.
    pub taken: u64,
}

/// A process found something worth a report.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Trigger {
    /// How bad it is.
    pub severity: TriggerSeverity,
    /// The detector that found it, such as `slow-message`.
    pub detector: String,
    /// What it found, for people.
    pub reason: String,
    /// Kernel id of the thread that it is about; 0: none in particular.
    pub tid: u32,
    /// When, `CLOCK_BOOTTIME`, ns.
    pub at_boottime_ns: u64,
}

/// What became of a [`FromService::Take`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TakeOutcome {
    /// The rings are taken.
    #[default]
    Taken,
    /// No thread has recorded anything.
    Nothing,
    /// The rings of another report are still taken, or tracing has ended.
    Refused,
}

impl TakeOutcome {
    fn from_number(number: u32) -> Self {
        match number {
            0 => TakeOutcome::Taken,
            1 => TakeOutcome::Nothing,
            _ => TakeOutcome::Refused,
        }
    }
}

/// A message of a process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FromProcess {
    /// The first message.
    Hello(Hello),
    /// The user sees the process from now on, or no more.
    Foreground {
        /// Whether the user sees it.
        is_foreground: bool,
        /// Kernel id of the thread that the user waits for.
        tid: u32,
    },
    /// So many rings of calls are in use now: the answer to each [`Configuration`], in order.
    Held {
        /// Their number.
        rings: u32,
    },
    /// See [`Trigger`].
    Trigger(Trigger),
    /// The answer to [`FromService::Take`].
    Taken {
        /// The report.
        report: u64,
        /// What became of it.
        outcome: TakeOutcome,
    },
    /// The process ends by itself: its end is no anomaly.
    Farewell,
    /// The process needs so much memory for all but rings of calls. It does not use more than it was given last, by its hello or by
    /// [`FromService::Room`], and is told when it may. The most that it has asked for counts.
    Needs {
        /// In all, bytes.
        bytes: u64,
    },
    /// The process has this name from now on. On a device a process says hello before it has the name of its package.
    Name {
        /// Process or package name.
        name: String,
    },
    /// The names of all classes that were linked before recording started are in the memory now.
    Named,
    /// The process has activities that are started, or none any more: what the user sees is an activity, while Android's state of a
    /// process is the same for a service that the user notices. Said only where the framework's classes tell the runtime; without
    /// it nothing is known.
    Activities {
        /// Whether there is one.
        are_started: bool,
    },
}

/// How a process records from now on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Configuration {
    /// Grows with each change.
    pub revision: u64,
    /// The most rings of calls that the process may use.
    pub call_rings: u32,
    /// Categories of events that it records, as bits of [`crate::catalogue::Category`].
    pub categories: u32,
    /// Which strings may get into reports; the service has no others written.
    pub consent: Consent,
}

/// A message of the service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FromService {
    /// The answer to [`FromProcess::Hello`].
    Welcome {
        /// The version of the protocol from here on.
        version: u32,
    },
    /// The other answer, which may also come later: the process is not wanted. It records nothing until a service configures it, and
    /// does not come back by itself before the user sees it, or there is another service.
    Refused {
        /// Why, for the process's log.
        reason: String,
    },
    /// See [`Configuration`].
    Configure(Configuration),
    /// All threads exchange their rings; the old ones stay as they are until [`FromService::Release`].
    Take {
        /// Number of the report; never 0.
        report: u64,
    },
    /// The rings that were taken for this report are not needed any more.
    Release {
        /// Number of the report.
        report: u64,
    },
    /// The process may use so much memory for all but rings of calls from now on.
    Room {
        /// In all, bytes; never less than before.
        bytes: u64,
    },
    /// See [`DetectorRules`].
    Detectors(DetectorRules),
}

/// Fields of a message.
struct Fields(Encoder);

impl Fields {
    fn new(kind: u32) -> Self {
        let mut e = Encoder::default();
        e.u32(kind);
        Fields(e)
    }

    fn u32(mut self, v: u32) -> Self {
        self.0.u32(v);
        self
    }

    fn u64(mut self, v: u64) -> Self {
        self.0.u64(v);
        self
    }

    fn text(mut self, s: &str) -> Self {
        let mut end = s.len().min(MAX_TEXT_BYTES);
        while !s.is_char_boundary(end) {
            end -= 1;
        }
        self.0.string(&s[..end]);
        self
    }

    fn bytes(self) -> Vec<u8> {
        debug_assert!(self.0 .0.len() <= MAX_MESSAGE_BYTES);
        self.0 .0
    }
}

fn text(d: &mut Decoder<'_>, field: &str) -> Result<String, DecodeError> {
    let text = d.str(field)?;
    match text.len() {
        0..=MAX_TEXT_BYTES => Ok(text.to_owned()),
        long => Err(d.error(format!(
            "{field} has {long} bytes; at most {MAX_TEXT_BYTES} are allowed"
        ))),
    }
}

fn decoder(packet: &[u8]) -> Result<(u32, Decoder<'_>), DecodeError> {
    let mut d = Decoder::new(packet);
    if packet.len() > MAX_MESSAGE_BYTES {
        let long = packet.len();
        return Err(d.error(format!(
            "the message has {long} bytes; at most {MAX_MESSAGE_BYTES} are allowed"
        )));
    }
    Ok((d.u32("the kind of message")?, d))
}

impl FromProcess {
    /// The packet.
    pub fn encode(&self) -> Vec<u8> {
        let fields = match self {
            FromProcess::Hello(hello) => Fields::new(1)
                .u32(hello.versions.0)
                .u32(hello.versions.1)
                .u32(hello.memory_version)
                .text(&hello.name)
                .u64(hello.ring_bytes)
                .u64(hello.other_bytes)
                .u32(hello.held)
                .u32(hello.is_foreground.into())
                .u64(hello.taken),
            FromProcess::Foreground { is_foreground, tid } => {
                Fields::new(2).u32((*is_foreground).into()).u32(*tid)
            }
            FromProcess::Held { rings } => Fields::new(3).u32(*rings),
            FromProcess::Trigger(trigger) => Fields::new(4)
                .u32(trigger.severity as u32)
                .text(&trigger.detector)
                .text(&trigger.reason)
                .u32(trigger.tid)
                .u64(trigger.at_boottime_ns),
            FromProcess::Taken { report, outcome } => {
                Fields::new(5).u64(*report).u32(*outcome as u32)
            }
            FromProcess::Farewell => Fields::new(6),
            FromProcess::Needs { bytes } => Fields::new(7).u64(*bytes),
            FromProcess::Name { name } => Fields::new(8).text(name),
            FromProcess::Named => Fields::new(9),
            FromProcess::Activities { are_started } => Fields::new(10).u32((*are_started).into()),
        };
        fields.bytes()
    }

    /// From a packet; `None` is a message that this build does not know.
    ///
    /// # Errors
    /// If it is too long or too short, or a text is none.
    pub fn decode(packet: &[u8]) -> Result<Option<Self>, DecodeError> {
        let (kind, mut d) = decoder(packet)?;
        let d = &mut d;
        Ok(Some(match kind {
            1 => FromProcess::Hello(Hello {
                versions: (d.u32("versions")?, d.u32("versions")?),
                memory_version: d.u32("memory_version")?,
                name: text(d, "name")?,
                ring_bytes: d.u64("ring_bytes")?,
                other_bytes: d.u64("other_bytes")?,
                held: d.u32("held")?,
                is_foreground: d.u32("is_foreground")? != 0,
                taken: d.u64("taken")?,
            }),
            2 => FromProcess::Foreground {
                is_foreground: d.u32("is_foreground")? != 0,
                tid: d.u32("tid")?,
            },
            3 => FromProcess::Held {
                rings: d.u32("rings")?,
            },
            4 => FromProcess::Trigger(Trigger {
                severity: TriggerSeverity::from_number(d.u32("severity")?),
                detector: text(d, "detector")?,
                reason: text(d, "reason")?,
                tid: d.u32("tid")?,
                at_boottime_ns: d.u64("at_boottime_ns")?,
            }),
            5 => FromProcess::Taken {
                report: d.u64("report")?,
                outcome: TakeOutcome::from_number(d.u32("outcome")?),
            },
            6 => FromProcess::Farewell,
            7 => FromProcess::Needs {
                bytes: d.u64("bytes")?,
            },
            8 => FromProcess::Name {
                name: text(d, "name")?,
            },
            9 => FromProcess::Named,
            10 => FromProcess::Activities {
                are_started: d.u32("are_started")? != 0,
            },
            _ => return Ok(None),
        }))
    }
}

impl FromService {
    /// The packet.
    pub fn encode(&self) -> Vec<u8> {
        let fields = match self {
            FromService::Welcome { version } => Fields::new(1).u32(*version),
            FromService::Refused { reason } => Fields::new(2).text(reason),
            FromService::Configure(configuration) => Fields::new(3)
                .u64(configuration.revision)
                .u32(configuration.call_rings)
                .u32(configuration.categories)
                .text(configuration.consent.name()),
            FromService::Take { report } => Fields::new(4).u64(*report),
            FromService::Release { report } => Fields::new(5).u64(*report),
            FromService::Room { bytes } => Fields::new(7).u64(*bytes),
            FromService::Detectors(rules) => {
                let mut fields = Fields::new(20);
                rules.encode(&mut fields.0);
                fields
            }
        };
        fields.bytes()
    }

    /// From a packet; `None` is a message that this build does not know.
    ///
    /// # Errors
    /// If it is too long or too short, or a text is none.
    pub fn decode(packet: &[u8]) -> Result<Option<Self>, DecodeError> {
        let (kind, mut d) = decoder(packet)?;
        let d = &mut d;
        Ok(Some(match kind {
            1 => FromService::Welcome {
                version: d.u32("version")?,
            },
            2 => FromService::Refused {
                reason: text(d, "reason")?,
            },
            3 => FromService::Configure(Configuration {
                revision: d.u64("revision")?,
                call_rings: d.u32("call_rings")?,
                categories: d.u32("categories")?,
                // A level of a newer build: the lowest one that this build knows.
                consent: Consent::from_name(&text(d, "consent")?).unwrap_or(Consent::Structure),
            }),
            4 => FromService::Take {
                report: d.u64("report")?,
            },
            5 => FromService::Release {
                report: d.u64("report")?,
            },
            7 => FromService::Room {
                bytes: d.u64("bytes")?,
            },
            20 => FromService::Detectors(DetectorRules::decode(d)?),
            _ => return Ok(None),
        }))
    }
}
