// SPDX-License-Identifier: Apache-2.0
//! The catalogue of events: for each [`Extension`] its number, its category, what it is for, and its fields.
//!
//! This table is the only place where an event is defined. `cargo xtask catalogue` writes the numbers for C++ and the
//! documentation's tables, and a test compares them with the table. The decoder, `hindsight events`, all exports and the
//! fuzzer's corpus read the table itself.
//!
//! The numbers are part of the format; once published, a number is never used for another event. A decoder skips
//! the ones it does not know, by [`payload_slots`](crate::slot::payload_slots): `number & 7` is the number of payload
//! slots before an event's own slot.

/// A group of events that is switched on and off together. As a bit: `1 << category as u32`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u32)]
pub enum Category {
    /// What readers need to understand the ring itself. Always on.
    Recording = 0,
    /// Waits, who ends them, and locks that others wait for.
    Waits = 1,
    /// Tasks of executors and threads: submitted, begun, ended.
    Tasks = 2,
    /// Messages of loopers.
    Messages = 3,
    /// Frames: vsync, callbacks, traversals.
    Frames = 4,
    /// Input events of the user.
    Input = 5,
    /// Transactions with other processes.
    Binder = 6,
    /// Work that the managed runtime does on the app's threads.
    Runtime = 7,
    /// CPU time, allocations, page faults and context switches.
    Resources = 8,
    /// Stacks.
    Stacks = 9,
    /// Events of the program itself, by `dev.hindsight.Events`.
    Marks = 10,
    /// The lifecycle of activities.
    Lifecycle = 11,
    /// Calls of methods, and accesses to fields, that a rules file names.
    Rules = 12,
}

impl Category {
    /// All categories, in the order of their bits.
    pub const ALL: [Category; 13] = [
        Category::Recording,
        Category::Waits,
        Category::Tasks,
        Category::Messages,
        Category::Frames,
        Category::Input,
        Category::Binder,
        Category::Runtime,
        Category::Resources,
        Category::Stacks,
        Category::Marks,
        Category::Lifecycle,
        Category::Rules,
    ];

    /// The category's name in configurations and in commands.
    pub const fn name(self) -> &'static str {
        match self {
            Category::Recording => "recording",
            Category::Waits => "waits",
            Category::Tasks => "tasks",
            Category::Messages => "messages",
            Category::Frames => "frames",
            Category::Input => "input",
            Category::Binder => "binder",
            Category::Runtime => "runtime",
            Category::Resources => "resources",
            Category::Stacks => "stacks",
            Category::Marks => "marks",
            Category::Lifecycle => "lifecycle",
            Category::Rules => "rules",
        }
    }

    /// The category's bit in a mask of categories.
    pub const fn bit(self) -> u32 {
        1 << self as u32
    }

    /// The category with this name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|c| c.name() == name)
    }
}

/// What an event is for, in a graph of events (Argus, USENIX ATC 2021, table 1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Purpose {
    /// It says what a thread did.
    Semantics,
    /// It begins or ends a piece of work.
    Boundary,
    /// It connects work of two threads or processes.
    Connection,
}

impl Purpose {
    /// The purpose, as the documentation names it.
    pub const fn name(self) -> &'static str {
        match self {
            Purpose::Semantics => "semantics",
            Purpose::Boundary => "boundary",
            Purpose::Connection => "connection",
        }
    }
}

/// Who writes an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Writer {
    /// The runtime, on the device.
    Runtime,
    /// `hindsight convert`.
    Convert,
}

impl Writer {
    /// The writer, as the documentation names it.
    pub const fn name(self) -> &'static str {
        match self {
            Writer::Runtime => "runtime",
            Writer::Convert => "convert",
        }
    }
}

