// SPDX-License-Identifier: Apache-2.0
//! Configuration: one line of `key=value` pairs, separated by commas.
//!
//! In the lab it is the environment variable `HINDSIGHT`, on a device the property `persist.hindsight.trace`. The keys
//! are listed in `docs/configuration.md`.

use std::path::PathBuf;
use std::time::Duration;

use hindsight_trace_format::catalogue::Category;
use hindsight_trace_format::container::Consent;
use hindsight_trace_format::library_rules;
use hindsight_trace_format::ring::{Geometry, MAX_LOG2_BYTES, MIN_LOG2_BYTES};

use crate::clock::Fallback;
use crate::limits::Limits;
use crate::rewind::Rewind;

/// Which threads are traced from their start on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ThreadSelection {
    /// None.
    Off,
    /// The main thread.
    Main,
    /// Every thread.
    All,
}

impl ThreadSelection {
    /// Whether the thread with this kernel id is selected in this process.
    pub(crate) fn selects(self, tid: u32) -> bool {
        match self {
            ThreadSelection::Off => false,
            ThreadSelection::Main => tid == std::process::id(),
            ThreadSelection::All => true,
        }
    }
}

/// The stop protocol: how the ring of a thread is changed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Protocol {
    /// At a safepoint.
    #[default]
    Checkpoint,
    /// By a request word that the thread reads before it records (`handshake/request.rs`).
    #[cfg(feature = "lock-free")]
    LockFree,
}

/// The maximum number of rings in a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RingLimit {
    /// One for each traced thread.
    Unlimited,
    /// At most this many.
    AtMost(usize),
}

impl RingLimit {
    /// The largest limit.
    const MAX: usize = 1024;

    /// Parses a number from 1 to 1024, or `unlimited`; `None` for anything else.
    pub fn parse(text: &str) -> Option<Self> {
        if text == "unlimited" {
            return Some(RingLimit::Unlimited);
        }
        text.parse()
            .ok()
            .filter(|n| (1..=Self::MAX).contains(n))
            .map(RingLimit::AtMost)
    }

    /// The values that [`parse`](Self::parse) takes, for error messages.
    pub(crate) const TAKES: &'static str = "1 to 1024, or unlimited";

    /// The number, `None` if there is no limit.
    pub fn number(self) -> Option<usize> {
        match self {
            RingLimit::Unlimited => None,
            RingLimit::AtMost(n) => Some(n),
        }
    }
}

/// The maximum number of rings where not all threads are to be traced.
const DEFAULT_RINGS: usize = 2;
/// The maximum number of rings where all threads are to be traced: 128 MiB of the default size, if all are filled.
const DEFAULT_RINGS_OF_ALL: usize = 16;

/// Categories of events, as bits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Categories(pub u32);

impl Categories {
    /// Parses `off`, `all`, or names of categories with `+` between them; `None` for anything else.
    pub fn parse(text: &str) -> Option<Self> {
        match text {
            "off" => Some(Categories(0)),
            "all" => Some(Categories(all_categories())),
            names => names.split('+').try_fold(Categories(0), |mask, name| {
                let category = Category::from_name(name).filter(|c| *c != Category::Recording)?;
                Some(Categories(mask.0 | category.bit()))
            }),
        }
    }

    /// The values that [`parse`](Self::parse) takes, for error messages.
    pub(crate) fn takes() -> String {
        let names: Vec<_> = Category::ALL[1..].iter().map(|c| c.name()).collect();
        format!(
            "off, all, or some of {} with + between them",
            names.join(", ")
        )
    }
}

/// All categories but the one that is always on.
pub(crate) fn all_categories() -> u32 {
    (Category::ALL[1..].iter()).fold(0, |mask, category| mask | category.bit())
}

