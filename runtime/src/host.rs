// SPDX-License-Identifier: Apache-2.0
//! The services that the recorder needs from the managed runtime.

use hindsight_trace_format::container::Symbol;
use hindsight_trace_format::shared::BootImage;

use crate::rules::{NumberedRule, RuleReport};
use crate::thread::words::ThreadWords;

/// How serious a log message is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Severity {
    /// For developers of Hindsight.
    Debug,
    /// An action was completed.
    Info,
    /// The trace is incomplete, or slower to record than it should be.
    Warning,
    /// Tracing, or a request, failed.
    Error,
}

/// Which of the linked classes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LinkedClasses {
    /// Those in the boot image: many, and the same ones in each process.
    OfBootImage,
    /// All others: few when a process starts.
    Others,
}

/// Limits of the watchdog of the main looper.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MessageLimits {
    /// The longest time of a message that is not reported, ms; 0: such messages are not looked for.
    pub slow_ms: u64,
    /// A message that runs for longer is reported before it ends, ms; 0: such messages are not looked for.
    pub stuck_ms: u64,
    /// No report within this time after another one, ms.
    pub quiet_ms: u64,
}

/// Facts about the process that only the managed runtime knows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProcessIdentity {
    /// Process or package name.
    pub name: String,
    /// Further facts for [`hindsight_trace_format::container::ProcessFacts::extra`].
    pub extra: Vec<(String, String)>,
}

/// The managed runtime. Only [`log`](Self::log), [`name_methods_of_class`](Self::name_methods_of_class),
/// [`name_methods_of_loader`](Self::name_methods_of_loader) and
/// [`obstacle_to_lock_free`](Self::obstacle_to_lock_free) are called on threads other than the control thread.
pub trait Host: Send + Sync + 'static {
    /// Registers the calling thread with the managed runtime; false if the runtime is shutting down.
    fn attach_control_thread(&self) -> bool;
    /// Undoes [`attach_control_thread`](Self::attach_control_thread).
    fn detach_control_thread(&self);
    /// Runs `action` while the thread `tid` is at a safepoint, suspended or in native code. The host decides
    /// which thread runs it. Returns false, without having run it, if there is no such thread.
    fn run_at_safepoint(&self, tid: u32, action: &mut (dyn FnMut() + Send)) -> bool;
    /// Whether the thread with these words runs managed code now, and so may be at a trace point. The thread is
    /// registered, and stays registered during the call.
    fn runs_managed_code(&self, words: *const ThreadWords) -> bool {
        let _ = words;
        true
    }
    /// Why the lock-free protocol cannot be used, if it cannot; threads are then stopped at safepoints. The
    /// protocol needs [`runs_managed_code`](Self::runs_managed_code), and trace points that call the stubs set by
    /// [`set_stubs`](crate::set_stubs).
    fn obstacle_to_lock_free(&self) -> Option<&'static str> {
        Some("it does not tell which threads run managed code")
    }
    /// Passes the names of the methods at `addresses`, which are sorted, to `named`; addresses without a live method are left
    /// out. May take long: the host lets other threads go on meanwhile.
    fn symbolize(&self, addresses: &[u64], named: &mut dyn FnMut(Symbol));
    /// Calls `named` for each method of the classes in `which` that are linked now, class by class. May take long: the host lets
    /// other threads go on meanwhile. From the first call on the host calls
    /// [`Recorder::class_linked`](crate::Recorder::class_linked) for each class. The control thread makes all calls.
    fn name_linked_classes(&self, which: LinkedClasses, named: &mut dyn FnMut(Symbol)) {
        let _ = (which, named);
    }
    /// Passes the names of a class's methods to `named`. The class is the one given to
    /// [`Recorder::class_linked`](crate::Recorder::class_linked), which makes this call on the same thread.
    fn name_methods_of_class(&self, class: usize, named: &mut dyn FnMut(Symbol)) {
        let _ = (class, named);
    }
    /// Whether several methods may be recorded with this address; then none gets a name. Once this is so, it stays so.
    fn is_ambiguous(&self, address: u64) -> bool {
        let _ = address;
        false
    }
    /// Passes the names of a class loader's methods to `named`. The loader is the one given to
    /// [`Recorder::loader_unloading`](crate::Recorder::loader_unloading), which makes this call on the same thread,
    /// before the methods are freed.
    fn name_methods_of_loader(&self, loader: usize, named: &mut dyn FnMut(Symbol)) {
        let _ = (loader, named);
    }
    /// Threads record events of these categories from now on, as bits
    /// (`hindsight_trace_format::catalogue::Category`); hooks of other categories may do nothing.
    fn set_event_categories(&self, categories: u32) {
        let _ = categories;
    }
    /// Asks each thread with one of these kernel ids, which are sorted, to take its stack at its next safepoint, if it runs
    /// managed code now. Sets the elements of `are_running` that belong to such threads to 1. Waits for none of them.
    fn request_stacks(&self, tids: &[u32], are_running: &mut [u8]) {
        let _ = (tids, are_running);
    }
    /// Follows these rules from now on, instead of those before.
    fn set_rules(&self, rules: &[NumberedRule]) {
        let _ = rules;
    }
    /// How each rule of [`set_rules`](Self::set_rules) is followed now, in their order.
    fn rule_reports(&self) -> Vec<RuleReport> {
        Vec::new()
    }
    /// The watchdog of the main looper has these limits from now on.
    fn set_message_limits(&self, limits: MessageLimits) {
        let _ = limits;
    }
    /// The image with the classes that all processes share. Asked for once, before any thread records.
    fn boot_image(&self) -> BootImage {
        BootImage::default()
    }
    /// The process's name, and facts for the trace.
    fn identity(&self) -> ProcessIdentity;
    /// Writes to the log.
    fn log(&self, severity: Severity, message: &str);
}
