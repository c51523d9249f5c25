// SPDX-License-Identifier: Apache-2.0
//! Arguments of the program, and what is made of them.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::fd::{OwnedFd, RawFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::client;
use crate::commands::Patience;
use crate::context::{DeviceFacts, Fact};
use crate::daemon::{read_accepted, Daemon, Decider, Limits, Log, Parts};
use crate::engine::{Engine, Facts};
use crate::key_folder;
use crate::limits::Limiter;
use crate::os::{
    adopt_listener, listen, own_uid, raise_descriptor_limit, Real, Signals, SocketKind, System,
};
use crate::policy::{is_region, Level, Person, Policy, Trust, UserType, DEFAULT_TEXT};
use crate::report::{BOOT_NAMES_BYTES, LIMITS};
use crate::store::{Quota, State, Store};

const HELP: &str = "\
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
enum Socket {
    Path(PathBuf),
    Descriptor(RawFd),
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Arguments {
    socket: Socket,
    commands: Option<Socket>,
    uploads: Option<Socket>,
    uploader_uid: u32,
    uploads_need_permission: bool,
    store: PathBuf,
    policy: Option<PathBuf>,
    facts_root: PathBuf,
    policy_keys: Option<PathBuf>,
    takes_unsigned: bool,
    person: Person,
    device_facts: Option<PathBuf>,
    log_socket: Option<PathBuf>,
    quota: Quota,
}

fn number(option: &str, value: &OsStr) -> Result<u64, String> {
    let text = value.to_string_lossy();
    let number = text.parse().ok().filter(|n| *n <= u64::from(u32::MAX));
    number.ok_or_else(|| format!("{option}: '{text}' is no number up to {}", u32::MAX))
}

fn one_of<T>(option: &str, value: &OsStr, names: &str, found: Option<T>) -> Result<T, String> {
    let text = value.to_string_lossy();
    found.ok_or_else(|| format!("{option}: '{text}' is none of {names}"))
}

/// `None`: help is wanted.
fn parse(arguments: &[OsString]) -> Result<Option<Arguments>, String> {
    let mut sockets: [Option<Socket>; 3] = [None, None, None];
    let mut uploader_uid = own_uid();
    let mut uploads_need_permission = false;
    let mut store = None;
    let mut policy = None;
    let mut facts_root = PathBuf::from("/");
    let mut policy_keys = None;
    let mut takes_unsigned = false;
    let mut device_facts = None;
    let mut log_socket = None;
    let mut person = Person::default();
    let mut quota = Quota::default();
    let mut rest = arguments.iter();
    while let Some(option) = rest.next() {
        let option = option.to_string_lossy();
        if ["--help", "-h"].contains(&&*option) {
            return Ok(None);
        }
        let known = HELP.lines().any(|line| {
            let first = line.trim_start().split(' ').next();
            first == Some(&*option) && option.starts_with("--")
        });
        if !known {
            return Err(format!("there is no option '{option}'; --help has all"));
        }
        let value = rest
            .next()
            .ok_or_else(|| format!("{option}: its value is missing; --help has an explanation"))?;
        let text = value.to_string_lossy();
        match &*option {
            "--socket" => sockets[0] = Some(Socket::Path(value.into())),
            "--commands" => sockets[1] = Some(Socket::Path(value.into())),
            "--uploads" => sockets[2] = Some(Socket::Path(value.into())),
            "--uploader-uid" => uploader_uid = number(&option, value)? as u32,
            "--uploads-when" => {
                let known = ["always", "allowed"].iter().position(|name| *name == text);
                uploads_need_permission = one_of(&option, value, "always, allowed", known)? == 1;
            }
            "--socket-fd" | "--commands-fd" | "--uploads-fd" => {
                let descriptor = number(&option, value)? as RawFd;
                let which = match &*option {
                    "--socket-fd" => 0,
                    "--commands-fd" => 1,
                    _ => 2,
                };
                sockets[which] = Some(Socket::Descriptor(descriptor));
            }
            "--store" => store = Some(PathBuf::from(value)),
            "--policy" => policy = Some(PathBuf::from(value)),
            "--facts-root" => facts_root = PathBuf::from(value),
            "--policy-keys" => policy_keys = Some(PathBuf::from(value)),
            "--unsigned-policies" => {
                let found = ["0", "1"].iter().position(|known| *known == text);
                takes_unsigned = one_of(&option, value, "0, 1", found)? == 1;
            }
            "--device-facts" => device_facts = Some(PathBuf::from(value)),
            "--log-socket" => log_socket = Some(PathBuf::from(value)),
            "--user" => {
                let names = "internal, beta, end-user";
                person.user = one_of(&option, value, names, UserType::from_name(&text))?;
            }
            "--region" if is_region(&text) => person.region = text.into_owned(),
            "--region" => {
                return Err(format!(
                    "--region: '{text}' is not a region's code of two capitals, such as DE"
                ));
            }
            "--agreed" => {
                let names = "none, summary, signatures, full";
                let level = one_of(&option, value, names, Level::from_name(&text))?;
                person.agreed = Some(level);
            }
            "--keep-reports" => quota.reports = number(&option, value)? as u32,
            "--keep-mib" => quota.bytes = number(&option, value)? << 20,
            "--keep-days" => quota.age_s = number(&option, value)? * 86_400,
            "--free-mib" => quota.free_bytes = number(&option, value)? << 20,
            _ => return Err(format!("there is no option '{option}'; --help has all")),
        }
    }
    let [socket, commands, uploads] = sockets;
    Ok(Some(Arguments {
        socket: socket.ok_or("the socket is missing: --socket PATH or --socket-fd N")?,
        commands,
        uploads,
        uploader_uid,
        uploads_need_permission,
        store: store.ok_or("the folder is missing: --store FOLDER")?,
        policy,
        facts_root,
        policy_keys,
        takes_unsigned,
        person,
        device_facts,
        log_socket: log_socket.or(LOG_SOCKET.map(PathBuf::from)),
        quota,
    }))
}

/// Removes the files of sockets that this process has made.
struct Cleanup(Vec<PathBuf>);

impl Drop for Cleanup {
    fn drop(&mut self) {
        for path in &self.0 {
            let _ = fs::remove_file(path);
        }
    }
}

fn open_socket(
    socket: &Socket,
    kind: SocketKind,
    cleanup: &mut Cleanup,
) -> Result<OwnedFd, String> {
    match socket {
        Socket::Path(path) => {
            // Processes of all users connect; the command socket asks the kernel who it is.
            let listener = listen(path, kind, 0o666).map_err(|e| e.to_string())?;
            cleanup.0.push(path.clone());
            Ok(listener)
        }
        Socket::Descriptor(number) => {
            // SAFETY: whoever starts the program gives it the descriptor; its own ones have no option.
            let listener = unsafe { adopt_listener(*number, kind) };
            listener.map_err(|e| e.to_string())
        }
    }
}

/// The policy at the start, and its text.
fn read_policy(path: Option<&Path>) -> Result<(Policy, String), String> {
    let Some(path) = path else {
        return Ok((Policy::default(), DEFAULT_TEXT.to_owned()));
    };
    let problem = |e: &dyn std::fmt::Display| format!("the policy {}: {e}", path.display());
    let text = fs::read_to_string(path).map_err(|e| problem(&e))?;
    let policy = Policy::parse(&text).map_err(|e| problem(&e))?;
    Ok((policy, text))
}

/// Facts about the device from a file.
fn read_device_facts(path: Option<&Path>) -> Result<DeviceFacts, String> {
    let Some(path) = path else {
        return Ok(DeviceFacts::default());
    };
    let problem = |e: &dyn std::fmt::Display| format!("the device's facts {}: {e}", path.display());
    let text = fs::read_to_string(path).map_err(|e| problem(&e))?;
    DeviceFacts::parse(&text).map_err(|e| problem(&e))
}

/// The limits as they were saved. A list that is missing or damaged, although there was one, admits nothing for a while.
fn read_limits(store: &mut Store, system: &dyn System) -> Limiter {
    let (boot, now) = (system.boot_id(), system.now().boottime_ns);
    let problem = match store.load_state(LIMITS) {
        State::Missing if !store.was_used() => {
            let limiter = Limiter::fresh(&boot);
            // Before the store counts as used: from then on a missing list is a lost one.
            if let Err(e) = store.save_state(LIMITS, &limiter.save(now)) {
                store.note(format!("the list of admitted reports cannot be saved: {e}"));
            }
            return limiter;
        }
        State::Missing => "it is missing".to_owned(),
        State::Damaged(why) => why,
        State::Found(text) => match Limiter::load(&text, &boot, now) {
            Ok(limiter) => return limiter,
            Err(e) => e.to_string(),
        },
    };
    store.note(format!(
        "the list of admitted reports: {problem}; none is admitted until a window has passed"
    ));
    Limiter::closed(&boot, now)
}

/// Whose policies are taken.
fn read_trust(arguments: &Arguments, store: &mut Store) -> Trust {
    let keys = arguments.policy_keys.as_ref().map(|folder| {
        let (keys, log) = key_folder::read(folder);
        log.into_iter().for_each(|line| store.note(line));
        keys
    });
    Trust {
        keys,
        takes_unsigned: arguments.takes_unsigned,
    }
}

/// Runs the service with these arguments, until it is asked to end.
///
/// # Errors
/// If it cannot begin, or its loop is broken: a message for people, with the remedy.
pub fn run(arguments: &[OsString]) -> Result<(), String> {
    if arguments.first().is_some_and(|first| first == "--command") {
        return client::run(&arguments[1..]);
    }
    let Some(arguments) = parse(arguments)? else {
        print!("{HELP}");
        return Ok(());
    };
    let mut cleanup = Cleanup(Vec::new());
    let commands = arguments.commands.as_ref();
    let listener = open_socket(&arguments.socket, SocketKind::Packets, &mut cleanup)?;
    let commands = commands
        .map(|socket| open_socket(socket, SocketKind::Bytes, &mut cleanup))
        .transpose()?;
    let uploads = arguments.uploads.as_ref();
    let uploads = uploads
        .map(|socket| open_socket(socket, SocketKind::Bytes, &mut cleanup))
        .transpose()?;
    let uploads = uploads.map(|socket| (socket, arguments.uploader_uid));
    let (policy, policy_text) = read_policy(arguments.policy.as_deref())?;
    // Before the first thread, which would take the signals otherwise.
    let signals = Signals::new().map_err(|e| format!("signals cannot be waited for: {e}"))?;
    let system: Arc<dyn System> = Arc::new(Real {
        facts_root: arguments.facts_root.clone(),
        device: read_device_facts(arguments.device_facts.as_deref())?,
        log_socket: arguments.log_socket.clone(),
    });
    let model = system.device().get(Fact::Model).map(str::to_owned);
    let mut store = Store::open(&arguments.store, arguments.quota, Arc::clone(&system))
        .map_err(|e| e.to_string())?;
    let limiter = read_limits(&mut store, &*system);
    let trust = read_trust(&arguments, &mut store);
    let accepted = read_accepted(&mut store, &trust);
    store.begin();
    let facts = Facts {
        person: Person {
            model: model.unwrap_or_default(),
            ..arguments.person
        },
        is_restart: store.was_used_in_this_boot(),
        first_report: store.first_report(),
        stored: store.reports().map(|entry| entry.report).collect(),
        report_bytes: BOOT_NAMES_BYTES,
    };
    let limits = Limits::default().within(raise_descriptor_limit(4096));
    let daemon = Daemon::new(Parts {
        engine: Decider::new(Engine::new(policy, limiter, facts), policy_text)
            .with_trust(trust, accepted),
        system,
        store,
        listener,
        commands,
        uploads,
        uploads_need_permission: arguments.uploads_need_permission,
        signals: Some(signals),
        limits,
        patience: Patience::default(),
        log: Log::new(Box::new(std::io::stderr())),
    });
    let daemon = daemon.map_err(|e| e.to_string())?;
    daemon
        .run()
        .map_err(|e| format!("the service cannot wait for anything any more: {e}"))
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