/// The meaning of a field's number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FieldKind {
    /// A plain number.
    Number,
    /// Kernel id of a thread; 0: unknown.
    Tid,
    /// Identifies an object, message or task for as long as it is pending or locked; 0: unknown.
    Identity,
    /// A length of time, ns; 0 for none.
    Nanoseconds,
    /// A length of time, ms; 0 for none.
    Milliseconds,
    /// A point in time, CLOCK_MONOTONIC, ns.
    MonotonicNs,
    /// A number of bytes.
    Bytes,
    /// How often something happened since the thread started.
    Count,
    /// Address of an `ArtMethod`; 0: unknown.
    Method,
    /// A class, by the address of one of its methods; 0: unknown.
    Class,
    /// Number of a string in the file's string table; 0: none.
    String,
    /// One of these, by its index.
    Choice(&'static [&'static str]),
    /// A truth value.
    Flag,
    /// Index of an instruction in a method's dex code, in units of 16 bits; [`NO_DEX_PC`]: unknown.
    DexPc,
    /// The bits of a value of the program, of the type that the event's field `type` names ([`VALUE_TYPES`]).
    Value,
}

/// The number of a [`FieldKind::DexPc`] that is not known.
pub const NO_DEX_PC: u64 = 0xffff_ffff;

/// A field of an event: some bits of a payload slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Field {
    /// Its name, for people and as a key.
    pub name: &'static str,
    /// The payload slot, 0 being the first.
    pub word: u8,
    /// The lowest bit.
    pub shift: u8,
    /// The number of bits.
    pub bits: u8,
    /// The meaning of the number.
    pub kind: FieldKind,
}

impl Field {
    /// A whole payload slot.
    const fn whole(name: &'static str, word: u8, kind: FieldKind) -> Self {
        Self::part(name, word, 0, 64, kind)
    }

    /// Some bits of a payload slot.
    const fn part(name: &'static str, word: u8, shift: u8, bits: u8, kind: FieldKind) -> Self {
        Field {
            name,
            word,
            shift,
            bits,
            kind,
        }
    }

    /// The field's number in an event's payload; 0 if the payload has no such slot.
    pub fn get(&self, payload: &[u64]) -> u64 {
        let word = payload.get(usize::from(self.word)).copied().unwrap_or(0);
        let shifted = word >> (self.shift & 63);
        if self.bits >= 64 {
            shifted
        } else {
            shifted & ((1 << self.bits) - 1)
        }
    }

    /// Stores a number in the payload; of a number that needs more bits than the field has, the lowest are kept.
    /// Does nothing if the payload has no such slot.
    pub fn set(&self, payload: &mut [u64], number: u64) {
        let Some(word) = payload.get_mut(usize::from(self.word)) else {
            return;
        };
        let mask = if self.bits >= 64 {
            u64::MAX
        } else {
            (1 << self.bits) - 1
        };
        *word = (*word & !(mask << self.shift)) | ((number & mask) << self.shift);
    }
}

/// The kinds of waits, of `WaitBegin` and `WaitEnd`.
pub const WAIT_KINDS: &[&str] = &["lock", "object", "sleep", "park", "gc", "poll"];
/// How a wait ended.
pub const WAIT_RESULTS: &[&str] = &["signalled", "timed out", "interrupted"];
/// The kinds of tasks. `queue item` is in the identities of queues' elements; no task has it.
pub const TASK_KINDS: &[&str] = &[
    "executor",
    "thread",
    "fork-join",
    "timer",
    "queue item",
    "async task",
];
/// Types of the callbacks of a frame, as in `android.view.Choreographer`.
pub const FRAME_CALLBACKS: &[&str] = &[
    "input",
    "animation",
    "insets animation",
    "traversal",
    "commit",
];
/// Steps in the lifecycle of an activity.
pub const LIFECYCLE_STEPS: &[&str] = &["create", "start", "resume", "pause", "stop", "destroy"];
/// Types of [`FieldKind::Value`]. Integers are extended with their sign to 64 bits (`char` with zeros), a float has its 32
/// bits; of an object there is its identity, 0 for null.
pub const VALUE_TYPES: &[&str] = &[
    "not recorded",
    "boolean",
    "byte",
    "char",
    "short",
    "int",
    "long",
    "float",
    "double",
    "object",
];

