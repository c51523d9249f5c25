// SPDX-License-Identifier: Apache-2.0
//! The connection, as the threads that use it share it.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use hindsight_trace_format::protocol::FromProcess;

use super::{socket, watch};
use crate::fork::{Descriptor, ParentOnly};
use crate::sync::lock;

/// The connection to the service, if there is one now. Nothing here waits for the service.
#[derive(Clone)]
pub(crate) struct Link(Arc<Shared>);

struct Shared {
    state: Mutex<State>,
    /// Wakes the thread `hindsight-io` while there is no connection.
    calls: ParentOnly,
    /// Requests of the service that the control thread has not executed yet.
    unanswered: AtomicUsize,
}

#[derive(Default)]
struct State {
    /// Number of the newest connection; 0: there was none.
    connection: u64,
    /// The newest connection, unless it is lost.
    socket: Option<Arc<ParentOnly>>,
    /// The service has accepted the process.
    is_welcome: bool,
    /// The memory that the service knows the process to need, bytes.
    needs: u64,
    /// The process ends, or nobody executes commands any more.
    is_closed: bool,
    about: About,
}

/// The facts that a connection begins with.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct About {
    /// Process or package name.
    pub(crate) name: String,
    /// Whether the process has come to the foreground.
    pub(crate) is_foreground: bool,
    /// Whether an activity is started; not part of the hello.
    pub(crate) has_activity: bool,
    /// The report whose rings are taken; 0: none.
    pub(crate) taken: u64,
    /// Rings of calls among them.
    pub(crate) taken_rings: u32,
}

/// The connection's state, for `status`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LinkState {
    /// There is a connection.
    pub(crate) is_connected: bool,
    /// The service has accepted the process.
    pub(crate) is_welcome: bool,
    /// The report whose rings are taken; 0: none.
    pub(crate) taken: u64,
}

impl State {
    /// Sends a packet; a service that does not read it loses the connection.
    fn send(&mut self, packet: &[u8]) -> bool {
        let Some(connected) = &self.socket else {
            return false;
        };
        let sent = socket::send(connected.as_fd(), packet).is_ok();
        if !sent {
            self.disconnect();
        }
        sent
    }

    fn needs(&mut self, bytes: u64) {
        if self.is_welcome && self.needs < bytes {
            self.needs = bytes;
            self.send(&FromProcess::Needs { bytes }.encode());
        }
    }

    fn tell_activities(&mut self) {
        let are_started = self.about.has_activity;
        self.send(&FromProcess::Activities { are_started }.encode());
    }

    fn disconnect(&mut self) {
        self.is_welcome = false;
        if let Some(socket) = self.socket.take() {
            // The thread that waits for packets has the descriptor, too.
            socket::shut_down(socket.as_fd());
        }
    }
}

