// SPDX-License-Identifier: Apache-2.0
//! What clients ask for, and what the disk's thread has done for them.

use crate::commands::{Request, Watchers};
use crate::consent::Allowed;
use crate::engine::{Asked, Event, Now, Report};
use crate::report::{Done, IfNotSaved, Job, Outcome, Saving};
use crate::upload::Permission;

use super::consent::Consent;
use super::decide::Decide;
use super::dispatch::Dispatcher;
use super::links::Rim;
use super::outlet::Outlet;
use super::saved::{texts_of_policy, SWITCH};
use super::state_log::StateLog;

/// What requests need beside the engine and the disk.
pub(super) struct Requests {
    pub(super) consent: Consent,
    /// The policy that was loaded last cannot be read: nothing is recorded or uploaded until another one is loaded.
    pub(super) is_policy_lost: bool,
    /// When the service was started.
    pub(super) started: Now,
    /// The system tells of a shortage of memory.
    pub(super) knows_pressure: bool,
    /// How often the service's detectors have looked at facts.
    pub(super) looks: u64,
    /// Reports in the store.
    pub(super) reports: usize,
    /// Bytes in the store.
    pub(super) bytes: u64,
    pub(super) watchers: Watchers,
    /// When anything may leave.
    pub(super) permission: Permission,
    pub(super) state_log: StateLog,
}

impl Requests {
    /// Does what a client asks for, or has it done; the answer follows.
    pub(super) fn request<D: Decide>(
        &mut self,
        client: u64,
        request: Request,
        dispatcher: &mut Dispatcher<D>,
        rim: &mut Rim,
    ) {
        match request {
            Request::Status => {
                let status = self.status(dispatcher, rim);
                rim.answer_client(client, Ok(vec![status]), None);
            }
            Request::Reports => rim.ask_store(client, Job::List { client }),
            Request::Get(report) => {
                let allowed = Box::new(dispatcher.engine().allowed());
                let job = Job::Open {
                    client,
                    allowed,
                    report,
                };
                rim.ask_store(client, job);
            }
            Request::Context(report) => {
                let allowed = Box::new(dispatcher.engine().allowed());
                let job = Job::Context {
                    client,
                    allowed,
                    report,
                };
                rim.ask_store(client, job);
            }
            Request::Remove(report) => rim.ask_store(client, Job::Remove { client, report }),
            Request::PolicyFile(path) => {
                rim.ask_store(client, Job::ReadPolicy { client, path });
            }
            Request::Watch(after) => {
                let is_there = |client| {
                    rim.commands
                        .as_ref()
                        .is_some_and(|c| c.uid(client).is_some())
                };
                if let Some(answer) = self.watchers.wait(client, after, is_there) {
                    rim.answer_client(client, answer, None);
                }
            }
            Request::PolicyText(text) => self.load_policy(client, Some(text), dispatcher, rim),
            Request::PolicyDefault => self.load_policy(client, None, dispatcher, rim),
            Request::Preview(report) => {
                let allowed = Box::new(dispatcher.engine().allowed());
                let job = Job::Preview {
                    client,
                    allowed,
                    report,
                };
                rim.ask_store(client, job);
            }
            Request::AllowUploads(minutes) => self.allow_uploads(client, minutes, rim),
            Request::StopUploads => {
                self.permission.stop();
                rim.answer_client(client, Ok(Vec::new()), None);
            }
            Request::WaitUploads(after) => {
                let now = rim.now.boottime_ns;
                if let Some(answer) = self.permission.wait(client, after, now) {
                    rim.answer_client(client, answer, None);
                }
            }
            Request::NextUpload => self.next_upload(client, None, dispatcher, rim),
            Request::StillUpload { report, kind } => {
                if let Some(allowed) = self.allowed_upload(client, dispatcher, rim) {
                    let job = Job::StillUpload {
                        client,
                        allowed,
                        report,
                        kind,
                    };
                    rim.ask_store(client, job);
                }
            }
            Request::Uploaded { report, kind } => {
                let job = Job::Uploaded {
                    client,
                    report,
                    kind,
                };
                rim.ask_store(client, job);
            }
            Request::Consent => {
                let line = self.consent.show(dispatcher);
                rim.answer_client(client, Ok(vec![line]), None);
            }
            Request::Choose {
                whose,
                level,
                ends_others,
            } => {
                let choice = (whose, level, ends_others);
                self.consent.choose(client, choice, dispatcher, rim);
            }
            Request::Forget(user) => self.consent.forget(client, user, dispatcher, rim),
            Request::PolicyShow => {
                let text = dispatcher.engine().policy_text();
                let lines = text.lines().map(str::to_owned).collect();
                rim.answer_client(client, Ok(lines), None);
            }
            Request::PolicyCheck(text) => {
                let checked = dispatcher.engine().check_policy(&text);
                let result = checked.map(|()| Vec::new()).map_err(|e| e.to_string());
                rim.answer_client(client, result, None);
            }
            Request::Switch { is_on } => self.switch(client, is_on, dispatcher, rim),
            Request::Dump => {
                let mut lines = self.dump(rim);
                lines.extend(dispatcher.engine().dump(rim.now));
                rim.answer_client(client, Ok(lines), None);
            }
            Request::Record { package, seconds } => dispatcher.push(Event::Asked {
                reply: client,
                what: Asked::Record { package, seconds },
            }),
            Request::EndRecording { package } => dispatcher.push(Event::Asked {
                reply: client,
                what: Asked::EndRecording { package },
            }),
            Request::Report { process, reason } => dispatcher.push(Event::Asked {
                reply: client,
                what: Asked::Report { process, reason },
            }),
        }
    }