macro_rules! catalogue {
    ($(
        $(#[doc = $doc:literal])+
        $name:ident = $number:literal, $text:literal, $category:ident, $purpose:ident, $writer:ident
            $(, $field:ident($($argument:tt)*))* ;
    )+) => {
        /// Extension events: all but method entries and exits. [`Spec`] has their fields.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[repr(u32)]
        #[non_exhaustive]
        pub enum Extension {
            $($(#[doc = $doc])+ $name = $number,)+
        }

        /// Every event that this version knows, in the order of their numbers.
        pub const CATALOGUE: &[Spec] = &[
            $(Spec {
                extension: Extension::$name,
                identifier: stringify!($name),
                name: $text,
                category: Category::$category,
                purpose: Purpose::$purpose,
                writer: Writer::$writer,
                fields: &[$(Field::$field($($argument)*)),*],
                description: concat!($($doc, "\n"),+),
            },)+
        ];
    };
}

/// An event's entry in the catalogue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Spec {
    /// The event.
    pub extension: Extension,
    /// The name of its constant, `WaitBegin`.
    pub identifier: &'static str,
    /// Its name for people, `waits`.
    pub name: &'static str,
    /// The group that it is switched on with.
    pub category: Category,
    /// What it is for.
    pub purpose: Purpose,
    /// Who writes it.
    pub writer: Writer,
    /// Its fields, in the order in which they are shown.
    pub fields: &'static [Field],
    /// What it means.
    pub description: &'static str,
}

impl Spec {
    /// The event with this number, or `None` if it is a newer writer's.
    pub fn from_number(number: u32) -> Option<&'static Spec> {
        let at = CATALOGUE.binary_search_by_key(&number, |s| s.extension.number());
        at.ok().map(|i| &CATALOGUE[i])
    }

    /// The field with this name.
    pub fn field(&self, name: &str) -> Option<&'static Field> {
        self.fields.iter().find(|f| f.name == name)
    }
}

use FieldKind::{
    Bytes, Choice, Class, Count, DexPc, Flag, Identity, Method, Milliseconds, MonotonicNs,
    Nanoseconds, Number, String, Tid, Value,
};

