// SPDX-License-Identifier: Apache-2.0
//! Executes what the system service asks for, and tells it what happens.

use std::time::{Duration, Instant};

use hindsight_trace_format::container::RingMode;
use hindsight_trace_format::protocol::{
    AppDetector, Configuration, DetectorRules, FromProcess, TakeOutcome, Trigger as Told,
    TriggerSeverity,
};

use hindsight_trace_format::shared::Loss;

use crate::clock;
use crate::command::{ServiceCommand, Trigger};
use crate::config;
use crate::control::{retention, rules, sharing, snapshot};
use crate::detectors::{watched_methods, AppRules};
use crate::handshake::Handshake;
use crate::host::ProcessIdentity;
use crate::service::Link;
use crate::session::Session;
use crate::stacks::Pin;
use crate::thread::taken::TakenRing;

/// Time after which a service that does not answer is not waited for. Rings of calls need its answer all the same.
const SETTLED_AFTER: Duration = Duration::from_secs(10);

/// The control thread's state about the service. Without a service no function does anything.
pub(crate) struct ServiceRequests<'a> {
    session: &'a Session,
    /// The service has said how the process records, or there was none to say it.
    is_settled: bool,
    /// A service has said how the process records, or there is one that does not take it: its own configuration does not hold
    /// any more.
    is_configured: bool,
    /// A service does not take the process, which records nothing.
    is_stopped: bool,
    started: Instant,
    taken: Option<Taken<'a>>,
    /// The name that the service finds in the memory.
    name: Option<ProcessIdentity>,
}

/// Rings that the service reads.
struct Taken<'a> {
    report: u64,
    rings: Vec<TakenRing>,
    /// Keep the stacks that their events name, as long as there is a connection.
    stacks: Vec<Pin<'a>>,
}

impl<'a> ServiceRequests<'a> {
    pub(crate) fn new(session: &'a Session) -> Self {
        ServiceRequests {
            session,
            is_settled: false,
            is_configured: false,
            is_stopped: false,
            started: Instant::now(),
            taken: None,
            name: None,
        }
    }

    /// The time in which the service may still say how the process records, before all else begins; `None`: it has done so, or
    /// is not waited for.
    pub(crate) fn time_to_settle(&self) -> Option<Duration> {
        let is_open = self.session.link().is_some() && !self.is_settled;
        let left = is_open.then(|| SETTLED_AFTER.saturating_sub(self.started.elapsed()));
        left.filter(|left| !left.is_zero())
    }

    /// Whether the process records nothing because no service takes it.
    pub(crate) fn is_stopped(&self) -> bool {
        self.is_stopped
    }

    /// `evicted` counts rings evicted so far.
    pub(crate) fn execute(
        &mut self,
        handshake: &mut dyn Handshake,
        evicted: &mut u64,
        command: ServiceCommand,
    ) {
        let session = self.session;
        let Some(link) = session.link() else {
            return;
        };
        match command {
            ServiceCommand::Absent => self.settle_without(handshake),
            // Running processes record on while a service starts again, whose socket is not open to them at first.
            ServiceCommand::Barred if self.is_configured => {}
            ServiceCommand::Barred | ServiceCommand::Refused => *evicted += self.stop(handshake),
            ServiceCommand::Needs => {
                if let Some(shared) = session.shared() {
                    link.needs(shared.room().asked());
                }
            }
            ServiceCommand::Room(_) => {
                link.request_done();
                retention::start_events(session, handshake);
            }
            ServiceCommand::Lost(_) => {
                if let Some(taken) = &mut self.taken {
                    taken.stacks.clear();
                }
            }
            ServiceCommand::Configure(connection, configuration) => {
                link.request_done();
                self.name_process();
                *evicted += self.configure(handshake, configuration);
                let rings = self.rings_in_use();
                link.answer(connection, &FromProcess::Held { rings });
            }
            ServiceCommand::Detectors(_, rules) => {
                link.request_done();
                self.follow(&rules);
            }
            ServiceCommand::Take(connection, report) => {
                link.request_done();
                let outcome = self.take(link, handshake, (connection, report), *evicted);
                link.answer(connection, &FromProcess::Taken { report, outcome });
            }
            ServiceCommand::Release(_, report) => {
                link.request_done();
                if let Some(taken) = self.taken.take_if(|taken| taken.report == report) {
                    self.release(link, taken);
                    // Threads may have found no room for a ring while these were taken.
                    retention::start_events(session, handshake);
                }
            }
        }
    }

    /// There is no service. If none has ever configured the process, it records what its own configuration says.
    fn settle_without(&mut self, handshake: &mut dyn Handshake) {
        if !std::mem::replace(&mut self.is_settled, true) {
            let session = self.session;
            session.registry.set_limit(session.config.max_rings());
            retention::start_selected(session, handshake);
        }
    }