impl Link {
    /// No connection yet.
    ///
    /// # Errors
    /// If the process has no descriptor left.
    pub(crate) fn new() -> io::Result<Self> {
        Ok(Link(Arc::new(Shared {
            state: Mutex::default(),
            calls: watch::new_calls()?,
            unanswered: AtomicUsize::new(0),
        })))
    }

    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        lock(&self.0.state)
    }

    /// The calls that end waiting for a service.
    pub(super) fn calls(&self) -> &ParentOnly {
        &self.0.calls
    }

    /// Begins a connection by a hello: `greet` sends it. Returns its number. `None` if the link was closed.
    ///
    /// # Errors
    /// If the hello cannot be sent.
    pub(super) fn open(
        &self,
        connected: OwnedFd,
        greet: impl FnOnce(&ParentOnly, &About) -> io::Result<()>,
    ) -> io::Result<Option<(u64, Arc<ParentOnly>)>> {
        let mut state = self.state();
        if state.is_closed {
            return Ok(None);
        }
        let connected = Arc::new(ParentOnly::new(connected, Descriptor::Service));
        // With the lock held: nothing that the control thread says comes before the hello, and nothing that it notes is missing.
        greet(&connected, &state.about)?;
        state.connection += 1;
        state.needs = 0;
        state.socket = Some(Arc::clone(&connected));
        Ok(Some((state.connection, connected)))
    }

    /// The service accepts the process.
    pub(super) fn welcome(&self) {
        let mut state = self.state();
        state.is_welcome = true;
        if state.about.has_activity {
            state.tell_activities();
        }
    }

    /// The connection is lost, or is to end.
    pub(super) fn lose(&self) {
        self.state().disconnect();
    }

    /// One more request for the control thread; returns how many it has not executed yet.
    pub(super) fn count_request(&self) -> usize {
        self.0.unanswered.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// The control thread has executed a request.
    pub(crate) fn request_done(&self) {
        self.0.unanswered.fetch_sub(1, Ordering::Relaxed);
    }

    /// Whether the link was closed for good.
    pub(super) fn is_closed(&self) -> bool {
        self.state().is_closed
    }

    /// Ends the connection, and the thread that waits for it.
    pub(crate) fn close(&self) {
        let mut state = self.state();
        state.is_closed = true;
        state.disconnect();
        drop(state);
        self.call();
    }

    /// Somebody wants the service: if there is none, it is looked for once more.
    pub(crate) fn call(&self) {
        watch::call(self.0.calls.as_fd());
    }

    /// Sends an answer to the connection with this number, if that is the present one. Whether it was sent.
    pub(crate) fn answer(&self, connection: u64, message: &FromProcess) -> bool {
        let mut state = self.state();
        state.connection == connection && state.send(&message.encode())
    }

    /// Sends a message if the service has accepted the process, or looks for the service. Whether it was sent.
    pub(crate) fn tell(&self, message: &FromProcess) -> bool {
        let mut state = self.state();
        if state.is_welcome && state.send(&message.encode()) {
            return true;
        }
        drop(state);
        self.call();
        false
    }

    /// The process ends by itself. The service hears of it also if it has not welcomed the process yet: the hello came before.
    /// False: there is none.
    pub(crate) fn say_farewell(&self) -> bool {
        self.state().send(&FromProcess::Farewell.encode())
    }

    /// The process came to the foreground; the user waits for the thread with this kernel id.
    pub(crate) fn came_to_foreground(&self, tid: u32) {
        let mut state = self.state();
        state.about.is_foreground = true;
        let message = FromProcess::Foreground {
            is_foreground: true,
            tid,
        };
        if !state.send(&message.encode()) {
            drop(state);
            self.call();
        }
    }

    /// The user does not see the process any more.
    pub(crate) fn left_foreground(&self) {
        let mut state = self.state();
        if std::mem::take(&mut state.about.is_foreground) {
            let message = FromProcess::Foreground {
                is_foreground: false,
                tid: 0,
            };
            // A service that is not there learns it by the hello.
            state.send(&message.encode());
        }
    }

    /// The process has activities that are started, or none any more: tells the service, now or when it accepts the process.
    pub(crate) fn set_activities(&self, are_started: bool) {
        let mut state = self.state();
        let is_new = state.about.has_activity != are_started;
        state.about.has_activity = are_started;
        if is_new && state.is_welcome {
            state.tell_activities();
        }
    }

    /// The process has this name from now on: tells the service, if it knows another one.
    pub(crate) fn set_name(&self, name: &str) {
        let mut state = self.state();
        if state.about.name != name {
            name.clone_into(&mut state.about.name);
            let name = name.to_owned();
            // A service that is not there learns it by the hello.
            state.send(&FromProcess::Name { name }.encode());
        }
    }

    /// The process needs so much memory for all but rings of calls: tells the service if it knows of less.
    pub(crate) fn needs(&self, bytes: u64) {
        self.state().needs(bytes);
    }

    /// As [`needs`](Self::needs), for threads that may not wait. False: another thread uses the connection just now.
    pub(crate) fn needs_if_free(&self, bytes: u64) -> bool {
        let state = self.0.state.try_lock();
        state.map(|mut state| state.needs(bytes)).is_ok()
    }

    /// Tells the service something if it has accepted the process; otherwise nothing happens.
    pub(crate) fn mention(&self, message: &FromProcess) {
        let mut state = self.state();
        if state.is_welcome {
            state.send(&message.encode());
        }
    }

    /// Rings were taken for a report that this connection asked for, among them so many of calls. False: another connection has
    /// begun meanwhile, which does not know of it.
    pub(crate) fn set_taken(&self, connection: u64, report: u64, rings: u32) -> bool {
        let mut state = self.state();
        let is_present = state.connection == connection;
        if is_present {
            (state.about.taken, state.about.taken_rings) = (report, rings);
        }
        is_present
    }

    /// The rings are not taken any more.
    pub(crate) fn set_released(&self) {
        let mut state = self.state();
        (state.about.taken, state.about.taken_rings) = (0, 0);
    }

    /// As [`set_released`](Self::set_released), unless there is a connection: a service may be reading them. Whether it was done.
    pub(crate) fn give_up_taken(&self) -> bool {
        let mut state = self.state();
        let is_alone = state.socket.is_none();
        if is_alone {
            (state.about.taken, state.about.taken_rings) = (0, 0);
        }
        is_alone
    }

    /// The state now.
    pub(crate) fn now(&self) -> LinkState {
        let state = self.state();
        LinkState {
            is_connected: state.socket.is_some(),
            is_welcome: state.is_welcome,
            taken: state.about.taken,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hindsight_trace_format::protocol::TakeOutcome;
    use std::os::unix::net::UnixDatagram;

    fn connect(link: &Link) -> (Option<u64>, UnixDatagram) {
        let (own, other) = UnixDatagram::pair().unwrap();
        other.set_nonblocking(true).unwrap();
        let opened = link.open(own.into(), |_, _| Ok(())).unwrap();
        (opened.map(|(connection, _)| connection), other)
    }

    fn comes(other: &UnixDatagram) -> Option<FromProcess> {
        let mut packet = [0; 100];
        let length = other.recv(&mut packet).ok()?;
        FromProcess::decode(&packet[..length]).unwrap()
    }

    const ANSWER: FromProcess = FromProcess::Taken {
        report: 5,
        outcome: TakeOutcome::Taken,
    };

    #[test]
    fn nothing_of_an_earlier_connection_is_taken_for_the_present_one() {
        let link = Link::new().unwrap();
        let (first, _) = connect(&link);
        assert!(link.set_taken(1, 5, 1));
        link.lose();
        assert!(link.set_taken(1, 6, 1), "the next hello says so");
        let (second, other) = connect(&link);
        assert_eq!((first, second), (Some(1), Some(2)));
        assert!(!link.set_taken(1, 7, 1));
        assert_eq!(link.now().taken, 6);
        assert!(!link.answer(1, &ANSWER));
        assert_eq!(comes(&other), None);
        assert!(link.answer(2, &ANSWER));
        assert_eq!(comes(&other), Some(ANSWER));
    }

    #[test]
    fn each_service_hears_once_of_activities_that_are_started() {
        let link = Link::new().unwrap();
        let told = |are_started| Some(FromProcess::Activities { are_started });
        link.set_activities(true);
        for _ in 0..2 {
            let (_, other) = connect(&link);
            assert_eq!(comes(&other), None, "the service may refuse the process");
            link.welcome();
            assert_eq!(comes(&other), told(true));
            link.set_activities(true);
            assert_eq!(comes(&other), None);
            link.set_activities(false);
            assert_eq!(comes(&other), told(false));
            link.set_activities(true);
            assert_eq!(comes(&other), told(true));
            link.lose();
        }
    }

    #[test]
    fn triggers_need_a_welcome_and_taken_rings_a_lost_connection() {
        let link = Link::new().unwrap();
        let (_, other) = connect(&link);
        assert!(!link.tell(&FromProcess::Farewell));
        assert_eq!(comes(&other), None);
        link.say_farewell();
        assert_eq!(comes(&other), Some(FromProcess::Farewell));
        link.welcome();
        assert_eq!(comes(&other), None);
        assert!(link.tell(&FromProcess::Farewell));
        assert_eq!(comes(&other), Some(FromProcess::Farewell));
        assert!(link.set_taken(1, 5, 1) && !link.give_up_taken());
        link.lose();
        assert!(!link.now().is_welcome && !link.tell(&FromProcess::Farewell));
        assert!(link.give_up_taken() && link.now().taken == 0);
        link.close();
        assert_eq!(connect(&link).0, None);
    }
}