    /// Uploads are allowed for so many minutes: those who wait for that are told.
    fn allow_uploads(&mut self, client: u64, minutes: u32, rim: &mut Rim) {
        let allowed = self.permission.allow(rim.now.boottime_ns, minutes);
        let result = allowed.map(|(clients, line)| {
            for client in clients {
                rim.answer_client(client, Ok(vec![line.clone()]), None);
            }
            Vec::new()
        });
        rim.answer_client(client, result, None);
    }

    /// What is allowed. `None`: nothing is uploaded without permission or while nothing is recorded, and the client is told so.
    fn allowed_upload<D: Decide>(
        &mut self,
        client: u64,
        dispatcher: &mut Dispatcher<D>,
        rim: &mut Rim,
    ) -> Option<Box<Allowed>> {
        if !self.permission.is_given(rim.now.boottime_ns) {
            let line = "nothing uploads are not allowed now: 'uploads allow MINUTES' allows them";
            rim.answer_client(client, Ok(vec![line.to_owned()]), None);
            return None;
        }
        if self.is_policy_lost {
            let line = "nothing the policy is lost: load it again, or say 'policy default'";
            rim.answer_client(client, Ok(vec![line.to_owned()]), None);
            return None;
        }
        let allowed = Box::new(dispatcher.engine().allowed());
        if !allowed.policy.enabled {
            let line = "nothing the switch is off, or the policy has 'enabled = false'".to_owned();
            rim.answer_client(client, Ok(vec![line]), None);
            return None;
        }
        Some(allowed)
    }

    fn next_upload<D: Decide>(
        &mut self,
        client: u64,
        admitted: Option<Report>,
        dispatcher: &mut Dispatcher<D>,
        rim: &mut Rim,
    ) {
        let Some(allowed) = self.allowed_upload(client, dispatcher, rim) else {
            return;
        };
        let job = Job::NextUpload {
            client,
            allowed,
            admitted,
        };
        rim.ask_store(client, job);
    }

    /// One of these reports, each with its group, may leave if the limit of uploads allows it.
    fn admit_upload<D: Decide>(
        &mut self,
        client: u64,
        candidates: &[(Report, Report)],
        dispatcher: &mut Dispatcher<D>,
        rim: &mut Rim,
    ) {
        // It would count, and not be handed out.
        if self.allowed_upload(client, dispatcher, rim).is_none() {
            return;
        }
        let now = rim.now;
        let groups: Vec<Report> = candidates.iter().map(|(_, group)| *group).collect();
        match dispatcher.admit_upload(now, &groups, rim) {
            Ok(index) => {
                let admitted = candidates.get(index).map(|(report, _)| *report);
                self.next_upload(client, admitted, dispatcher, rim);
            }
            Err(why) => {
                let line = format!("nothing {why}");
                rim.answer_client(client, Ok(vec![line]), None);
            }
        }
    }

    /// Puts a policy in force, and keeps it for the next service.
    fn load_policy<D: Decide>(
        &mut self,
        client: u64,
        text: Option<String>,
        dispatcher: &mut Dispatcher<D>,
        rim: &mut Rim,
    ) {
        let now = rim.now;
        let before = dispatcher.engine().accepted();
        // What an earlier service has saved is read without this, so that a newer build takes what an older one took.
        let checked = text
            .as_deref()
            .map_or(Ok(()), |text| dispatcher.engine().check_policy(text));
        let loaded = checked.and_then(|()| dispatcher.load_policy(now, text.as_deref(), rim));
        if let Err(refused) = loaded {
            return rim.answer_client(client, Err(refused.to_string()), None);
        }
        self.is_policy_lost = false;
        let job = Job::Save {
            texts: texts_of_policy(before, dispatcher.engine().accepted(), text),
            client,
        };
        // Before the answer, so that no report is left then which the policy does not allow.
        self.consent.enforce(dispatcher, rim);
        rim.jobs.push_back(job);
    }

