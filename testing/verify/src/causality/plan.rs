// SPDX-License-Identifier: Apache-2.0
//! What a random program does: steps on threads, who hands them over, who waits for whom, and what makes the main thread stall.
//! All causes and effects follow from it (`truth.rs`), and the Java program is written from it (`java.rs`).

/// Index of a step in [`Plan::steps`].
pub(super) type StepId = usize;
/// Index of a lane in [`Plan::lanes`].
pub(super) type LaneId = usize;

/// The thread that begins everything, and waits for nothing but the time.
pub(super) const USER: &str = "user";

/// A kind of thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LaneKind {
    /// The main thread, with a looper.
    Main,
    /// A `HandlerThread`.
    Looper,
    /// A `ThreadPoolExecutor` of one thread.
    Pool,
    /// A `ScheduledThreadPoolExecutor` of one thread.
    Scheduled,
    /// A `java.util.Timer`.
    Timer,
    /// A thread that takes steps out of a `BlockingQueue`. That it runs a step is not recorded.
    Consumer,
    /// A thread that takes steps out of a queue and says so, by `dev.hindsight.Events`.
    Marked,
    /// A thread of another process that serves transactions.
    Service,
    /// A thread that is started for one step.
    Own,
}

/// A thread that does steps one after the other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Lane {
    pub(super) kind: LaneKind,
    /// The thread's name.
    pub(super) name: String,
}

/// How a step gets to its thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    /// `Handler.post`.
    Post,
    /// `Handler.sendMessage`, to a handler of the step's class.
    Send,
    /// `Handler.postDelayed`.
    PostDelayed,
    /// `Executor.execute`.
    Execute,
    /// `ExecutorService.submit` of a `Runnable`.
    Submit,
    /// `ExecutorService.submit` of a `Callable`.
    Call,
    /// `CompletableFuture.runAsync`.
    RunAsync,
    /// `ScheduledExecutorService.schedule`.
    Schedule,
    /// `Timer.schedule`.
    Arm,
    /// `BlockingQueue.put`.
    Put,
    /// The program's own queue, with `Events.post`.
    Mark,
    /// A transaction to another process.
    Transact,
    /// `Thread.start`.
    Start,
}

impl Way {
    /// Whether the step begins after a delay.
    pub(super) fn is_delayed(self) -> bool {
        matches!(self, Way::PostDelayed | Way::Schedule | Way::Arm)
    }

    /// Whether there is a `Future` of the step.
    pub(super) fn has_future(self) -> bool {
        matches!(
            self,
            Way::Submit | Way::Call | Way::RunAsync | Way::Schedule
        )
    }
}

/// How another step waits for a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Awaiting {
    /// `CountDownLatch.await`.
    Latch,
    /// `Object.wait`.
    Object,
    /// `LockSupport.park`.
    Park,
    /// `BlockingQueue.take`, of an element that the step puts into the queue.
    Reply,
    /// `Future.get`.
    Future,
    /// `Thread.join`.
    Join,
    /// A monitor that the step has from its beginning to its end.
    Monitor,
    /// The same, for a `ReentrantLock`.
    Lock,
    /// The reply to a transaction.
    Transaction,
}

impl Awaiting {
    /// Whether the step has what the other one waits for.
    pub(super) fn is_lock(self) -> bool {
        matches!(self, Awaiting::Monitor | Awaiting::Lock)
    }
}

/// What a stall ends in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Terminal {
    /// It computes.
    Busy,
    /// `Thread.sleep`.
    Sleep,
    /// A wait with a timeout that nobody ends before.
    Timeout,
    /// It tests a field in a loop, with `Thread.yield` in between, that another thread sets.
    Yield,
    /// It arms a timer, and waits for the step that the timer runs.
    Timer,
    /// It waits, with a timeout, for a thread that waits for a lock that it has itself.
    Circle,
    /// It gives a thread work and waits for it, with a timeout. In the last round the thread computes for longer.
    Late,
}

/// What a step does, one after the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Action {
    /// Computes for this long, µs.
    Work(u64),
    /// Waits for this long, ms, for something that nobody does.
    Nap(u64),
    /// Hands a step over.
    Hand(StepId),
    /// Goes on when the step has begun, and has its lock.
    Begun(StepId),
    /// Waits for a step.
    Await(StepId),
    /// Goes on when some thread waits for the other step.
    Awaited(StepId),
    /// The cause of the stall, in the last round. It is short in the others.
    Terminal(Terminal),
    /// What the stall's partner does.
    Partner(Terminal),
}

/// A piece of work of one thread.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Step {
    pub(super) lane: LaneId,
    pub(super) way: Way,
    /// How another step waits for it, if one does.
    pub(super) awaiting: Option<Awaiting>,
    /// Whether that wait has a timeout, which is long.
    pub(super) has_timeout: bool,
    pub(super) actions: Vec<Action>,
}

/// What the user does in a round: hands steps over, then waits until all steps are done.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Act {
    /// The steps that the user hands over.
    pub(super) hands: Vec<StepId>,
    /// All steps that are then done.
    pub(super) steps: Vec<StepId>,
}

/// The stall of the main thread, in the last round.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Stall {
    /// The steps from the one that stalls, on the main thread, to the one that is the cause. Each waits for the next.
    pub(super) chain: Vec<StepId>,
    pub(super) terminal: Terminal,
    /// The step that the timer runs, that waits for the lock of the circle, that is late, or that sets the field of the loop.
    pub(super) partner: Option<StepId>,
    /// Its length, ms.
    pub(super) ms: u64,
}

/// A random program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Plan {
    /// Its Java package.
    pub(super) package: String,
    pub(super) lanes: Vec<Lane>,
    pub(super) steps: Vec<Step>,
    /// What happens in each round.
    pub(super) acts: Vec<Act>,
    pub(super) rounds: u64,
    pub(super) stall: Stall,
    /// Whether threads of one step stay until the program ends: the calls of few threads that have ended are kept.
    pub(super) has_staying_threads: bool,
}

impl Plan {
    /// The lane of a step.
    pub(super) fn lane(&self, step: StepId) -> &Lane {
        &self.lanes[self.steps[step].lane]
    }

    /// The name of a step's class, with its package.
    pub(super) fn class(&self, step: StepId) -> String {
        format!("{}.Step{step}", self.package)
    }

    /// The step with a class of this name, or, of an inner class, around it.
    pub(super) fn step_of_class(&self, class: &str) -> Option<StepId> {
        let name = class.strip_prefix(self.package.as_str())?;
        let number = name.strip_prefix(".Step")?.split('$').next()?;
        number.parse().ok().filter(|&step| step < self.steps.len())
    }

    /// Whether a step is done in another process.
    pub(super) fn is_served(&self, step: StepId) -> bool {
        self.lane(step).kind == LaneKind::Service
    }
}
