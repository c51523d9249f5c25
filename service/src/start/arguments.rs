// SPDX-License-Identifier: Apache-2.0
//! The program's arguments, and its help.

use std::ffi::{OsStr, OsString};
use std::os::fd::RawFd;
use std::path::PathBuf;

use crate::os::own_uid;
use crate::policy::{is_region, Level, Person, UserType};
use crate::store::Quota;

pub(super) const HELP: &str = "\
hindsightd: keeps what traced processes recorded before something went wrong

usage: hindsightd (--socket PATH | --socket-fd N) --store FOLDER [OPTION]...

  --socket PATH       listen here for traced processes; the file is made, for all users
  --socket-fd N       the listening socket is descriptor N (SOCK_SEQPACKET), as init hands it over
  --commands PATH     listen here for commands (below)
  --commands-fd N     the listening socket for commands is descriptor N (SOCK_STREAM)
  --uploads PATH      listen here for the uploader, which asks for what may leave the device
  --uploads-fd N      the listening socket for the uploader is descriptor N (SOCK_STREAM)
  --uploader-uid N    user id of the uploader (the service's own)
  --uploads-when WHEN always (the default), or allowed: only while a client allows it by 'uploads allow'
  --store FOLDER      keep reports and state here; the folder is made, for this user only
  --policy FILE       what is recorded and kept; without it the built-in policy
  --policy-keys FOLDER  take only policies that a key of this folder has signed
  --unsigned-policies N  1: take policies without a signature all the same; 0 (without it): do not
  --user TYPE         who uses the device: internal, beta or end-user (the default)
  --device-facts FILE facts about the device (TOML), instead of what the system tells
  --log-socket PATH   where logd takes readers, for lines of a process's log (/dev/socket/logdr on Android)
  --region CODE       where, two capitals; without it the rules of all regions hold
  --agreed LEVEL      what the user agreed to: none, summary, signatures or full; without it nobody was asked
  --keep-reports N    the most reports that are kept (50)
  --keep-mib N        the most MiB that the folder has (256)
  --keep-days N       reports are removed at this age (7)
  --free-mib N        so many MiB of the disk are left to others (512)
  --facts-root FOLDER for tests: detectors find /proc and /sys in this folder; the machine's own memory may be short
  --help              this text

hindsightd --command [--at PATH] [--framed] WORD... sends a command to the service that runs, and prints the answer. PATH is the
service's socket for commands. --framed writes 'ok' or 'error' first, as the socket does, and is for programs. The commands:

  status, dump                  the state, as JSON and as lines for people
  reports, get ID > FILE, context ID, remove ID, preview ID
  watch ID                      waits for a report with a higher number
  report PROCESS REASON         a report of a running process, by name or id
  record PACKAGE SECONDS        the package's processes get rings for so long, and leave reports
  record PACKAGE end            ends that before its time is over
  policy show, policy - < FILE, policy check - < FILE, policy PATH, policy default
  switch off, switch on         recording
  consent show, consent set LEVEL [user N], consent withdraw [user N], consent forget user N
  uploads allow MINUTES, uploads stop

SIGTERM ends the service when all reports that were decided on are written.
";

/// Where the system's log takes readers.
const LOG_SOCKET: Option<&str> = match cfg!(target_os = "android") {
    true => Some("/dev/socket/logdr"),
    false => None,
};

/// Where a listening socket comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Socket {
    Path(PathBuf),
    Descriptor(RawFd),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Arguments {
    pub(super) socket: Socket,
    pub(super) commands: Option<Socket>,
    pub(super) uploads: Option<Socket>,
    pub(super) uploader_uid: u32,
    pub(super) uploads_need_permission: bool,
    pub(super) store: PathBuf,
    pub(super) policy: Option<PathBuf>,
    pub(super) facts_root: PathBuf,
    pub(super) policy_keys: Option<PathBuf>,
    pub(super) takes_unsigned: bool,
    pub(super) person: Person,
    pub(super) device_facts: Option<PathBuf>,
    pub(super) log_socket: Option<PathBuf>,
    pub(super) quota: Quota,
}

/// What has been given so far.
#[derive(Default)]
struct Given {
    socket: Option<Socket>,
    commands: Option<Socket>,
    uploads: Option<Socket>,
    uploader_uid: Option<u32>,
    uploads_need_permission: bool,
    store: Option<PathBuf>,
    policy: Option<PathBuf>,
    facts_root: Option<PathBuf>,
    policy_keys: Option<PathBuf>,
    takes_unsigned: bool,
    person: Person,
    device_facts: Option<PathBuf>,
    log_socket: Option<PathBuf>,
    quota: Quota,
}

fn number(option: &str, value: &OsStr) -> Result<u32, String> {
    let text = value.to_string_lossy();
    let number = text.parse().ok();
    number.ok_or_else(|| format!("{option}: '{text}' is no number up to {}", u32::MAX))
}

fn descriptor(option: &str, value: &OsStr) -> Result<Socket, String> {
    let number = RawFd::try_from(number(option, value)?);
    let number = number.map_err(|_| format!("{option}: no descriptor has so high a number"))?;
    Ok(Socket::Descriptor(number))
}

fn one_of<T>(option: &str, value: &OsStr, names: &str, found: Option<T>) -> Result<T, String> {
    let text = value.to_string_lossy();
    found.ok_or_else(|| format!("{option}: '{text}' is none of {names}"))
}

/// Whether it is the second of two names.
fn is_second(option: &str, value: &OsStr, names: [&str; 2]) -> Result<bool, String> {
    let found = names.iter().position(|name| *name == value);
    Ok(one_of(option, value, &names.join(", "), found)? == 1)
}

fn no_option(option: &str) -> String {
    format!("there is no option '{option}'; --help has all")
}

/// Whether the help has this option.
fn is_known(option: &str) -> bool {
    let first = |line: &'static str| line.trim_start().split(' ').next();
    option.starts_with("--") && HELP.lines().any(|line| first(line) == Some(option))
}

impl Given {
    fn take(&mut self, option: &str, value: &OsStr) -> Result<(), String> {
        let text = value.to_string_lossy();
        let path = || Some(PathBuf::from(value));
        let number = || number(option, value);
        match option {
            "--socket" => self.socket = path().map(Socket::Path),
            "--socket-fd" => self.socket = Some(descriptor(option, value)?),
            "--commands" => self.commands = path().map(Socket::Path),
            "--commands-fd" => self.commands = Some(descriptor(option, value)?),
            "--uploads" => self.uploads = path().map(Socket::Path),
            "--uploads-fd" => self.uploads = Some(descriptor(option, value)?),
            "--uploader-uid" => self.uploader_uid = Some(number()?),
            "--uploads-when" => {
                self.uploads_need_permission = is_second(option, value, ["always", "allowed"])?;
            }
            "--store" => self.store = path(),
            "--policy" => self.policy = path(),
            "--policy-keys" => self.policy_keys = path(),
            "--unsigned-policies" => self.takes_unsigned = is_second(option, value, ["0", "1"])?,
            "--user" => {
                let names = "internal, beta, end-user";
                self.person.user = one_of(option, value, names, UserType::from_name(&text))?;
            }
            "--region" if is_region(&text) => self.person.region = text.into_owned(),
            "--region" => {
                return Err(format!(
                    "--region: '{text}' is not a region's code of two capitals, such as DE"
                ));
            }
            "--agreed" => {
                let names = "none, summary, signatures, full";
                let level = one_of(option, value, names, Level::from_name(&text))?;
                self.person.agreed = Some(level);
            }
            "--device-facts" => self.device_facts = path(),
            "--log-socket" => self.log_socket = path(),
            "--facts-root" => self.facts_root = path(),
            "--keep-reports" => self.quota.reports = number()?,
            "--keep-mib" => self.quota.bytes = u64::from(number()?) << 20,
            "--keep-days" => self.quota.age_s = u64::from(number()?) * 86_400,
            "--free-mib" => self.quota.free_bytes = u64::from(number()?) << 20,
            _ => return Err(no_option(option)),
        }
        Ok(())
    }

    fn complete(self) -> Result<Arguments, String> {
        let socket = "the socket is missing: --socket PATH or --socket-fd N";
        Ok(Arguments {
            socket: self.socket.ok_or(socket)?,
            commands: self.commands,
            uploads: self.uploads,
            uploader_uid: self.uploader_uid.unwrap_or_else(own_uid),
            uploads_need_permission: self.uploads_need_permission,
            store: self.store.ok_or("the folder is missing: --store FOLDER")?,
            policy: self.policy,
            facts_root: self.facts_root.unwrap_or_else(|| PathBuf::from("/")),
            policy_keys: self.policy_keys,
            takes_unsigned: self.takes_unsigned,
            person: self.person,
            device_facts: self.device_facts,
            log_socket: self.log_socket.or(LOG_SOCKET.map(PathBuf::from)),
            quota: self.quota,
        })
    }
}

/// `None`: help is wanted.
pub(super) fn parse(arguments: &[OsString]) -> Result<Option<Arguments>, String> {
    let mut given = Given::default();
    let mut rest = arguments.iter();
    while let Some(option) = rest.next() {
        let option = option.to_string_lossy();
        if ["--help", "-h"].contains(&&*option) {
            return Ok(None);
        }
        if !is_known(&option) {
            return Err(no_option(&option));
        }
        let value = rest
            .next()
            .ok_or_else(|| format!("{option}: its value is missing; --help has an explanation"))?;
        given.take(&option, value)?;
    }
    given.complete().map(Some)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str) -> Result<Option<Arguments>, String> {
        let arguments: Vec<OsString> = text.split_whitespace().map(OsString::from).collect();
        parse(&arguments)
    }

    #[test]
    fn arguments_are_understood_or_refused_with_a_remedy() {
        let parsed = of("--socket-fd 5 --commands /c --store /s --user beta --keep-mib 3").unwrap();
        let parsed = parsed.unwrap();
        assert_eq!(parsed.socket, Socket::Descriptor(5));
        assert_eq!(parsed.commands, Some(Socket::Path("/c".into())));
        assert_eq!(parsed.person.user, UserType::Beta);
        assert_eq!(parsed.quota.bytes, 3 << 20);
        assert!(!parsed.uploads_need_permission);
        let needs = of("--socket /s --store /s --uploads-when allowed").unwrap();
        assert!(needs.unwrap().uploads_need_permission);
        assert_eq!(of("--store /s --help"), Ok(None));
        for (text, part) in [
            ("", "--socket PATH"),
            ("--socket /s", "--store FOLDER"),
            ("--socket", "value is missing"),
            ("--sockets /s", "no option '--sockets'"),
            ("usage: x", "no option 'usage:'"),
            ("--socket-fd x", "no number"),
            ("--socket-fd 3000000000", "so high a number"),
            ("--user friend", "internal, beta, end-user"),
            ("--region de", "--region: 'de' is not a region's code"),
            ("--region DEU", "two capitals"),
            ("--uploads-when idle", "always, allowed"),
            ("--unsigned-policies yes", "'yes' is none of 0, 1"),
        ] {
            let problem = of(text).unwrap_err();
            assert!(problem.contains(part), "{text}: {problem}");
        }
    }

    #[test]
    fn all_options_of_the_help_are_there() {
        assert_eq!(
            of("--socket /s --store /s --region DE")
                .unwrap()
                .unwrap()
                .person
                .region,
            "DE"
        );
        let options = HELP.lines().filter_map(|line| {
            let option = line.trim_start().split(' ').next()?;
            (option.starts_with("--") && option != "--help").then_some(option)
        });
        let count = options
            .inspect(|option| {
                let problem = of(&format!("{option} internal --socket")).unwrap_err();
                assert!(!problem.contains("no option"), "{problem}");
            })
            .count();
        assert_eq!(count, 22);
    }
}