/// Maximum number of threads with rings for events only, unless configured.
const DEFAULT_EVENT_RINGS: usize = 128;
/// Largest number of threads with rings for events only.
const MAX_EVENT_RINGS: usize = 4096;
/// log2 of the bytes of a ring for events only, unless configured.
const DEFAULT_EVENT_RING: u32 = 16;
/// log2 of the bytes of the spool of full rings, unless configured.
const DEFAULT_SPOOL: u32 = 21;
/// log2 of the largest spool's bytes.
const MAX_SPOOL: u32 = 30;

/// The configuration of events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Events {
    /// `events=off|all|CATEGORY+…`: what all threads record.
    pub categories: Categories,
    /// `event-ring=K`: the ring of a thread that records events only has `2^K` bytes.
    pub geometry: Geometry,
    /// `event-rings=N`: the maximum number of such rings.
    pub max_rings: usize,
    /// `event-spool=K`: full rings of such threads are kept in `2^K` bytes; `None` is `off`.
    pub spool: Option<u32>,
}

impl Default for Events {
    fn default() -> Self {
        Events {
            categories: Categories(0),
            geometry: Geometry::new(DEFAULT_EVENT_RING).unwrap_or_default(),
            max_rings: DEFAULT_EVENT_RINGS,
            spool: Some(DEFAULT_SPOOL),
        }
    }
}

impl Events {
    /// The number of full rings in the spool.
    pub(crate) fn spooled_rings(&self) -> usize {
        self.spool
            .map_or(0, |log2| (1_usize << log2) / self.geometry.bytes())
    }
}

/// log2 of the bytes of the table of stacks, unless configured.
const DEFAULT_STACK_TABLE: u32 = 21;
/// log2 of the bytes that the table of stacks may have.
const STACK_TABLE: std::ops::RangeInclusive<u32> = 14..=28;
/// The most bytes that the table of stacks may have.
pub(crate) const MAX_STACK_TABLE_BYTES: usize = 1 << *STACK_TABLE.end();

/// The configuration of stacks, which are one of the categories of events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stacks {
    /// `stack-table=K`: the stacks of all threads are kept in `2^K` bytes.
    pub table: u32,
    /// `stack-interval=US` or `stack-interval=MAIN/OTHERS`.
    pub intervals: StackIntervals,
    /// `stack-requests=MS`: how often threads that pass no hook are asked for their stacks; `None` is `off`.
    pub requests: Option<Duration>,
}

impl Default for Stacks {
    fn default() -> Self {
        Stacks {
            table: DEFAULT_STACK_TABLE,
            intervals: StackIntervals::default(),
            requests: Some(Duration::from_millis(10)),
        }
    }
}

/// The least time between two stacks of a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StackIntervals {
    /// Of the main thread, µs.
    pub main_us: u32,
    /// Of any other thread, µs.
    pub others_us: u32,
}

impl Default for StackIntervals {
    fn default() -> Self {
        StackIntervals {
            main_us: 1000,
            others_us: 1000,
        }
    }
}

impl StackIntervals {
    /// The values that [`parse`](Self::parse) takes, for error messages.
    pub(crate) const TAKES: &'static str =
        "microseconds, or those of the main thread, /, and those of the other threads";

    /// Parses `1000`, or `500/2000`; `None` for anything else.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let (main, others) = text.split_once('/').unwrap_or((text, text));
        Some(StackIntervals {
            main_us: main.parse().ok()?,
            others_us: others.parse().ok()?,
        })
    }
}

