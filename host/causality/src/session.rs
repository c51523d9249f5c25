// SPDX-License-Identifier: Apache-2.0
//! Traces of several processes, opened together.

use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use hashbrown::HashMap;
use hindsight_analysis::Resources;
use hindsight_decoder::{
    Error, Losses, MethodId, Methods, OpenOptions, ProcessFacts, Stacks, Strings, Thread,
    ThreadEvent, ThreadKey, Trace,
};
use hindsight_system_trace::SystemTrace;

use crate::clocks::{self, Disagreement};
use crate::strings::{Interner, StringId};
use crate::system::{self, Recorded, System, SystemError};

/// Index of a thread among all threads of a [`Session`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ThreadId(pub u32);

/// An event: a thread, and the index among its events.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct EventId {
    /// The thread.
    pub thread: ThreadId,
    /// Index in [`Thread::events`].
    pub event: u32,
}

/// A thread of a [`Session`].
#[derive(Clone, Copy, Debug)]
pub struct SessionThread {
    /// Its identity: `process` is the index of the trace in the session.
    pub key: ThreadKey,
    /// Index in [`Trace::threads`].
    pub place: u32,
    /// The kernel's thread id, for display: it is not unique.
    pub tid: u32,
    /// Its name, for display: it is not unique.
    pub name: StringId,
}

impl SessionThread {
    /// Index of its trace in the session.
    pub fn trace(&self) -> usize {
        self.key.process as usize
    }
}

/// The names that the events of a trace refer to, in the session's numbers.
#[derive(Clone, Debug, Default)]
struct Names {
    /// By [`MethodId`]: `class.name`.
    methods: Vec<StringId>,
    /// By [`MethodId`]: the class.
    classes: Vec<StringId>,
    /// By the number of a mark's name, less one.
    marks: Vec<StringId>,
}

/// A trace of a [`Session`].
#[derive(Clone, Debug)]
struct Opened {
    name: PathBuf,
    trace: Trace,
    names: Names,
    /// The session's number of its first thread.
    first_thread: u32,
    /// Why it is not joined with the others.
    apart: Option<Disagreement>,
    main: Option<ThreadId>,
    by_ring: HashMap<u32, ThreadId>,
}

/// Traces of several processes on one clock, CLOCK_BOOTTIME in ns.
///
/// Threads, methods and strings have numbers that hold for all traces. Traces of another device or another boot have a clock
/// of their own: [`Session::apart`] says so, and nothing joins them with the others.
///
/// With a system trace ([`Session::with_system`]) there are threads that have no recording. They have numbers after all
/// others, names and processes, and an empty recording; [`Session::is_outside`] tells them.
#[derive(Debug, Default)]
pub struct Session {
    /// The recordings, and after them the processes that are in the system trace only.
    opened: Vec<Opened>,
    /// The number of recordings, and of their threads.
    recorded: (usize, usize),
    threads: Vec<SessionThread>,
    strings: Interner,
    system: Option<System>,
    /// By thread.
    resources: Vec<OnceLock<Resources>>,
}

impl Session {
    /// Opens files of any format that can be read, in this order.
    ///
    /// # Errors
    /// If one of them cannot be read; see [`OpenOptions::open`].
    pub fn open<P: AsRef<Path>>(paths: &[P]) -> Result<Self, Error> {
        let mut traces = Vec::with_capacity(paths.len());
        for path in paths {
            let trace = OpenOptions::default().open(path.as_ref())?;
            traces.push((path.as_ref().to_owned(), trace));
        }
        Ok(Session::of(traces))
    }

    /// Of decoded traces, with their names.
    pub fn of(traces: Vec<(PathBuf, Trace)>) -> Self {
        let mut session = Session::default();
        let apart = {
            let all: Vec<&Trace> = traces.iter().map(|(_, trace)| trace).collect();
            clocks::disagreements(&all)
        };
        for ((name, trace), apart) in traces.into_iter().zip(apart) {
            session.add(name, trace, apart);
        }
        session.recorded = (session.opened.len(), session.threads.len());
        session.resources = session.threads.iter().map(|_| OnceLock::new()).collect();
        session
    }

    /// Joins a trace of the whole device, with the name of its file; see [`Session::refuses_system`].
    pub fn with_system(mut self, file: PathBuf, trace: SystemTrace) -> Self {
        let mut system = System::join(file, trace, &self.together());
        self.add_outside(&mut system);
        self.system = Some(system);
        self.resources = self.threads.iter().map(|_| OnceLock::new()).collect();
        self
    }

    /// Why a trace of the whole device cannot be joined: it is of another boot, or of another time. `None` if it can.
    pub fn refuses_system(&self, trace: &SystemTrace) -> Option<SystemError> {
        let joined = self.opened.iter().filter(|o| o.apart.is_none());
        let boot_ns = joined.filter_map(|o| clocks::boot_ns(&o.trace)).next();
        system::refuse(trace, boot_ns, &self.together())
    }

