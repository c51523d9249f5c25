// SPDX-License-Identifier: Apache-2.0
//! What is opened and read before the service runs.

mod arguments;

use std::ffi::OsString;
use std::fs;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use hindsight_trace_format::shared::READING_BYTES;

use self::arguments::{parse, Arguments, Socket, HELP};
use crate::client;
use crate::commands::Patience;
use crate::context::{DeviceFacts, Fact};
use crate::daemon::{read_accepted, Daemon, Decider, Limits, Log, Parts};
use crate::engine::{Engine, Facts};
use crate::key_folder;
use crate::limits::Limiter;
use crate::os::{
    adopt_listener, listen, raise_descriptor_limit, Real, Signals, SocketKind, System,
};
use crate::policy::{Person, Policy, Trust, DEFAULT_TEXT};
use crate::report::{begin_uploads, BOOT_NAMES_BYTES, LIMITS};
use crate::store::{State, Store};

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
    begin_uploads(&mut store);
    store.begin();
    let facts = Facts {
        person: Person {
            model: model.unwrap_or_default(),
            ..arguments.person
        },
        is_restart: store.was_used_in_this_boot(),
        first_report: store.first_report(),
        stored: store.reports().map(|entry| entry.report).collect(),
        report_bytes: BOOT_NAMES_BYTES + READING_BYTES,
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