/// The configuration of a process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// `trace=off|main|all`.
    pub threads: ThreadSelection,
    /// `ring=K`: a ring has `2^K` bytes.
    pub geometry: Geometry,
    /// `dir=PATH`: the folder for snapshots.
    pub directory: PathBuf,
    /// `socket=PATH`: a Unix socket that takes commands.
    pub socket: Option<PathBuf>,
    /// `shared-memory=DIR`: rings, stacks and names are kept in a file of this folder, which can be read when the process was
    /// killed.
    pub shared_memory: Option<PathBuf>,
    /// `service=PATH`: the socket of the system service, which gets the process's memory, says how it records, and writes reports.
    pub service: Option<PathBuf>,
    /// `snapshot-at-exit=yes|no`: take a snapshot when the process ends in an orderly way.
    pub snapshot_at_exit: bool,
    /// `snapshot-at-crash=yes|no`: take a snapshot when an exception that nothing caught ends a thread, once in a process.
    pub snapshot_at_crash: bool,
    /// `check-balance=DIR`: at the exit of every thread and of the process, check that each exit has an entry, and
    /// write the result to `DIR/<pid>.balance`.
    #[cfg(feature = "check-balance")]
    pub check_balance: Option<PathBuf>,
    /// `rewind=off|all|TIME`: calls in which nothing was recorded are taken back if they are shorter.
    pub rewind: Rewind,
    /// `rewind-log=yes|no`: note which calls are taken back, and put them into the rings that are written.
    #[cfg(feature = "check-rewind")]
    pub rewind_log: bool,
    /// `max-rings=N|unlimited`; see [`max_rings`](Self::max_rings).
    pub ring_limit: Option<RingLimit>,
    /// `consent=structure|names|content`: strings that need more consent are not written.
    pub consent: Consent,
    /// `counter=auto|native|emulate`: the reaction to a counter that is slow to read, or that may not be read.
    pub counter: Fallback,
    /// `nanoscope=yes|no`: trace the main thread when the property `dev.nanoscope` says so.
    pub nanoscope: bool,
    /// `protocol=checkpoint|lock-free`: how the ring of a thread is changed.
    pub protocol: Protocol,
    /// `events=`, `event-ring=`, `event-rings=`, `event-spool=`.
    pub events: Events,
    /// `values=yes|no`: rules may record the values of fields; on a device in debuggable builds only.
    pub values: bool,
    /// `rules=PATH`: the file with [rules](crate::rules), or the [name](library_rules::NAME) of those for libraries; switches
    /// the events of their category on, too.
    pub rules: Option<PathBuf>,
    /// `stack-table=`, `stack-interval=`, `stack-requests=`.
    pub stacks: Stacks,
    /// `max-files=`, `max-mib=`, `max-days=`, `min-free-mib=`, `snapshot-interval=`, `max-failed-starts=`.
    pub limits: Limits,
}

impl Default for Config {
    fn default() -> Self {
        Config {
            threads: ThreadSelection::Off,
            geometry: Geometry::default(),
            directory: std::env::temp_dir(),
            socket: None,
            shared_memory: None,
            service: None,
            snapshot_at_exit: false,
            snapshot_at_crash: false,
            #[cfg(feature = "check-balance")]
            check_balance: None,
            rewind: Rewind::DEFAULT,
            #[cfg(feature = "check-rewind")]
            rewind_log: false,
            ring_limit: None,
            consent: Consent::default(),
            counter: Fallback::Auto,
            nanoscope: false,
            protocol: Protocol::Checkpoint,
            events: Events::default(),
            values: false,
            rules: None,
            stacks: Stacks::default(),
            limits: Limits::default(),
        }
    }
}

/// A configuration that cannot be used.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum ConfigError {
    /// An item has no `=`.
    #[error("'{0}' is not of the form key=value")]
    NotAPair(String),
    /// An unknown key.
    #[error("unknown key '{0}' (known: trace, ring, dir, socket, shared-memory, service, snapshot-at-exit, snapshot-at-crash, check-balance, rewind, rewind-log, max-rings, unload, consent, counter, nanoscope, protocol, events, event-ring, event-rings, event-spool, stack-table, stack-interval, stack-requests, rules, values, {limits})", limits = Limits::KEYS)]
    UnknownKey(String),
    /// A value that its key does not take.
    #[error("'{value}' is no value for {key}: it takes {takes}")]
    BadValue {
        /// The key.
        key: &'static str,
        /// The value.
        value: String,
        /// The values that the key takes.
        takes: String,
    },
    /// A key that has a new name.
    #[error("{old} is now called {new}")]
    Renamed {
        /// The old name.
        old: &'static str,
        /// The new name.
        new: &'static str,
    },
    /// A value that no longer exists.
    #[error("{item} was removed; {instead}")]
    Removed {
        /// Key and value.
        item: String,
        /// The replacement.
        instead: &'static str,
    },
    /// Two items that exclude each other.
    #[error("{0} cannot be used with {1}")]
    Conflict(&'static str, &'static str),
    /// A part of Hindsight that this build was compiled without.
    #[error("{item} is not in this build: it needs hindsight-runtime's cargo feature {feature}, which builds for the lab have")]
    NotInThisBuild {
        /// Key and value, or the key.
        item: &'static str,
        /// The feature.
        feature: &'static str,
    },
}