catalogue! {
    /// Tracing of this thread stopped.
    Stopped = 0x008, "tracing stopped", Recording, Semantics, Runtime;
    /// An exception left this number of traced frames, the innermost ones.
    Unwound = 0x011, "frames left by an exception", Recording, Semantics, Runtime,
        whole("frames", 0, Number);
    /// Tracing of this thread started.
    Started = 0x019, "tracing started", Recording, Semantics, Runtime,
        whole("reason", 0, Choice(&["configuration", "request"]));
    /// A native call was entered; only in converted traces.
    NativeEntered = 0x021, "native call entered", Recording, Semantics, Convert,
        whole("method", 0, Method);
    /// The innermost native call returned; only in converted traces.
    NativeLeft = 0x028, "native call left", Recording, Semantics, Convert;
    /// A message was put into a looper's queue. The delay is 0 if it is to be dispatched at once; a message with a delay
    /// is a timer.
    MessageEnqueued = 0x03a, "message enqueued", Messages, Connection, Runtime,
        whole("message", 0, Identity),
        part("for thread", 1, 0, 32, Tid),
        part("delay", 1, 32, 32, Milliseconds);
    /// A looper begins to dispatch a message. The class is the class of its callback; if it has no
    /// callback, the class of its handler.
    MessageDispatched = 0x043, "message dispatched", Messages, Boundary, Runtime,
        whole("message", 0, Identity),
        whole("class", 1, Class),
        part("what", 2, 0, 32, Number);
    /// The thread waits for a lock that another thread holds.
    LockWait = 0x04a, "waits for a lock", Waits, Connection, Runtime,
        whole("held by", 0, Tid),
        whole("lock", 1, Identity);
    /// The wait that ends now was ended by this thread.
    WokenBy = 0x051, "woken", Waits, Connection, Runtime,
        whole("by", 0, Tid);
    /// CPU time of the thread so far.
    ThreadCpuTime = 0x059, "CPU time", Resources, Semantics, Runtime,
        whole("CPU time", 0, Nanoseconds);
    /// Objects and bytes that the thread has allocated so far in its allocation buffers. Large objects are not counted.
    Allocations = 0x062, "allocations", Resources, Semantics, Runtime,
        whole("objects", 0, Count),
        whole("bytes", 1, Bytes);
    /// Page faults and context switches of the thread so far.
    ResourceUse = 0x06c, "resource use", Resources, Semantics, Runtime,
        whole("minor faults", 0, Count),
        whole("major faults", 1, Count),
        whole("voluntary switches", 2, Count),
        whole("involuntary switches", 3, Count);
    /// A mark that the program set.
    UserMark = 0x071, "mark", Marks, Semantics, Runtime,
        whole("name", 0, String);
    /// In a part of a trace, or a ring that follows another one: a method that was entered before it begins was running at this
    /// time. It becomes the innermost call. Flags: 1, it is the native part of the method.
    EnteredBefore = 0x07a, "entered before", Recording, Semantics, Convert,
        whole("method", 0, Method),
        whole("flags", 1, Number);
    /// In a part of a trace: the innermost call was running at this time, and its end is not known.
    LeftAfter = 0x080, "left after", Recording, Semantics, Convert;
    /// In a part of a trace: the part begins at this time. Present if no other event is as old. In a ring that follows another one:
    /// first the time from which on it has all events, while older ones began what was under way; then the time at which the thread
    /// got the ring.
    PartBegins = 0x088, "part begins", Recording, Semantics, Convert;
    /// The thread begins to wait. `number` counts the thread's waits; the thread that ends the wait names it. The object
    /// is the monitor's (`lock`, `object`), or the blocker that `park` was given.
    WaitBegin = 0x093, "wait begins", Waits, Boundary, Runtime,
        part("kind", 0, 0, 8, Choice(WAIT_KINDS)),
        part("number", 0, 32, 32, Number),
        whole("object", 1, Identity),
        whole("timeout", 2, Nanoseconds);
    /// The wait with this number ends.
    WaitEnd = 0x099, "wait ends", Waits, Boundary, Runtime,
        part("kind", 0, 0, 8, Choice(WAIT_KINDS)),
        part("result", 0, 8, 8, Choice(WAIT_RESULTS)),
        part("number", 0, 32, 32, Number);
    /// This thread ends a wait of another one. `wait` is the wait's number; 0 if it is not known which.
    Wakes = 0x0a1, "wakes", Waits, Connection, Runtime,
        part("thread", 0, 0, 32, Tid),
        part("wait", 0, 32, 32, Number);
    /// This thread releases a monitor. `waiters` is the number of threads that wait for the lock, or in `Object.wait` for a
    /// notification.
    Released = 0x0aa, "releases a lock", Waits, Connection, Runtime,
        whole("lock", 0, Identity),
        whole("waiters", 1, Number);
    /// A task is handed to another thread, to run after the delay. The class is the task's. No task has the kind `queue
    /// item`.
    TaskSubmitted = 0x0b3, "task submitted", Tasks, Connection, Runtime,
        whole("task", 0, Identity),
        whole("class", 1, Class),
        part("kind", 2, 0, 8, Choice(TASK_KINDS)),
        part("delay", 2, 32, 32, Milliseconds);
    /// The thread begins to run a task.
    TaskBegin = 0x0bb, "task begins", Tasks, Boundary, Runtime,
        whole("task", 0, Identity),
        whole("class", 1, Class),
        part("kind", 2, 0, 8, Choice(TASK_KINDS));
    /// The innermost running task, this one, ends.
    TaskEnd = 0x0c2, "task ends", Tasks, Boundary, Runtime,
        whole("task", 0, Identity),
        part("kind", 1, 0, 8, Choice(TASK_KINDS));
    /// A task, message or queue's element was taken out of its queue without being run, or was refused.
    Cancelled = 0x0c9, "cancelled", Tasks, Connection, Runtime,
        whole("task", 0, Identity);
    /// A looper has dispatched the message.
    MessageDone = 0x0d1, "message done", Messages, Boundary, Runtime,
        whole("message", 0, Identity);
    /// A message was taken out of its queue without being dispatched.
    MessageRemoved = 0x0d9, "message removed", Messages, Connection, Runtime,
        whole("message", 0, Identity);
    /// A frame begins: its callbacks run next.
    FrameBegin = 0x0e1, "frame begins", Frames, Boundary, Runtime,
        whole("vsync", 0, MonotonicNs);
    /// The frame's callbacks have run.
    FrameEnd = 0x0e9, "frame ends", Frames, Boundary, Runtime,
        whole("vsync", 0, MonotonicNs);
    /// The callbacks of one type of a frame begin.
    FrameCallbacks = 0x0f1, "frame callbacks", Frames, Boundary, Runtime,
        whole("type", 0, Choice(FRAME_CALLBACKS));
    /// Something on the screen changed: a traversal will lay out and draw the window.
    TraversalScheduled = 0x0f9, "traversal scheduled", Frames, Connection, Runtime,
        whole("window", 0, Identity);
    /// A window is laid out and drawn.
    TraversalBegin = 0x101, "traversal begins", Frames, Boundary, Runtime,
        whole("window", 0, Identity);
    /// The window was laid out and drawn.
    TraversalEnd = 0x109, "traversal ends", Frames, Boundary, Runtime,
        whole("window", 0, Identity);
    /// An input event is delivered to a window. `at` is the time of the touch or key.
    InputBegin = 0x113, "input delivered", Input, Boundary, Runtime,
        part("sequence", 0, 0, 32, Number),
        part("action", 0, 32, 16, Number),
        part("type", 0, 48, 8, Choice(&["unknown", "key", "motion"])),
        whole("at", 1, MonotonicNs),
        whole("class", 2, Class);
    /// The input event was finished.
    InputEnd = 0x119, "input finished", Input, Boundary, Runtime,
        part("sequence", 0, 0, 32, Number),
        part("handled", 0, 32, 1, Flag);
    /// A transaction is sent to another process. Unless it is one-way, the thread waits for the reply.
    BinderSend = 0x122, "transaction sent", Binder, Connection, Runtime,
        whole("transaction", 0, Identity),
        part("code", 1, 0, 32, Number),
        part("one-way", 1, 32, 1, Flag);
    /// The transaction has returned to its sender.
    BinderReply = 0x129, "transaction returned", Binder, Connection, Runtime,
        whole("transaction", 0, Identity);
    /// This thread begins to serve a transaction. Its identity is 0 on a phone, where binder does not pass it on.
    BinderServe = 0x133, "transaction served", Binder, Boundary, Runtime,
        whole("transaction", 0, Identity),
        part("code", 1, 0, 32, Number),
        part("one-way", 1, 32, 1, Flag),
        part("from process", 2, 0, 32, Number),
        part("from user", 2, 32, 32, Number);
    /// The transaction was served.
    BinderServed = 0x139, "transaction done", Binder, Boundary, Runtime,
        whole("transaction", 0, Identity);
    /// The managed runtime runs a request on this thread, for instance for a garbage collection.
    CheckpointBegin = 0x140, "checkpoint begins", Runtime, Boundary, Runtime;
    /// The request is done.
    CheckpointEnd = 0x148, "checkpoint ends", Runtime, Boundary, Runtime;
    /// An exception that nothing caught ends this thread.
    Uncaught = 0x151, "uncaught exception", Runtime, Semantics, Runtime,
        whole("class", 0, Class);
    /// The program begins a piece of work of its own. `id` connects it with a `work posted`.
    UserBegin = 0x15a, "work begins", Marks, Boundary, Runtime,
        whole("name", 0, String),
        whole("id", 1, Identity);
    /// The program ends the piece of work.
    UserEnd = 0x162, "work ends", Marks, Boundary, Runtime,
        whole("name", 0, String),
        whole("id", 1, Identity);
    /// The program hands work to another thread.
    UserPost = 0x16a, "work posted", Marks, Connection, Runtime,
        whole("name", 0, String),
        whole("id", 1, Identity);
    /// A stack of this thread, taken now: the number of its innermost node in the file's table of stacks. `reason` says
    /// where it was taken. Earlier versions of the runtime wrote it in this form.
    Stack = 0x172, "stack", Stacks, Semantics, Runtime,
        part("node", 0, 0, 32, Number),
        part("generation", 0, 32, 32, Number),
        part("reason", 1, 0, 8, Choice(STACK_REASONS)),
        part("cut", 1, 8, 1, Flag);
    /// The whole counter, in ticks, of this event and of the event before it: the thread recorded nothing for so long that
    /// the low 32 bits of the counter do not show for how long.
    FullTime = 0x18a, "full time", Recording, Semantics, Runtime,
        whole("before", 0, Number),
        whole("now", 1, Number);
    /// The thread's last stack was found again this number of times, without any other event in between; the last time so
    /// long before this event.
    StackAgain = 0x192, "same stack again", Stacks, Semantics, Runtime,
        whole("times", 0, Number),
        whole("ago", 1, Nanoseconds);
    /// An element is put into a `BlockingQueue`, for another thread to take. The class is the element's.
    ItemPut = 0x19a, "item put", Tasks, Connection, Runtime,
        whole("item", 0, Identity),
        whole("class", 1, Class);
    /// The thread takes an element out of a `BlockingQueue`, to work on it.
    ItemTaken = 0x1a2, "item taken", Tasks, Connection, Runtime,
        whole("item", 0, Identity),
        whole("class", 1, Class);
    /// A callback is posted, to be run in the next frame after the delay. The class is the callback's.
    CallbackPosted = 0x1ab, "frame callback posted", Frames, Connection, Runtime,
        whole("callback", 0, Identity),
        whole("class", 1, Class),
        part("delay", 2, 32, 32, Milliseconds);
    /// A frame runs this callback next. It ends where the next one or another type of callbacks begins, or with the frame.
    CallbackRun = 0x1b2, "frame callback runs", Frames, Boundary, Runtime,
        whole("callback", 0, Identity),
        whole("type", 1, Choice(FRAME_CALLBACKS));
    /// A method that a rule names is entered. The object is the one of which the rule asks for the identity: `this` or an
    /// argument; 0 for none, and while it is locked without its identity being known.
    RuleBegin = 0x1c2, "rule begins", Rules, Boundary, Runtime,
        whole("name", 0, String),
        whole("object", 1, Identity);
    /// The method is left, by its return or by an exception.
    RuleEnd = 0x1ca, "rule ends", Rules, Boundary, Runtime,
        whole("name", 0, String),
        whole("object", 1, Identity);
    /// As a `FieldRead`. Earlier versions of the runtime wrote it in this form; readers show it as a `FieldRead`.
    ShortFieldRead = 0x1d2, "field read, short", Rules, Connection, Runtime,
        whole("name", 0, String),
        whole("object", 1, Identity);
    /// As a `FieldWritten`. Earlier versions of the runtime wrote it in this form; readers show it as a `FieldWritten`.
    ShortFieldWritten = 0x1da, "field written, short", Rules, Connection, Runtime,
        whole("name", 0, String),
        whole("object", 1, Identity);
    /// An activity begins to be created, started …
    LifecycleBegin = 0x1e3, "lifecycle step begins", Lifecycle, Boundary, Runtime,
        whole("activity", 0, Identity),
        whole("class", 1, Class),
        part("step", 2, 0, 8, Choice(LIFECYCLE_STEPS));
    /// The step is done.
    LifecycleEnd = 0x1ea, "lifecycle step ends", Lifecycle, Boundary, Runtime,
        whole("activity", 0, Identity),
        part("step", 1, 0, 8, Choice(LIFECYCLE_STEPS));
    /// A `Stack` in one payload slot, as the runtime writes it. Readers show it as a `Stack`.
    PackedStack = 0x1f1, "packed stack", Stacks, Semantics, Runtime,
        part("node", 0, 0, STACK_NODE_BITS, Number),
        part("generation", 0, 24, 32, Number),
        part("reason", 0, 56, 7, Choice(STACK_REASONS)),
        part("cut", 0, 63, 1, Flag);
    /// All threads are suspended now, for a garbage collection on this thread.
    GcPauseBegin = 0x1f8, "collection suspends all threads", Runtime, Boundary, Runtime;
    /// The garbage collection resumes all threads. On Android 14 some run already.
    GcPauseEnd = 0x200, "collection resumes all threads", Runtime, Boundary, Runtime;
    /// A field that a rule names is read. The object is the one that has the field; 0 if the field is static. The method
    /// reads it, by its instruction at `dex pc`; a native method has none. The value is only recorded if the rule asks for
    /// it and the process's configuration allows it; it is the field's just before the read.
    FieldRead = 0x20c, "field read", Rules, Connection, Runtime,
        part("name", 0, 0, 32, String),
        part("type", 0, 32, 8, Choice(VALUE_TYPES)),
        part("object", 1, 0, 32, Identity),
        part("dex pc", 1, 32, 32, DexPc),
        whole("method", 2, Method),
        whole("value", 3, Value);
    /// A field that a rule names is written, with this value; otherwise as for a read.
    FieldWritten = 0x214, "field written", Rules, Connection, Runtime,
        part("name", 0, 0, 32, String),
        part("type", 0, 32, 8, Choice(VALUE_TYPES)),
        part("object", 1, 0, 32, Identity),
        part("dex pc", 1, 32, 32, DexPc),
        whole("method", 2, Method),
        whole("value", 3, Value);
    /// In a method whose branches a rule traces, the thread went on at `to` after the branch instruction at `from`, this
    /// number of times since its last such event. The first time in a call is recorded at once, further ones every 10 ms, and
    /// the rest when the call ends.
    /// Without `from` and `to`: branches that were not told apart, because there were too many different ones.
    BranchTaken = 0x21b, "branches taken", Rules, Semantics, Runtime,
        part("name", 0, 0, 32, String),
        part("times", 0, 32, 32, Number),
        part("from", 1, 0, 32, DexPc),
        part("to", 1, 32, 32, DexPc),
        whole("method", 2, Method);
}