    /// The recording switch: holds at once, and is kept for the next service.
    fn switch<D: Decide>(
        &mut self,
        client: u64,
        is_on: bool,
        dispatcher: &mut Dispatcher<D>,
        rim: &mut Rim,
    ) {
        let now = rim.now;
        dispatcher.switch(now, is_on, rim);
        let job = Job::Save {
            texts: vec![Saving {
                name: SWITCH,
                text: (!is_on).then(|| "off".to_owned()),
                if_not_saved: IfNotSaved::Spoil,
            }],
            client,
        };
        rim.jobs.push_back(job);
    }

    /// What the engine does not know.
    fn dump(&self, rim: &Rim) -> Vec<String> {
        let up_ns = rim.now.boottime_ns - self.started.boottime_ns;
        vec![
            format!(
                "hindsightd {}, running for {} s",
                env!("CARGO_PKG_VERSION"),
                up_ns / 1_000_000_000
            ),
            self.of_store(rim),
            self.permission.describe(rim.now.boottime_ns),
        ]
    }

    fn of_store(&self, rim: &Rim) -> String {
        format!(
            "store: {} reports, {} KiB; {} wait for the disk",
            self.reports,
            self.bytes >> 10,
            rim.waiting_reports
        )
    }

    /// Writes the state to the log, if it is time.
    pub(super) fn log_state<D: Decide>(&mut self, dispatcher: &Dispatcher<D>, rim: &mut Rim) {
        let store = self.of_store(rim);
        let now = rim.now;
        let lines = self.state_log.lines(now.boottime_ns, || {
            let mut lines = dispatcher.engine().summary(now);
            lines.push(store);
            lines
        });
        for line in lines {
            rim.log(format!("state: {line}"));
        }
    }

    fn status<D: Decide>(&self, dispatcher: &Dispatcher<D>, rim: &Rim) -> String {
        let (processes, joined) = dispatcher.counts();
        let up_ns = rim.now.boottime_ns - self.started.boottime_ns;
        format!(
            "{{\"service\":\"{}\",\"up_s\":{},\"processes\":{processes},\"connected\":{joined},\"is_switched_on\":{},\"is_consent_lost\":{},\"pressure_known\":{},\"looks\":{},\"store\":{{\"reports\":{},\"bytes\":{},\"waiting\":{}}},\"engine\":{}}}",
            env!("CARGO_PKG_VERSION"),
            up_ns / 1_000_000_000,
            dispatcher.engine().is_on(),
            self.consent.choices().are_lost,
            self.knows_pressure,
            self.looks,
            self.reports,
            self.bytes,
            rim.waiting_reports,
            dispatcher.engine().status(rim.now),
        )
    }

    /// A job of the disk's thread has ended: who waits for it is told.
    pub(super) fn job_done<D: Decide>(
        &mut self,
        done: Done,
        dispatcher: &mut Dispatcher<D>,
        rim: &mut Rim,
    ) {
        (self.reports, self.bytes) = (done.reports, done.bytes);
        for line in done.log {
            rim.log(line);
        }
        match done.outcome {
            Outcome::Nothing => {}
            Outcome::Written { report, is_kept } => {
                rim.waiting_reports -= 1;
                self.state_log.report_written();
                dispatcher.push(Event::Written { report, is_kept });
                if is_kept {
                    let (clients, line) = self.watchers.kept(report);
                    for client in clients {
                        rim.answer_client(client, Ok(vec![line.clone()]), None);
                    }
                }
            }
            Outcome::Chosen { result, .. } => {
                self.consent.saved(result, dispatcher, rim);
            }
            Outcome::Answer { client, result } => rim.answer_client(client, result, None),
            Outcome::Opened { client, file, json } => {
                rim.answer_client(client, Ok(vec![json]), Some(file));
            }
            Outcome::Candidates { client, reports } => {
                self.admit_upload(client, &reports, dispatcher, rim);
            }
            Outcome::Policy { client, result } => match result {
                Ok(text) => self.load_policy(client, Some(text), dispatcher, rim),
                Err(message) => rim.answer_client(client, Err(message), None),
            },
        }
    }
}