impl Config {
    /// The maximum number of rings, retired rings of ended threads included; `None` is unlimited.
    pub fn max_rings(&self) -> Option<usize> {
        match (self.ring_limit, self.threads) {
            (Some(limit), _) => limit.number(),
            (None, ThreadSelection::All) => Some(DEFAULT_RINGS_OF_ALL),
            (None, _) => Some(DEFAULT_RINGS),
        }
    }

    /// Whether nothing is to be traced, and nobody can ask for it.
    pub fn is_off(&self) -> bool {
        self.threads == ThreadSelection::Off
            && self.socket.is_none()
            && self.service.is_none()
            && !self.nanoscope
            && self.events.categories == Categories(0)
    }

    /// From now on nothing is traced, unless somebody asks for it while the process runs.
    pub(crate) fn switch_off(&mut self) {
        self.threads = ThreadSelection::Off;
        self.events.categories = Categories(0);
        self.rules = None;
        // It would switch tracing on again in each process.
        self.service = None;
    }

    /// Parses `trace=main,ring=23,dir=/data/misc/hindsight`. An empty text is [`Config::default`]: off.
    ///
    /// # Errors
    /// The first item that cannot be used; nothing is guessed.
    pub fn parse(text: &str) -> Result<Self, ConfigError> {
        let mut config = Config::default();
        for item in text
            .split(',')
            .map(str::trim)
            .filter(|item| !item.is_empty())
        {
            let (key, value) = item
                .split_once('=')
                .ok_or_else(|| ConfigError::NotAPair(item.to_owned()))?;
            match key {
                "trace" => {
                    config.threads = match value {
                        "off" => ThreadSelection::Off,
                        "main" => ThreadSelection::Main,
                        "all" => ThreadSelection::All,
                        _ => return Err(bad("trace", value, "off, main or all")),
                    }
                }
                "ring" => config.geometry = geometry("ring", value)?,
                "dir" => config.directory = absolute("dir", value)?,
                "socket" => config.socket = Some(absolute("socket", value)?),
                "shared-memory" => {
                    config.shared_memory = Some(absolute("shared-memory", value)?);
                }
                "service" => config.service = Some(socket_path("service", value)?),
                "snapshot-at-exit" => {
                    config.snapshot_at_exit = yes_or_no("snapshot-at-exit", value)?;
                }
                "snapshot-at-crash" => {
                    config.snapshot_at_crash = yes_or_no("snapshot-at-crash", value)?;
                }
                "persist-at-exit" => {
                    return Err(ConfigError::Renamed {
                        old: "persist-at-exit",
                        new: "snapshot-at-exit",
                    })
                }
                "check-balance" => check_balance(&mut config, value)?,
                "max-rings" => {
                    let limit = RingLimit::parse(value)
                        .ok_or_else(|| bad("max-rings", value, RingLimit::TAKES))?;
                    config.ring_limit = Some(limit);
                }
                "rewind" => {
                    config.rewind =
                        Rewind::parse(value).ok_or_else(|| bad("rewind", value, Rewind::TAKES))?;
                }
                "rewind-log" => rewind_log(&mut config, value)?,
                "unload" => {
                    match value {
                        "journal" => {}
                        "persist" | "invalidate" => return Err(ConfigError::Removed {
                            item: item.to_owned(),
                            instead:
                                "unload=journal, the default, keeps the names of unloaded methods",
                        }),
                        _ => return Err(bad("unload", value, "journal")),
                    }
                }
                "consent" => {
                    let level = Consent::from_name(value);
                    config.consent = level
                        .ok_or_else(|| bad("consent", value, "structure, names or content"))?;
                }
                "counter" => {
                    config.counter = match value {
                        "auto" => Fallback::Auto,
                        "native" => Fallback::Native,
                        "emulate" => emulate()?,
                        _ => return Err(bad("counter", value, "auto, native or emulate")),
                    }
                }
                "nanoscope" => config.nanoscope = yes_or_no("nanoscope", value)?,
                "protocol" => {
                    config.protocol = match value {
                        "checkpoint" => Protocol::Checkpoint,
                        "lock-free" => lock_free()?,
                        _ => return Err(bad("protocol", value, "checkpoint or lock-free")),
                    }
                }
                "events" => {
                    config.events.categories = Categories::parse(value)
                        .ok_or_else(|| bad("events", value, &Categories::takes()))?;
                }
                "values" => config.values = yes_or_no("values", value)?,
                "rules" if value == library_rules::NAME => config.rules = Some(value.into()),
                "rules" => config.rules = Some(absolute("rules", value)?),
                "event-ring" => config.events.geometry = geometry("event-ring", value)?,
                "event-rings" => {
                    let number = value.parse().ok();
                    config.events.max_rings = number
                        .filter(|n| (1..=MAX_EVENT_RINGS).contains(n))
                        .ok_or_else(|| {
                            bad("event-rings", value, &format!("1 to {MAX_EVENT_RINGS}"))
                        })?;
                }
                "event-spool" => config.events.spool = spool(value)?,
                "stack-table" => {
                    let log2 = value.parse().ok();
                    config.stacks.table = log2
                        .filter(|k| STACK_TABLE.contains(k))
                        .ok_or_else(|| bad("stack-table", value, "log2 of its bytes, 14 to 28"))?;
                }
                "stack-requests" => {
                    let ms = value.parse().ok().filter(|ms| (1..=60_000).contains(ms));
                    config.stacks.requests = match (value, ms) {
                        ("off", _) => None,
                        (_, Some(ms)) => Some(Duration::from_millis(ms)),
                        _ => return Err(bad("stack-requests", value, "off, or 1 to 60000 ms")),
                    };
                }
                "stack-interval" => {
                    config.stacks.intervals = StackIntervals::parse(value)
                        .ok_or_else(|| bad("stack-interval", value, StackIntervals::TAKES))?;
                }
                _ => match config.limits.set(key, value) {
                    Ok(true) => {}
                    Ok(false) => return Err(ConfigError::UnknownKey(key.to_owned())),
                    Err((key, takes)) => return Err(bad(key, value, &takes)),
                },
            }
        }
        if config.rules.is_some() {
            config.events.categories.0 |= Category::Rules.bit();
        }
        if config.protocol != Protocol::Checkpoint && config.events.categories != Categories(0) {
            return Err(ConfigError::Conflict("events", "protocol=lock-free"));
        }
        if config.service.is_some() {
            if config.shared_memory.is_some() {
                return Err(ConfigError::Conflict("service", "shared-memory"));
            }
            if config.protocol != Protocol::Checkpoint {
                return Err(ConfigError::Conflict("service", "protocol=lock-free"));
            }
        }
        Ok(config)
    }
}

