// SPDX-License-Identifier: Apache-2.0
//! Configuration: one line of `key=value` pairs, separated by commas.
//!
//! In the lab it is the environment variable `HINDSIGHT`, on a device the property
//! `persist.hindsight.trace`. The keys are listed in `docs/configuration.md`.

use std::path::PathBuf;

use crate::clock::Fallback;
use hindsight_trace_format::ring::{Geometry, MAX_LOG2_BYTES, MIN_LOG2_BYTES};

/// Which threads are traced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ThreadSelection {
    /// None; nothing is started.
    Off,
    /// The main thread, and those that are started by request.
    Main,
    /// Every thread.
    All,
}

/// What happens to recorded events of methods whose class loader is unloaded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Unloading {
    /// Their names are kept.
    #[default]
    Journal,
    /// They are persisted before.
    Persist,
    /// They are thrown away, with all others.
    Invalidate,
}

/// How threads are brought to give up their rings.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Protocol {
    /// At a safepoint.
    #[default]
    Checkpoint,
    /// Wherever they are, by the published [lock-free](crate::lock_free) protocol.
    LockFree,
}

/// How many rings a process may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RingLimit {
    /// One for each traced thread.
    Unlimited,
    /// So many at most.
    AtMost(usize),
}

impl RingLimit {
    /// The most that can be asked for.
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

    /// What [`parse`](Self::parse) takes.
    pub(crate) const TAKES: &'static str = "1 to 1024, or unlimited";

    /// The number, `None` if there is no limit.
    pub fn number(self) -> Option<usize> {
        match self {
            RingLimit::Unlimited => None,
            RingLimit::AtMost(n) => Some(n),
        }
    }
}

/// Rings for threads that were wanted most recently, where not all threads are to be traced.
const DEFAULT_RINGS: usize = 2;

/// What was configured.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// `trace=off|main|all`.
    pub threads: ThreadSelection,
    /// `ring=K`: a ring has `2^K` bytes.
    pub geometry: Geometry,
    /// `dir=PATH`: where persisted rings go.
    pub directory: PathBuf,
    /// `socket=PATH`: a Unix socket that takes commands.
    pub socket: Option<PathBuf>,
    /// `persist-at-exit=yes|no`: persist the rings when the process ends in an orderly way.
    pub persist_at_exit: bool,
    /// `check-balance=DIR`: at the exit of every thread and of the process, check that each exit has
    /// an entry, and write what was found to `DIR/<pid>.balance`.
    pub check_balance: Option<PathBuf>,
    /// `max-rings=N|unlimited`; see [`max_rings`](Self::max_rings).
    pub ring_limit: Option<RingLimit>,
    /// `unload=journal|persist|invalidate`: what happens when a class loader is unloaded.
    pub unloading: Unloading,
    /// `counter=auto|native|emulate`: what to do where trace points cannot read the counter.
    pub counter: Fallback,
    /// `nanoscope=yes|no`: trace the main thread when the property `dev.nanoscope` says so.
    pub nanoscope: bool,
    /// `protocol=checkpoint|lock-free`: how threads are started and stopped.
    pub protocol: Protocol,
}