/// The bits of a node's number in [`Extension::PackedStack`].
pub const STACK_NODE_BITS: u8 = 24;

/// Where a stack was taken.
pub const STACK_REASONS: &[&str] = &[
    "wait begins",
    "wait ends",
    "allocation",
    "native call",
    "wakes",
    "library load",
    "checkpoint",
    "program",
    "gc wait",
    "transaction",
    "message",
];

impl Extension {
    /// Every extension this version knows, in the order of their numbers.
    pub fn all() -> impl Iterator<Item = Extension> {
        CATALOGUE.iter().map(|s| s.extension)
    }

    /// The number stored in the low half of the event's slot.
    pub const fn number(self) -> u32 {
        self as u32
    }

    /// The extension with this number, or `None` if it is a newer writer's.
    pub fn from_number(number: u32) -> Option<Self> {
        Spec::from_number(number).map(|s| s.extension)
    }

    /// The event in the form that readers use: a `PackedStack` as a `Stack`, a `ShortFieldRead` as a `FieldRead`, a
    /// `ShortFieldWritten` as a `FieldWritten`. `payload` has its slots, and zeros.
    pub fn unpacked(self, payload: [u64; 4]) -> (Self, [u64; 4]) {
        let form = match self {
            Extension::PackedStack => Extension::Stack,
            Extension::ShortFieldRead => Extension::FieldRead,
            Extension::ShortFieldWritten => Extension::FieldWritten,
            _ => return (self, payload),
        };
        let mut unpacked = [0; 4];
        for to in form.spec().fields {
            match self.spec().field(to.name) {
                Some(from) => to.set(&mut unpacked, from.get(&payload)),
                None if to.kind == DexPc => to.set(&mut unpacked, NO_DEX_PC),
                None => {}
            }
        }
        (form, unpacked)
    }