#[cfg(feature = "lock-free")]
fn lock_free() -> Result<Protocol, ConfigError> {
    Ok(Protocol::LockFree)
}

#[cfg(not(feature = "lock-free"))]
fn lock_free() -> Result<Protocol, ConfigError> {
    Err(ConfigError::NotInThisBuild {
        item: "protocol=lock-free",
        feature: "lock-free",
    })
}

#[cfg(feature = "counter-emulation")]
fn emulate() -> Result<Fallback, ConfigError> {
    Ok(Fallback::Emulate)
}

#[cfg(not(feature = "counter-emulation"))]
fn emulate() -> Result<Fallback, ConfigError> {
    Err(ConfigError::NotInThisBuild {
        item: "counter=emulate",
        feature: "counter-emulation",
    })
}

#[cfg(feature = "check-balance")]
fn check_balance(config: &mut Config, value: &str) -> Result<(), ConfigError> {
    config.check_balance = Some(absolute("check-balance", value)?);
    Ok(())
}

#[cfg(not(feature = "check-balance"))]
fn check_balance(_config: &mut Config, _value: &str) -> Result<(), ConfigError> {
    Err(ConfigError::NotInThisBuild {
        item: "check-balance",
        feature: "check-balance",
    })
}

#[cfg(feature = "check-rewind")]
fn rewind_log(config: &mut Config, value: &str) -> Result<(), ConfigError> {
    config.rewind_log = yes_or_no("rewind-log", value)?;
    Ok(())
}