impl Default for Config {
    fn default() -> Self {
        Config {
            threads: ThreadSelection::Off,
            geometry: Geometry::default(),
            directory: std::env::temp_dir(),
            socket: None,
            persist_at_exit: false,
            check_balance: None,
            ring_limit: None,
            unloading: Unloading::Journal,
            counter: Fallback::Auto,
            nanoscope: false,
            protocol: Protocol::Checkpoint,
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
    #[error("unknown key '{0}' (known: trace, ring, dir, socket, persist-at-exit, check-balance, max-rings, unload, counter, nanoscope, protocol)")]
    UnknownKey(String),
    /// A value that its key does not take.
    #[error("'{value}' is no value for {key}: it takes {takes}")]
    BadValue {
        /// The key.
        key: &'static str,
        /// What was given.
        value: String,
        /// What would have been right.
        takes: String,
    },
}

impl Config {
    /// How many rings there may be at most, those of ended threads that are kept included; `None` if as
    /// many as there are threads.
    pub fn max_rings(&self) -> Option<usize> {
        match (self.ring_limit, self.threads) {
            (Some(limit), _) => limit.number(),
            (None, ThreadSelection::All) => None,
            (None, _) => Some(DEFAULT_RINGS),
        }
    }

    /// Whether there is nothing to trace, and nobody who could ask for it.
    pub fn is_off(&self) -> bool {
        self.threads == ThreadSelection::Off && self.socket.is_none() && !self.nanoscope
    }

    /// Parses `trace=main,ring=25,dir=/data/misc/hindsight`. An empty text is [`Config::default`]: off.
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
                "ring" => {
                    config.geometry =
                        value.parse().ok().and_then(Geometry::new).ok_or_else(|| {
                            let takes = format!(
                                "log2 of the ring's bytes, {MIN_LOG2_BYTES} to {MAX_LOG2_BYTES}"
                            );
                            bad("ring", value, &takes)
                        })?;
                }
                "dir" => config.directory = absolute("dir", value)?,
                "socket" => config.socket = Some(absolute("socket", value)?),
                "persist-at-exit" => config.persist_at_exit = yes_or_no("persist-at-exit", value)?,
                "check-balance" => {
                    config.check_balance = Some(absolute("check-balance", value)?);
                }
                "max-rings" => {
                    let limit = RingLimit::parse(value)
                        .ok_or_else(|| bad("max-rings", value, RingLimit::TAKES))?;
                    config.ring_limit = Some(limit);
                }
                "unload" => {
                    config.unloading = match value {
                        "journal" => Unloading::Journal,
                        "persist" => Unloading::Persist,
                        "invalidate" => Unloading::Invalidate,
                        _ => return Err(bad("unload", value, "journal, persist or invalidate")),
                    }
                }
                "counter" => {
                    config.counter = match value {
                        "auto" => Fallback::Auto,
                        "native" => Fallback::Refuse,
                        "emulate" => Fallback::Emulate,
                        _ => return Err(bad("counter", value, "auto, native or emulate")),
                    }
                }
                "nanoscope" => config.nanoscope = yes_or_no("nanoscope", value)?,
                "protocol" => {
                    config.protocol = match value {
                        "checkpoint" => Protocol::Checkpoint,
                        "lock-free" => Protocol::LockFree,
                        _ => return Err(bad("protocol", value, "checkpoint or lock-free")),
                    }
                }
                _ => return Err(ConfigError::UnknownKey(key.to_owned())),
            }
        }
        Ok(config)
    }
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

/// Absolute, because the process may change its directory before the path is used.
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
    fn there_are_two_rings_unless_all_threads_are_wanted() {
        let max_rings = |text| Config::parse(text).unwrap().max_rings();
        assert_eq!(max_rings("trace=main"), Some(2));
        assert_eq!(max_rings("trace=all"), None);
        assert_eq!(max_rings("trace=all,max-rings=5"), Some(5));
        assert_eq!(max_rings("max-rings=unlimited"), None);
    }

    #[test]
    fn every_key_is_read() {
        let text = "trace=all, ring=16,dir=/a/b,socket=/s,persist-at-exit=yes,check-balance=/c,max-rings=3,unload=persist,counter=native,nanoscope=yes,protocol=lock-free";
        assert_eq!(
            Config::parse(text).unwrap(),
            Config {
                threads: ThreadSelection::All,
                geometry: Geometry::new(16).unwrap(),
                directory: "/a/b".into(),
                socket: Some("/s".into()),
                persist_at_exit: true,
                check_balance: Some("/c".into()),
                ring_limit: Some(RingLimit::AtMost(3)),
                unloading: Unloading::Persist,
                counter: Fallback::Refuse,
                nanoscope: true,
                protocol: Protocol::LockFree,
            }
        );
    }

    #[test]
    fn it_is_off_if_nobody_can_ask_for_anything() {
        let is_off = |text| Config::parse(text).unwrap().is_off();
        assert!(is_off("") && is_off("trace=off,dir=/d"));
        assert!(!is_off("trace=main") && !is_off("socket=/s") && !is_off("nanoscope=yes"));
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
                "persist-at-exit=1",
                "'1' is no value for persist-at-exit: it takes yes or no",
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