    /// Returns how many rings were evicted.
    fn configure(&mut self, handshake: &mut dyn Handshake, configuration: Configuration) -> u64 {
        let session = self.session;
        self.is_settled = true;
        self.is_configured = true;
        self.is_stopped = false;
        let most = session.config.max_rings().unwrap_or(usize::MAX);
        let rings = usize::try_from(configuration.call_rings).unwrap_or(usize::MAX);
        session.registry.set_limit(Some(rings.min(most)));
        // A newer service may know more categories.
        let categories = configuration.categories & config::all_categories();
        let before = session.categories();
        // First, so that a thread whose ring changes gets the right one at once.
        session.set_categories(categories);
        let evicted = retention::make_room(session, handshake, 0);
        retention::start_selected(session, handshake);
        if categories != before {
            retention::set_categories(session, handshake, categories);
        }
        if categories == 0 {
            // Nobody is to have them.
            for events in session.spool.take_all().0 {
                retention::discard(session, events);
            }
        }
        session.set_consent(configuration.consent);
        evicted
    }

    /// Records nothing, and gives all rings of calls back: there is a service, whose policy and consent hold for the process or
    /// held until now, and it cannot say what they are. Returns how many rings were evicted.
    fn stop(&mut self, handshake: &mut dyn Handshake) -> u64 {
        let nothing = Configuration {
            call_rings: 0,
            categories: 0,
            ..Configuration::default()
        };
        let evicted = self.configure(handshake, nothing);
        self.is_stopped = true;
        self.follow(&DetectorRules::default());
        if let (Some(link), Some(taken)) = (self.session.link(), self.taken.take()) {
            self.release(link, taken);
        }
        evicted
    }

    /// The detectors follow these rules from now on.
    fn follow(&self, rules: &DetectorRules) {
        let session = self.session;
        let methods = watched_methods(rules).map(|rule| rule.method.as_str());
        let methods: Vec<&str> = methods.collect();
        let numbers = rules::watch_methods(session, &methods);
        let is_any = !rules.rules.is_empty();
        let followed = AppRules::new(rules, &numbers);
        session
            .detectors
            .set_rules(Some(followed).filter(|_| is_any));
        (session.host).set_message_limits(AppRules::message_limits(rules));
    }

    /// Rings of calls: of threads, of ended threads, and taken ones.
    fn rings_in_use(&self) -> u32 {
        let rings = self.session.registry.rings();
        rings as u32 + self.taken.as_ref().map_or(0, |taken| calls(&taken.rings))
    }

    /// All threads exchange their rings; the old ones are kept.
    fn take(
        &mut self,
        link: &Link,
        handshake: &mut dyn Handshake,
        (connection, report): (u64, u64),
        evicted: u64,
    ) -> TakeOutcome {
        let session = self.session;
        if self.taken.is_some() || session.registry.is_closed() || report == 0 {
            return TakeOutcome::Refused;
        }
        self.name_process();
        let (rings, losses) = snapshot::take_rings(session, handshake, false);
        if let Some(shared) = session.shared() {
            shared.set_losses(losses);
            shared.set_losses(snapshot::losses_so_far(session));
            shared.set_losses([(Loss::RingsEvicted, evicted)]);
        }
        // After the rings were taken: all stacks that they name are there.
        let stacks = session.stacks.keep_all();
        retention::forget_names(session);
        // The service cannot see the others: they were counted when they were made.
        let (rings, others): (Vec<_>, Vec<_>) =
            rings.into_iter().partition(|taken| taken.ring.is_shared());
        for other in others {
            session.put_back(other.ring);
        }
        if rings.is_empty() {
            return TakeOutcome::Nothing;
        }
        let taken = Taken {
            report,
            rings,
            stacks,
        };
        if !link.set_taken(connection, report, calls(&taken.rings)) {
            // Nobody knows of this report.
            self.release(link, taken);
            return TakeOutcome::Refused;
        }
        self.taken = Some(taken);
        TakeOutcome::Taken
    }

    /// Uses the rings again.
    fn release(&self, link: &Link, taken: Taken<'a>) {
        link.set_released();
        drop(taken.stacks);
        for taken in taken.rings {
            self.session.put_back(taken.ring);
        }
    }

    /// Looks which name the process has, and tells the service if that is another one than before.
    pub(crate) fn name_process(&mut self) {
        if let Some(shared) = self.session.shared() {
            let name = sharing::name_process(self.session, shared, self.name.as_ref());
            self.name = Some(name);
        }
    }