    /// Its entry in the catalogue.
    pub fn spec(self) -> &'static Spec {
        // Every extension is made by the same macro as its entry.
        Spec::from_number(self.number()).unwrap_or(&CATALOGUE[0])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::slot::{payload_slots, FIRST_EXTENSION, FIRST_METHOD};

    #[test]
    fn numbers_ascend_and_carry_the_payloads_length() {
        for (i, spec) in CATALOGUE.iter().enumerate() {
            let number = spec.extension.number();
            assert!(
                (FIRST_EXTENSION..FIRST_METHOD).contains(&number),
                "{spec:?}"
            );
            assert!(CATALOGUE[..i]
                .iter()
                .all(|s| s.extension.number() < number && s.identifier != spec.identifier));
            let words = spec.fields.iter().map(|f| f.word + 1).max().unwrap_or(0);
            assert_eq!(usize::from(words), payload_slots(number), "{spec:?}");
            assert_eq!(Extension::from_number(number), Some(spec.extension));
            assert_eq!(spec.extension.spec(), spec);
        }
        assert_eq!(Extension::from_number(4095), None);
    }

    #[test]
    fn fields_do_not_overlap_and_keep_their_numbers() {
        for spec in CATALOGUE {
            let mut used = [0_u64; 7];
            let mut payload = [0_u64; 7];
            for (i, field) in spec.fields.iter().enumerate() {
                assert!(spec.fields[..i].iter().all(|f| f.name != field.name));
                assert!(u32::from(field.shift) + u32::from(field.bits) <= 64);
                let mut mask = [0_u64; 7];
                field.set(&mut mask, u64::MAX);
                assert_eq!(mask[field.word as usize] & used[field.word as usize], 0);
                used[field.word as usize] |= mask[field.word as usize];
                field.set(&mut payload, 1 + i as u64);
            }
            for (i, field) in spec.fields.iter().enumerate() {
                let kept = if field.bits == 1 {
                    (1 + i as u64) & 1
                } else {
                    1 + i as u64
                };
                assert_eq!(field.get(&payload), kept, "{spec:?}");
                assert_eq!(field.get(&[]), 0);
            }
        }
    }