#[cfg(not(feature = "check-rewind"))]
fn rewind_log(_config: &mut Config, _value: &str) -> Result<(), ConfigError> {
    Err(ConfigError::NotInThisBuild {
        item: "rewind-log",
        feature: "check-rewind",
    })
}

fn geometry(key: &'static str, value: &str) -> Result<Geometry, ConfigError> {
    value.parse().ok().and_then(Geometry::new).ok_or_else(|| {
        let takes = format!("log2 of the ring's bytes, {MIN_LOG2_BYTES} to {MAX_LOG2_BYTES}");
        bad(key, value, &takes)
    })
}

/// log2 of the spool's bytes; `None` is no spool.
fn spool(value: &str) -> Result<Option<u32>, ConfigError> {
    if value == "off" {
        return Ok(None);
    }
    let log2 = value.parse().ok();
    log2.filter(|log2| (MIN_LOG2_BYTES..=MAX_SPOOL).contains(log2))
        .map(Some)
        .ok_or_else(|| {
            let takes = format!("off, or log2 of its bytes, {MIN_LOG2_BYTES} to {MAX_SPOOL}");
            bad("event-spool", value, &takes)
        })
}

fn bad(key: &'static str, value: &str, takes: &str) -> ConfigError {
    ConfigError::BadValue {
        key,
        value: value.to_owned(),
        takes: takes.to_owned(),
    }
}

fn yes_or_no(key: &'static str, value: &str) -> Result<bool, ConfigError> {
    match value {
        "yes" => Ok(true),
        "no" => Ok(false),
        _ => Err(bad(key, value, "yes or no")),
    }
}

/// The absolute path of a socket.
fn socket_path(key: &'static str, value: &str) -> Result<PathBuf, ConfigError> {
    /// A system call takes so many bytes, with a zero at their end.
    const MAX_BYTES: usize = 107;
    absolute(key, value)
        .ok()
        .filter(|path| path.as_os_str().len() <= MAX_BYTES)
        .ok_or_else(|| bad(key, value, "an absolute path of less than 108 bytes"))
}

