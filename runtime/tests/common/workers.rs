// SPDX-License-Identifier: Apache-2.0
//! A process with a service, and threads of it that do what they are told. Tests look at memory and descriptors of the whole
//! process, so those of one file run one after the other.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{channel, Receiver, Sender};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread::Scope;
use std::time::{Duration, Instant};

use hindsight_runtime::stacks::Spacing;
use hindsight_runtime::Recorder;
use hindsight_trace_format::catalogue::{Category, Extension};
use hindsight_trace_format::shared::EndedRing;
use hindsight_trace_format::slot::payload_slots;

use super::{gettid, parse, FakeHost, Managed, World};

/// After this time a test has failed.
pub(crate) const PATIENCE: Duration = Duration::from_secs(300);
/// Words that `Wakes` has beside its own.
const WORDS: usize = payload_slots(Extension::Wakes.number());
/// The first method that threads call.
pub(crate) const METHOD: u64 = 0x1000_0000;

static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

/// A process with a folder of its own.
pub(crate) struct Process {
    pub(crate) folder: tempfile::TempDir,
    pub(crate) recorder: Recorder,
    pub(crate) world: Arc<World>,
    /// When the recorder began to start.
    pub(crate) started: Instant,
    _alone: MutexGuard<'static, ()>,
}

impl Process {
    /// Starts it; `before` is called before that, with the path of the service's socket. `DIR` in the options is its folder.
    pub(crate) fn start<T>(options: &str, before: impl FnOnce(&Path) -> T) -> (Self, T) {
        Self::start_in(World::default(), options, before)
    }

    pub(crate) fn start_in<T>(
        world: World,
        options: &str,
        before: impl FnOnce(&Path) -> T,
    ) -> (Self, T) {
        let alone = ONE_AT_A_TIME.lock().unwrap_or_else(|e| e.into_inner());
        let folder = tempfile::tempdir().unwrap();
        let result = before(&folder.path().join("service"));
        let world = Arc::new(world);
        let text = format!("dir=DIR,service=DIR/service,{options}");
        let text = text.replace("DIR", &folder.path().display().to_string());
        let host = Box::new(FakeHost(Arc::clone(&world)));
        let started = Instant::now();
        let recorder = Recorder::start(parse(&text).unwrap(), host).unwrap();
        let process = Process {
            folder,
            recorder,
            world,
            started,
            _alone: alone,
        };
        (process, result)
    }

    pub(crate) fn socket(&self) -> PathBuf {
        self.folder.path().join("service")
    }

    /// Waits until the control thread has executed all commands so far.
    pub(crate) fn settle(&self) {
        // There is no such thread.
        let answer = self.recorder.trace_thread(u32::MAX, false, PATIENCE);
        assert!(answer.unwrap_err().starts_with("no thread"), "it answers");
    }

    /// Sends a command to the control socket `control`; returns the answer.
    pub(crate) fn command(&self, line: &str) -> String {
        let mut socket = UnixStream::connect(self.folder.path().join("control")).unwrap();
        writeln!(socket, "{line}").unwrap();
        let mut answer = String::new();
        BufReader::new(socket).read_line(&mut answer).unwrap();
        answer
    }
}

/// A task for a worker.
pub(crate) enum Task {
    /// Record a call, and an event with the next number in it, so many times.
    Record(u64),
    /// Record the entry of a call, with this method, that does not end.
    Enter(u64),
    /// Take a stack of two methods.
    Stack,
    /// Say whether the thread is traced, and which events it records.
    Look,
}

/// A managed thread that executes tasks, and is in native code in between. It ends when this is dropped.
pub(crate) struct Worker {
    pub(crate) tid: u32,
    tasks: Sender<Task>,
    answers: Receiver<(bool, u32)>,
}

impl Worker {
    pub(crate) fn start<'s>(scope: &'s Scope<'s, '_>, process: &'s Process) -> Self {
        let (tasks, to_do) = channel();
        let (answer, answers) = channel();
        let (tid, is) = channel();
        scope.spawn(move || {
            let mut number = 0;
            Managed::run(&process.recorder, &process.world, |thread| {
                tid.send(gettid()).unwrap();
                while let Ok(task) = thread.native(|| to_do.recv()) {
                    match task {
                        Task::Record(times) => {
                            for _ in 0..times {
                                number += 1;
                                record(thread, number);
                            }
                        }
                        Task::Enter(method) => {
                            thread.enter(method);
                        }
                        Task::Stack => take_stack(thread),
                        Task::Look => {}
                    }
                    answer.send((thread.is_traced(), thread.events())).unwrap();
                }
            });
        });
        Worker {
            tid: is.recv().unwrap(),
            tasks,
            answers,
        }
    }

    pub(crate) fn ask(&self, task: Task) -> (bool, u32) {
        self.tasks.send(task).unwrap();
        self.answers.recv().unwrap()
    }

    pub(crate) fn record(&self, times: u64) {
        self.ask(Task::Record(times));
    }

    pub(crate) fn is_traced(&self) -> bool {
        self.ask(Task::Look).0
    }
}

/// Records a call, and an event with this number in it.
pub(crate) fn record(thread: &mut Managed<'_>, number: u64) {
    thread.enter(METHOD + 8 * (number % 100));
    // SAFETY: this is the thread.
    unsafe {
        thread
            .state()
            .record_event(Extension::Wakes.number(), &[number; WORDS])
    };
    thread.exit();
}

/// Records a stack with the first two methods.
pub(crate) fn take_stack(thread: &Managed<'_>) {
    /// An index in `STACK_REASONS`.
    const ALLOCATION: u8 = 2;
    // SAFETY: this is the thread, and there is memory for more frames.
    unsafe {
        let frames = thread.state().begin_stack(Spacing::None);
        assert!(!frames.is_null());
        (*frames).method = METHOD + 8;
        (*frames.add(1)).method = METHOD;
        thread.state().end_stack(ALLOCATION, 2, false);
    }
}

/// The numbers of the events in these rings, oldest first.
pub(crate) fn numbers<'a>(rings: impl IntoIterator<Item = &'a EndedRing>) -> Vec<u64> {
    let mut rings: Vec<&EndedRing> = rings.into_iter().collect();
    rings.sort_by_key(|ring| ring.header.part);
    let of = |ring: &EndedRing| {
        let mut numbers: Vec<u64> = (ring.slots().events())
            .filter(|event| event.slot.low() == Extension::Wakes.number())
            .map(|event| event.payload(0).unwrap())
            .collect();
        numbers.reverse();
        numbers
    };
    rings.into_iter().flat_map(of).collect()
}

pub(crate) fn waits() -> u32 {
    Category::Waits.bit()
}