    /// The recordings of threads that have one clock.
    fn together(&self) -> Vec<Recorded> {
        let threads = self.threads.iter().zip(0..);
        let together = threads.filter(|(t, _)| self.apart(t.trace()).is_none());
        together
            .map(|(about, thread)| {
                let opened = &self.opened[about.trace()].trace;
                let recording = &opened.threads[about.place as usize];
                Recorded {
                    thread,
                    tid: about.tid,
                    pid: opened.process.pid,
                    start_ns: recording.start_ns,
                    end_ns: recording.end_ns,
                }
            })
            .collect()
    }

    /// Adds the processes and threads that are in the system trace only.
    fn add_outside(&mut self, system: &mut System) {
        let Some(clock) = self.opened.first().map(|o| o.trace.clock.clone()) else {
            return;
        };
        for process in system.outside() {
            let first_thread = self.threads.len() as u32;
            let pid = process.pid.unwrap_or(0);
            let mut trace = Trace {
                process: ProcessFacts {
                    pid,
                    name: match (process.name.is_empty(), process.pid) {
                        (false, _) => process.name,
                        (true, Some(pid)) => format!("process {pid}"),
                        (true, None) => "an unknown process".to_owned(),
                    },
                    ..ProcessFacts::default()
                },
                clock: clock.clone(),
                methods: Methods::default(),
                strings: Strings::default(),
                stacks: Stacks::default(),
                threads: Vec::new(),
                losses: Losses::default(),
                damaged: Vec::new(),
                file_bytes: 0,
            };
            for number in process.threads {
                let Some(about) = system.trace().thread(number) else {
                    continue;
                };
                let ring = trace.threads.len() as u32;
                let thread = first_thread + ring;
                trace.threads.push(Thread {
                    key: ThreadKey { process: 0, ring },
                    tid: about.tid,
                    name: about.name.clone(),
                    start_ns: about.first_ns,
                    end_ns: system.trace().end_ns(),
                    ..Thread::default()
                });
                let own = Recorded {
                    thread,
                    tid: about.tid,
                    pid,
                    start_ns: about.first_ns,
                    end_ns: system.trace().end_ns(),
                };
                system.add(number, own);
            }
            self.add(system.file().to_owned(), trace, None);
        }
    }

    /// The trace of the whole device, if there is one.
    pub fn system(&self) -> Option<&System> {
        self.system.as_ref()
    }

    /// Whether a thread is in the system trace only: it has no recording.
    pub fn is_outside(&self, thread: ThreadId) -> bool {
        thread.0 as usize >= self.recorded.1
    }

    /// Whether a process is in the system trace only, in part or as a whole: [`Session::trace`] of it has no recordings.
    pub fn is_outside_process(&self, trace: usize) -> bool {
        trace >= self.recorded.0
    }

    fn add(&mut self, name: PathBuf, trace: Trace, apart: Option<Disagreement>) {
        let process = self.opened.len() as u32;
        let first_thread = self.threads.len() as u32;
        let mut names = Names::default();
        for (_, method) in trace.methods.iter() {
            names.classes.push(self.strings.intern(&method.class));
            let full = match method.is_named() {
                true => self.strings.intern(&method.full_name()),
                false => StringId::NONE,
            };
            names.methods.push(full);
        }
        for text in &trace.strings.strings {
            names.marks.push(self.strings.intern(text));
        }
        let main_key = trace.main_thread().map(|t| t.key);
        let (mut main, mut by_ring) = (None, HashMap::new());
        for (place, thread) in trace.threads.iter().enumerate() {
            let id = ThreadId(self.threads.len() as u32);
            if main_key == Some(thread.key) {
                main = Some(id);
            }
            // In the order of the file, the first one counts.
            by_ring.entry(thread.key.ring).or_insert(id);
            self.threads.push(SessionThread {
                key: ThreadKey {
                    process,
                    ring: thread.key.ring,
                },
                place: place as u32,
                tid: thread.tid,
                name: self.strings.intern(&thread.name),
            });
        }
        self.opened.push(Opened {
            name,
            trace,
            names,
            first_thread,
            apart,
            main,
            by_ring,
        });
    }

    /// The traces, in the order in which they were opened; without processes that are in the system trace only.
    pub fn traces(&self) -> impl ExactSizeIterator<Item = &Trace> {
        self.opened[..self.recorded.0].iter().map(|o| &o.trace)
    }

    /// A trace.
    ///
    /// # Panics
    /// If there is no trace with this index.
    pub fn trace(&self, index: usize) -> &Trace {
        &self.opened[index].trace
    }

    /// The name of a trace's file.
    ///
    /// # Panics
    /// If there is no trace with this index.
    pub fn file(&self, trace: usize) -> &Path {
        &self.opened[trace].name
    }

    /// Why a trace is not joined with the others; `None` if it is.
    ///
    /// # Panics
    /// If there is no trace with this index.
    pub fn apart(&self, trace: usize) -> Option<&Disagreement> {
        self.opened[trace].apart.as_ref()
    }