    /// The process writes a snapshot by itself, from these rings. If no service reads the taken rings, they are added, and are not
    /// taken any more; otherwise they are missing in the file.
    pub(crate) fn give_up_taken(
        &mut self,
        rings: &mut Vec<TakenRing>,
        losses: &mut Vec<(String, u64)>,
    ) {
        let (Some(taken), Some(link)) = (&mut self.taken, self.session.link()) else {
            return;
        };
        if link.give_up_taken() {
            rings.append(&mut taken.rings);
            self.taken = None;
        } else {
            losses.push((
                "rings that were taken for a report of the service".into(),
                taken.rings.len() as u64,
            ));
        }
    }

    /// The system needs memory: gives the taken rings up, unless a service reads them.
    pub(crate) fn discard_taken(&mut self) {
        let mut rings = Vec::new();
        self.give_up_taken(&mut rings, &mut Vec::new());
        for taken in rings {
            self.session.put_back(taken.ring);
        }
    }

    /// A thread came to the foreground.
    pub(crate) fn came_to_foreground(&mut self, tid: u32) {
        let session = self.session;
        if let Some(link) = session.link() {
            // The process has its name now.
            self.name_process();
            link.came_to_foreground(tid);
        }
    }

    /// The user does not see the process any more, or never did.
    pub(crate) fn left_foreground(&mut self) {
        let session = self.session;
        if let Some(link) = session.link() {
            // An app that starts in the background has its name now, too.
            self.name_process();
            link.left_foreground();
        }
    }

    /// The process has activities that are started, or none any more.
    pub(crate) fn set_activities(&self, are_started: bool) {
        if let Some(link) = self.session.link() {
            link.set_activities(are_started);
        }
    }

    /// Tells the service what the program has found. False if there is no service, or a user wants a snapshot.
    pub(crate) fn tell_trigger(&mut self, reason: &str, tid: u32, trigger: Trigger) -> bool {
        let Some(link) = self.session.link() else {
            return false;
        };
        let Some((severity, detector)) = detector(reason, trigger) else {
            return false;
        };
        self.name_process();
        link.tell(&FromProcess::Trigger(Told {
            severity,
            detector: detector.into(),
            reason: reason.into(),
            tid,
            at_boottime_ns: clock::boottime_ns(),
        }))
    }

    /// The process ends by itself. Returns whether a service knows it.
    pub(crate) fn end(&mut self) -> bool {
        let Some(link) = self.session.link() else {
            return false;
        };
        if let Some(shared) = self.session.shared() {
            // There may be no connection just now, or one that the service gives up before it reads the farewell.
            shared.set_left();
        }
        let has_service = link.say_farewell();
        link.close();
        if let Some(taken) = self.taken.take() {
            self.release(link, taken);
        }
        has_service
    }
}

/// How many of these rings have calls.
fn calls(rings: &[TakenRing]) -> u32 {
    let calls = rings.iter().filter(|r| r.header.mode == RingMode::Calls);
    calls.count() as u32
}

/// Who has found it, and how bad it is; `None` if it is for the process itself.
fn detector(reason: &str, trigger: Trigger) -> Option<(TriggerSeverity, &'static str)> {
    let of = |detector: AppDetector| (detector.spec().severity, detector.spec().name);
    match trigger {
        Trigger::User => None,
        Trigger::Crash => Some((TriggerSeverity::Fatal, "uncaught-exception")),
        // The words of `dev.hindsight.Watchdog`.
        Trigger::Program
            if reason.starts_with("a message on ") && reason.contains(" ms, over ") =>
        {
            let is_running = reason.contains(" has been running ");
            let found = match is_running {
                true => AppDetector::StuckMessage,
                false => AppDetector::SlowMessage,
            };
            Some(of(found))
        }
        Trigger::Detector(found) => Some(of(found)),
        Trigger::Program => Some((TriggerSeverity::Requested, "program")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_watchdog_is_known_by_its_words() {
        let slow = "a message on main took 700 ms, over 500 ms: android.os.Handler, 0x1";
        let expected = Some((TriggerSeverity::Slow, "slow-message"));
        assert_eq!(detector(slow, Trigger::Program), expected);
        let stuck = "a message on main has been running for 2001 ms, over 500 ms: now in A.b";
        let expected = Some((TriggerSeverity::Stuck, "stuck-message"));
        assert_eq!(detector(stuck, Trigger::Program), expected);
        let program = Some((TriggerSeverity::Requested, "program"));
        assert_eq!(detector("a message was lost", Trigger::Program), program);
        assert_eq!(
            detector("a message on main took 700 ms, over 500 ms", Trigger::User),
            None
        );
        let crash = detector("crash: E", Trigger::Crash);
        assert_eq!(crash, Some((TriggerSeverity::Fatal, "uncaught-exception")));
    }
}
