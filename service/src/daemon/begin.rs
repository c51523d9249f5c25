// SPDX-License-Identifier: Apache-2.0
//! The beginning of the loop: what it waits for, and what the service before it has left.

use std::collections::{BTreeMap, VecDeque};
use std::os::fd::AsFd;
use std::sync::Arc;

use crate::commands::{Commands, Watchers};
use crate::detectors::History;
use crate::os::{own_uid, Closer, Interest, Poll, PressureLevel, Stall, Timer};
use crate::report::Worker;

use super::consent::Consent;
use super::decide::Decide;
use super::dispatch::Dispatcher;
use super::links::Rim;
use super::looking::Looking;
use super::outlet::Outlet;
use super::parts::{Parts, StartError};
use super::requests::Requests;
use super::saved::Saved;
use super::serve::Daemon;
use super::state_log::StateLog;
use super::tokens::{client_token, COMMANDS, DISK, FULL, LISTENER, SIGNALS, SOME, TIMER, UPLOADS};

impl<D: Decide> Daemon<D> {
    /// Puts everything together. A policy that a client has loaded before is in force again.
    ///
    /// # Errors
    /// If the system has no thread or descriptor left.
    pub fn new(parts: Parts<D>) -> Result<Self, StartError> {
        let no = |what| move |e| StartError(what, e);
        let Parts {
            engine,
            system,
            mut store,
            listener,
            limits,
            ..
        } = parts;
        let now = system.now();
        let poll = Poll::new().map_err(no("epoll descriptor"))?;
        let timer = Timer::new().map_err(no("timer"))?;
        let pressure = system.pressure().inspect_err(|e| {
            store.note(format!(
                "the kernel does not tell when memory becomes short (/proc/pressure/memory: {e}): no ring is taken back for it"
            ));
        });
        let pressure = pressure.ok();
        let commands = parts
            .commands
            .map(|commands| Commands::new(commands, own_uid(), parts.patience, client_token));
        let uploads = parts
            .uploads
            .map(|(socket, uid)| Commands::for_uploads(socket, uid, parts.patience, client_token));
        let watch = |fd, token, interest| poll.add(fd, token, interest).map_err(no("descriptor"));
        watch(timer.as_fd(), TIMER, Interest::Read)?;
        watch(listener.as_fd(), LISTENER, Interest::Read)?;
        if let Some(commands) = &commands {
            watch(commands.listener(), COMMANDS, Interest::Read)?;
        }
        if let Some(uploads) = &uploads {
            watch(uploads.listener(), UPLOADS, Interest::Read)?;
        }
        if let Some(signals) = &parts.signals {
            watch(signals.as_fd(), SIGNALS, Interest::Read)?;
        }
        if let Some(triggers) = &pressure {
            watch(triggers.descriptor(Stall::Some), SOME, Interest::Exception)?;
            watch(triggers.descriptor(Stall::Full), FULL, Interest::Exception)?;
        }
        let saved = Saved::load(&mut store);
        let mut rim = Rim {
            poll,
            links: BTreeMap::new(),
            jobs: VecDeque::new(),
            waiting_reports: 0,
            max_waiting_reports: limits.waiting_reports,
            wake_at: None,
            commands,
            uploads,
            log: parts.log,
            history: History::default(),
            now,
            reserved: store.reserved(),
        };
        for line in store.take_log() {
            rim.log(line);
        }
        let mut dispatcher = Dispatcher::new(engine, limits);
        let consent = Consent::begin(&mut store, &mut rim.log, now);
        dispatcher.choose(now, consent.choices(), &mut rim);
        let is_policy_lost = saved.put_in_force(&mut dispatcher, now, &mut rim);
        // An interrupted service may have left reports that a choice before its end does not allow.
        consent.enforce(&dispatcher, &mut rim);
        let (reports, bytes) = (store.reports().count(), store.total_bytes());
        let newest = store.reports().map(|entry| entry.report).max();
        let worker = Worker::start(store, Arc::clone(&system)).map_err(no("thread"))?;
        let waker = worker.waker().as_fd();
        rim.poll
            .add(waker, DISK, Interest::Read)
            .map_err(no("descriptor"))?;
        let slept_ns = system.slept_ns();
        Ok(Daemon {
            dispatcher,
            rim,
            requests: Requests {
                consent,
                is_policy_lost,
                started: now,
                looks: 0,
                knows_pressure: pressure.is_some(),
                reports,
                bytes,
                watchers: Watchers::new(newest.unwrap_or(0)),
                permission: crate::upload::Permission::new(parts.uploads_need_permission),
                state_log: StateLog::default(),
            },
            system,
            worker,
            closer: Closer::default(),
            timer,
            listener: Some(listener),
            accept_again: None,
            signals: parts.signals,
            pressure,
            level: PressureLevel::default(),
            looking: Looking::default(),
            slept_ns,
        })
    }
}