    /// All threads of all traces: of one trace after the other, in the order of the file; without threads that are in the
    /// system trace only.
    pub fn threads(&self) -> &[SessionThread] {
        &self.threads[..self.recorded.1]
    }

    /// The numbers of all threads, without those that are in the system trace only.
    pub fn thread_ids(&self) -> impl ExactSizeIterator<Item = ThreadId> {
        (0..self.recorded.1 as u32).map(ThreadId)
    }

    /// The numbers of a trace's threads.
    ///
    /// # Panics
    /// If there is no trace with this index.
    pub fn threads_of(&self, trace: usize) -> impl ExactSizeIterator<Item = ThreadId> {
        let opened = &self.opened[trace];
        let end = opened.first_thread + opened.trace.threads.len() as u32;
        (opened.first_thread..end).map(ThreadId)
    }

    /// What is known of a thread.
    ///
    /// # Panics
    /// If it is not a thread of this session.
    pub fn about(&self, thread: ThreadId) -> &SessionThread {
        &self.threads[thread.0 as usize]
    }

    /// The recording of a thread.
    ///
    /// # Panics
    /// If it is not a thread of this session.
    pub fn thread(&self, thread: ThreadId) -> &Thread {
        let about = self.about(thread);
        &self.opened[about.trace()].trace.threads[about.place as usize]
    }

    /// The trace of a thread.
    ///
    /// # Panics
    /// If it is not a thread of this session.
    pub fn trace_of(&self, thread: ThreadId) -> &Trace {
        self.trace(self.about(thread).trace())
    }

    /// The thread with this key: the index of its trace, and of its ring.
    pub fn thread_with_key(&self, key: ThreadKey) -> Option<ThreadId> {
        let opened = self.opened.get(key.process as usize)?;
        // Nearly always the rings are numbered in the order of the threads.
        let likely = opened.first_thread.saturating_add(key.ring);
        match self.threads.get(likely as usize) {
            Some(thread) if thread.key == key => Some(ThreadId(likely)),
            _ => opened.by_ring.get(&key.ring).copied(),
        }
    }

    /// The recording that thread id `tid` of a trace made at `at_ns`; see [`Trace::thread_at`].
    pub fn thread_at(&self, trace: usize, tid: u32, at_ns: u64) -> Option<ThreadId> {
        let opened = self.opened.get(trace)?;
        let thread = opened.trace.thread_at(tid, at_ns)?;
        opened.by_ring.get(&thread.key.ring).copied()
    }

    /// The main thread of a trace's process; see [`Trace::main_thread`].
    pub fn main_thread(&self, trace: usize) -> Option<ThreadId> {
        self.opened.get(trace)?.main
    }

    /// An event; `None` if the thread has no event with this index.
    pub fn event(&self, event: EventId) -> Option<&ThreadEvent> {
        let thread = self.threads.get(event.thread.0 as usize)?;
        let trace = &self.opened[thread.trace()].trace;
        trace.threads[thread.place as usize]
            .events
            .get(event.event as usize)
    }

    /// A string; empty if there is none with this number.
    pub fn string(&self, id: StringId) -> &str {
        self.strings.get(id)
    }

    /// The number of a string that some trace has.
    pub fn find_string(&self, text: &str) -> Option<StringId> {
        self.strings.find(text)
    }

    /// `class.name` of a method of a trace; [`StringId::NONE`] if it has no name.
    pub fn method(&self, trace: usize, method: MethodId) -> StringId {
        let names = self.opened.get(trace).map(|o| &o.names.methods[..]);
        let name = names.and_then(|n| n.get(method.0 as usize));
        name.copied().unwrap_or_default()
    }

    /// The class of a method of a trace; [`StringId::NONE`] if it is not known.
    pub fn class(&self, trace: usize, method: MethodId) -> StringId {
        let names = self.opened.get(trace).map(|o| &o.names.classes[..]);
        let name = names.and_then(|n| n.get(method.0 as usize));
        name.copied().unwrap_or_default()
    }

    /// The string of a trace with this number, such as the name of a mark or of a rule; [`StringId::NONE`] if it has none.
    pub fn mark(&self, trace: usize, number: u64) -> StringId {
        let names = self.opened.get(trace).map(|o| &o.names.marks[..]);
        let index = number.checked_sub(1).and_then(|n| usize::try_from(n).ok());
        let name = names.zip(index).and_then(|(n, i)| n.get(i));
        name.copied().unwrap_or_default()
    }

    /// The text of a thread's name.
    pub fn thread_name(&self, thread: ThreadId) -> &str {
        self.string(self.about(thread).name)
    }

    /// The readings of a thread's CPU time and other counters. They are collected at the first call.
    pub fn resources(&self, thread: ThreadId) -> &Resources {
        self.resources[thread.0 as usize].get_or_init(|| Resources::of(self.thread(thread)))
    }

    /// Number of events of all threads.
    pub fn event_count(&self) -> usize {
        let threads = self.traces().flat_map(|t| &t.threads);
        threads.map(|t| t.events.len()).sum()
    }
}