    #[test]
    fn a_packed_stack_is_a_stack() {
        let numbers = [
            ("node", 0xff_fffe),
            ("generation", u64::from(u32::MAX - 1)),
            ("reason", 10),
            ("cut", 1),
        ];
        for (name, number) in numbers {
            let mut packed = [0; 4];
            let field = |kind: Extension| kind.spec().field(name).unwrap();
            field(Extension::PackedStack).set(&mut packed, number);
            let (kind, payload) = Extension::PackedStack.unpacked(packed);
            assert_eq!(kind, Extension::Stack);
            let mut expected = [0; 4];
            field(Extension::Stack).set(&mut expected, number);
            assert_eq!(payload, expected, "{name}");
        }
        let other = (Extension::Stack, [1, 2, 3, 4]);
        assert_eq!(Extension::Stack.unpacked([1, 2, 3, 4]), other);
    }

    #[test]
    fn a_short_access_to_a_field_is_one_without_a_method() {
        let (kind, payload) = Extension::ShortFieldWritten.unpacked([5, 7, 0, 0]);
        assert_eq!(kind, Extension::FieldWritten);
        let expected = [
            ("name", 5),
            ("type", 0),
            ("object", 7),
            ("dex pc", NO_DEX_PC),
            ("method", 0),
            ("value", 0),
        ];
        for (name, number) in expected {
            assert_eq!(kind.spec().field(name).unwrap().get(&payload), number);
        }
        let (kind, _) = Extension::ShortFieldRead.unpacked([5, 7, 0, 0]);
        assert_eq!(kind, Extension::FieldRead);
    }

    #[test]
    fn categories_have_distinct_names_and_bits() {
        for (i, category) in Category::ALL.into_iter().enumerate() {
            assert_eq!(category.bit(), 1 << i);
            assert_eq!(Category::from_name(category.name()), Some(category));
        }
        assert_eq!(Category::from_name("all"), None);
    }
}