/// Absolute, because the process may change its working directory before the path is used.
fn absolute(key: &'static str, value: &str) -> Result<PathBuf, ConfigError> {
    let path = PathBuf::from(value);
    if path.is_absolute() {
        Ok(path)
    } else {
        Err(bad(key, value, "an absolute path"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_empty_text_is_off() {
        assert_eq!(Config::parse("").unwrap().threads, ThreadSelection::Off);
    }

    #[test]
    fn the_property_that_a_device_sets_is_understood() {
        const SCRIPT: &str = include_str!("../../aosp/common/hindsight.rc");
        let set = SCRIPT
            .lines()
            .find_map(|line| line.trim().strip_prefix("setprop persist.hindsight.trace "));
        let config = Config::parse(set.unwrap()).unwrap();
        assert_eq!(config.threads, ThreadSelection::Main);
        assert_eq!(config.events.categories, Categories(all_categories()));
        assert_eq!(config.directory, PathBuf::from("/data/misc/trace"));
    }

    #[test]
    fn there_are_two_rings_unless_all_threads_are_traced() {
        let max_rings = |text| Config::parse(text).unwrap().max_rings();
        assert_eq!(max_rings("trace=main"), Some(2));
        assert_eq!(max_rings("trace=all"), Some(16));
        assert_eq!(max_rings("trace=all,max-rings=unlimited"), None);
        assert_eq!(max_rings("trace=all,max-rings=5"), Some(5));
        assert_eq!(max_rings("max-rings=unlimited"), None);
    }

    #[test]
    fn every_key_is_read() {
        let text = "trace=all, ring=16,dir=/a/b,socket=/s,shared-memory=/m,snapshot-at-exit=yes,snapshot-at-crash=yes,rewind=2us,max-rings=3,unload=journal,consent=names,counter=native,nanoscope=yes,protocol=checkpoint,events=waits+tasks,values=yes,event-ring=14,event-rings=9,event-spool=off,stack-table=14,stack-interval=500/2000,stack-requests=5,max-files=7";
        assert_eq!(
            Config::parse(text).unwrap(),
            Config {
                threads: ThreadSelection::All,
                geometry: Geometry::new(16).unwrap(),
                directory: "/a/b".into(),
                socket: Some("/s".into()),
                shared_memory: Some("/m".into()),
                service: None,
                snapshot_at_exit: true,
                snapshot_at_crash: true,
                rewind: Rewind::parse("2us").unwrap(),
                #[cfg(feature = "check-rewind")]
                rewind_log: false,
                ring_limit: Some(RingLimit::AtMost(3)),
                consent: Consent::Names,
                counter: Fallback::Native,
                nanoscope: true,
                protocol: Protocol::Checkpoint,
                events: Events {
                    categories: Categories(Category::Waits.bit() | Category::Tasks.bit()),
                    geometry: Geometry::new(14).unwrap(),
                    max_rings: 9,
                    spool: None,
                },
                values: true,
                rules: None,
                stacks: Stacks {
                    table: 14,
                    intervals: StackIntervals {
                        main_us: 500,
                        others_us: 2000,
                    },
                    requests: Some(Duration::from_millis(5)),
                },
                limits: Limits {
                    files: Some(7),
                    ..Limits::default()
                },
                #[cfg(feature = "check-balance")]
                check_balance: None,
            }
        );
    }

    /// Checks the parsed configuration if this build has the feature, and the error if it lacks it.
    fn needs(text: &str, feature: &str, compiled: bool, check: impl Fn(Config) -> bool) {
        match Config::parse(text) {
            Ok(config) => assert!(compiled && check(config), "{text}"),
            Err(e) => {
                let message = e.to_string();
                assert!(!compiled, "{message}");
                let (item, rest) = message.split_once(" is not in this build: ").unwrap();
                assert!(text.starts_with(item), "{message}");
                assert!(
                    rest.contains(&format!("cargo feature {feature},")),
                    "{message}"
                );
            }
        }
    }

    #[test]
    fn parts_that_the_build_lacks_are_named() {
        needs(
            "protocol=lock-free",
            "lock-free",
            cfg!(feature = "lock-free"),
            |c| c.protocol != Protocol::Checkpoint,
        );
        let emulation = cfg!(feature = "counter-emulation");
        needs("counter=emulate", "counter-emulation", emulation, |c| {
            c.counter == Fallback::Emulate
        });
        let balance = cfg!(feature = "check-balance");
        needs("check-balance=/c", "check-balance", balance, |c| {
            c != Config::default()
        });
    }

    #[test]
    fn a_service_needs_a_path_that_fits_and_the_memory_for_itself() {
        let config = Config::parse("service=/dev/socket/s").unwrap();
        assert_eq!(config.service, Some("/dev/socket/s".into()));
        assert!(!config.is_off(), "the service may configure it");
        let conflict = |text| Config::parse(text).unwrap_err();
        assert_eq!(
            conflict("shared-memory=/m,service=/s"),
            ConfigError::Conflict("service", "shared-memory")
        );
        if cfg!(feature = "lock-free") {
            assert_eq!(
                conflict("service=/s,protocol=lock-free"),
                ConfigError::Conflict("service", "protocol=lock-free")
            );
        }
        let long = format!("service=/{}", "a".repeat(107));
        assert_eq!(
            Config::parse(&long).unwrap_err().to_string(),
            format!(
                "'{}' is no value for service: it takes an absolute path of less than 108 bytes",
                &long[8..]
            )
        );
        assert!(Config::parse(&long[..long.len() - 1]).is_ok());
        assert!(Config::parse("service=s").is_err());
    }

    #[test]
    fn a_process_that_switched_itself_off_has_no_service() {
        let mut config = Config::parse("trace=main,service=/s").unwrap();
        config.switch_off();
        assert!(config.is_off());
    }

    #[test]
    fn a_rules_file_switches_its_category_on() {
        let config = Config::parse("events=waits,rules=/r").unwrap();
        assert_eq!(config.rules, Some("/r".into()));
        let both = Category::Waits.bit() | Category::Rules.bit();
        assert_eq!(config.events.categories, Categories(both));
        assert!(!config.is_off());
        let config = Config::parse("rules=libraries").unwrap();
        assert_eq!(config.rules, Some("libraries".into()));
        assert!(Config::parse("rules=others").is_err());
    }

    #[test]
    fn options_that_were_renamed_or_removed_name_their_replacement() {
        for (text, message) in [
            (
                "trace=main,persist-at-exit=yes",
                "persist-at-exit is now called snapshot-at-exit",
            ),
            (
                "unload=persist",
                "unload=persist was removed; unload=journal, the default, keeps the names of unloaded methods",
            ),
            (
                "unload=invalidate",
                "unload=invalidate was removed; unload=journal, the default, keeps the names of unloaded methods",
            ),
        ] {
            assert_eq!(Config::parse(text).unwrap_err().to_string(), message);
        }
    }

    #[test]
    fn it_is_off_if_nothing_is_traced_and_nobody_can_ask_for_it() {
        let is_off = |text| Config::parse(text).unwrap().is_off();
        assert!(is_off("") && is_off("trace=off,dir=/d"));
        assert!(
            !is_off("events=waits")
                && !is_off("trace=main")
                && !is_off("socket=/s")
                && !is_off("nanoscope=yes")
        );
    }

    #[test]
    fn errors_name_the_item_and_the_remedy() {
        for (text, message) in [
            ("trace", "'trace' is not of the form key=value"),
            (
                "trace=on",
                "'on' is no value for trace: it takes off, main or all",
            ),
            (
                "ring=31",
                "'31' is no value for ring: it takes log2 of the ring's bytes, 12 to 30",
            ),
            (
                "dir=here",
                "'here' is no value for dir: it takes an absolute path",
            ),
            (
                "max-rings=0",
                "'0' is no value for max-rings: it takes 1 to 1024, or unlimited",
            ),
            (
                "snapshot-at-exit=1",
                "'1' is no value for snapshot-at-exit: it takes yes or no",
            ),
            (
                "events=waits+calls",
                "'waits+calls' is no value for events: it takes off, all, or some of waits, tasks, messages, frames, input, binder, runtime, resources, stacks, marks, lifecycle, rules with + between them",
            ),
            (
                "event-spool=40",
                "'40' is no value for event-spool: it takes off, or log2 of its bytes, 12 to 30",
            ),
            (
                "stack-table=40",
                "'40' is no value for stack-table: it takes log2 of its bytes, 14 to 28",
            ),
            (
                "stack-interval=1/2/3",
                "'1/2/3' is no value for stack-interval: it takes microseconds, or those of the main thread, /, and those of the other threads",
            ),
            (
                "protocol=none",
                "'none' is no value for protocol: it takes checkpoint or lock-free",
            ),
        ] {
            assert_eq!(Config::parse(text).unwrap_err().to_string(), message);
        }
        assert!(Config::parse("colour=red")
            .unwrap_err()
            .to_string()
            .starts_with("unknown key"));
    }
}
