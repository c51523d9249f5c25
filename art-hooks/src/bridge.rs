// SPDX-License-Identifier: Apache-2.0
//! The typed calls between ART's hooks (C++, in `cc/`) and Hindsight.
//!
//! Calls at every event, and from signal handlers, are in [`crate::recorder`].

use hindsight_codegen_aarch64::Aarch64;
use hindsight_codegen_core::StubSite;
use hindsight_codegen_thumb2::Thumb2;
use hindsight_codegen_x86_64::X86_64;
use hindsight_runtime::rules::{Identity, NumberedRule, RuleReport, RuleState, Target};
use hindsight_runtime::{Host, LinkedClasses, MessageLimits, ProcessIdentity, Severity};
use hindsight_trace_format::container::{Symbol, APP_VERSION_FACT};
use hindsight_trace_format::shared::BootImage;

use crate::control::{
    self, activities, app_is_known, class_linked, class_loader_unloading, crashed, guarded,
    process_in_background, register_name, shutdown, snapshot, stacks_wanted, thread_exiting,
    thread_in_foreground, thread_name_command, thread_renamed, thread_started, trace_thread,
    trim_memory,
};
use crate::emitter::{self, emit, Emitted};
use crate::modified_utf8::decode;

#[cxx::bridge(namespace = "art::hindsight::bridge")]
pub(crate) mod ffi {
    /// An instruction set that has trace points.
    enum Isa {
        X86_64,
        Aarch64,
        Thumb2,
    }

    /// See `TraceSite` in `hindsight/compiler/trace_point_emitter.h`.
    enum Site {
        InlineEntry,
        InlineExit,
        LeafEntry,
        TailExit,
        LaterExit,
        FramedExit,
    }

    /// See `TracePointRequest` in `hindsight/compiler/trace_point_emitter.h`.
    struct TracePointSpec {
        isa: Isa,
        site: Site,
        method_register: u8,
        cursor_offset: i32,
        stub_offset: i32,
        returns_core_value: bool,
        shared_exit: i32,
    }

    /// See `EmittedTracePoint` in `hindsight/compiler/trace_point_emitter.h`.
    struct EmittedCode {
        bytes: Vec<u8>,
        shared_exit: i32,
        /// Why there is no code, or empty.
        error: String,
    }

    /// See `hindsight_trace_format::container::Symbol`. The strings are modified UTF-8.
    struct MethodName<'a> {
        address: u64,
        class_name: &'a [u8],
        name: &'a [u8],
        signature: &'a [u8],
        source_file: &'a [u8],
        dex_checksum: u32,
        dex_method_index: u32,
    }

    /// See `hindsight_runtime::Stubs`.
    struct Stubs {
        exit: usize,
        leaf_entry: usize,
        entry: usize,
    }

    /// See `hindsight_runtime::StubTable`.
    struct StubTable {
        recording: Stubs,
        slow_path: Stubs,
        entry_slot: isize,
    }

    /// See `hindsight_runtime::rules::Rule`.
    struct RuleSpec {
        is_method: bool,
        class_descriptor: String,
        member: String,
        /// Empty: any.
        parameters: String,
        /// 0: `this`; -1: none; -2: what the method returns.
        argument: i32,
        /// The identity is made of the argument's and of `this`.
        with_this: bool,
        reads: bool,
        writes: bool,
        value: bool,
        branches: bool,
        number: u32,
    }

    /// See `hindsight_runtime::rules::RuleState`.
    enum RuleState {
        On,
        Waits,
        Failed,
    }

    /// See `hindsight_runtime::rules::RuleReport`.
    struct RuleReport {
        state: RuleState,
        message: String,
    }

    // C++ passes a string that may not be UTF-8 as bytes: `rust::Str` would end the process. Names of ART are modified
    // UTF-8.
    extern "Rust" {
        type SafepointRequest<'a>;
        /// Runs the action. Called at most once.
        unsafe fn run<'a>(self: &mut SafepointRequest<'a>);

        type SymbolSink<'a>;
        /// Takes a method's name.
        unsafe fn add<'a>(self: &mut SymbolSink<'a>, method: &MethodName);

        /// `obstacle`: why the process cannot be traced, or empty.
        fn start(configuration: &[u8], stubs: &StubTable, obstacle: &str) -> bool;
        fn shutdown();
        /// `words`: address of the calling thread's `ThreadWords`.
        fn thread_started(tid: u32, name: &[u8], words: usize);
        fn thread_exiting(words: usize);
        fn thread_renamed(tid: u32, name: &[u8]);
        /// `loader`: address of an `UnloadingLoader`, for `NameMethodsOfLoader`.
        fn class_loader_unloading(loader: usize);
        /// `klass`: address of a `Handle` of a class that was linked, for `NameMethodsOfClass`.
        fn class_linked(klass: usize);
        /// The number of a name for the program's own events; 0 if there is none.
        fn register_name(name: &[u8]) -> u32;
        /// The main thread came to the foreground.
        fn thread_in_foreground(tid: u32);
        /// The user does not see the process, or not any more.
        fn process_in_background();
        /// The process has activities that are started, or none any more.
        fn activities(are_started: bool);
        /// The system asks for the stacks of all threads, as it does when the process does not respond.
        fn stacks_wanted();
        /// The process's name and the version of its app can be found from now on.
        fn app_is_known();
        /// The system needs memory: gives the memory of the rings of calls back.
        fn trim_memory();
        /// Executes the name if it is one of Nanoscope's commands, and waits until that is done. Returns whether it was
        /// a command.
        fn thread_name_command(tid: u32, name: &[u8]) -> bool;
        /// Writes the rings of all threads to a file; returns its path, or an empty string.
        fn snapshot(reason: &[u8], tid: u32) -> String;
        /// An exception that nothing caught ends the thread; waits until the snapshot is taken, if one is.
        fn crashed(exception: &[u8], tid: u32);
        /// Starts or stops tracing the thread, and waits until that is done; false if it failed.
        fn trace_thread(tid: u32, trace: bool) -> bool;

        fn emit_trace_point(spec: &TracePointSpec) -> EmittedCode;
    }

    #[namespace = "art::hindsight"]
    unsafe extern "C++" {
        include!("hindsight/runtime/art_services.h");
        include!("hindsight/runtime/method_word.h");
        include!("hindsight/runtime/stack_requests.h");
        include!("hindsight/runtime/rules.h");

        fn AttachControlThread() -> bool;
        fn DetachControlThread();
        fn RunAtSafepoint<'a>(tid: u32, request: &mut SafepointRequest<'a>) -> bool;
        fn Symbolize<'a>(addresses: &[u64], sink: &mut SymbolSink<'a>);
        fn NameLinkedClasses<'a>(of_boot_image: bool, sink: &mut SymbolSink<'a>);
        fn NameMethodsOfClass<'a>(klass: usize, sink: &mut SymbolSink<'a>);
        fn NameMethodsOfLoader<'a>(loader: usize, sink: &mut SymbolSink<'a>);
        fn RequestStacks(tids: &[u32], are_running: &mut [u8]);
        fn Log(severity: u8, message: &str);
        fn ProcessName() -> String;
        fn ArtRelease() -> String;
        fn AppVersion() -> i64;
        fn LeavesOutTrivial() -> bool;
        fn BootImages() -> Vec<u64>;
        fn BytesOfHighArenas() -> u64;
        fn IsAmbiguousMethodWord(word: u64) -> bool;
        fn SetEventCategories(categories: u32);
        fn SetMessageLimits(slow_ms: u64, stuck_ms: u64, quiet_ms: u64);
        fn SetRules(rules: &[RuleSpec]);
        fn RuleReports() -> Vec<RuleReport>;
    }
}

/// An action of the control thread for a thread that stands at a safepoint.
pub(crate) struct SafepointRequest<'a> {
    action: &'a mut (dyn FnMut() + Send),
}

impl SafepointRequest<'_> {
    pub(crate) fn run(&mut self) {
        guarded("a safepoint request", (), || (self.action)());
    }
}

/// Receives the names of methods from ART.
pub(crate) struct SymbolSink<'a> {
    named: &'a mut dyn FnMut(Symbol),
}

impl SymbolSink<'_> {
    pub(crate) fn add(&mut self, method: &ffi::MethodName<'_>) {
        guarded("naming a method", (), || {
            (self.named)(Symbol {
                address: method.address,
                valid_from: 0,
                class: decode(method.class_name).into_owned(),
                name: decode(method.name).into_owned(),
                signature: decode(method.signature).into_owned(),
                source_file: decode(method.source_file).into_owned(),
                dex_checksum: method.dex_checksum,
                dex_method_index: method.dex_method_index,
            });
        });
    }
}

/// ART as the recorder's host.
struct Art;

impl Host for Art {
    fn attach_control_thread(&self) -> bool {
        ffi::AttachControlThread()
    }

    fn detach_control_thread(&self) {
        ffi::DetachControlThread();
    }

    fn run_at_safepoint(&self, tid: u32, action: &mut (dyn FnMut() + Send)) -> bool {
        ffi::RunAtSafepoint(tid, &mut SafepointRequest { action })
    }

    #[cfg(feature = "lab")]
    fn runs_managed_code(&self, words: *const hindsight_runtime::ThreadWords) -> bool {
        crate::lab::ffi::RunsManagedCode(words as usize)
    }

    #[cfg(feature = "lab")]
    fn obstacle_to_lock_free(&self) -> Option<&'static str> {
        Some(crate::lab::ffi::ObstacleToLockFree()).filter(|obstacle| !obstacle.is_empty())
    }

    fn symbolize(&self, addresses: &[u64], named: &mut dyn FnMut(Symbol)) {
        ffi::Symbolize(addresses, &mut SymbolSink { named });
    }

    fn name_linked_classes(&self, which: LinkedClasses, named: &mut dyn FnMut(Symbol)) {
        let of_boot_image = which == LinkedClasses::OfBootImage;
        ffi::NameLinkedClasses(of_boot_image, &mut SymbolSink { named });
    }

    fn name_methods_of_class(&self, class: usize, named: &mut dyn FnMut(Symbol)) {
        ffi::NameMethodsOfClass(class, &mut SymbolSink { named });
    }

    fn name_methods_of_loader(&self, loader: usize, named: &mut dyn FnMut(Symbol)) {
        ffi::NameMethodsOfLoader(loader, &mut SymbolSink { named });
    }

    fn is_ambiguous(&self, address: u64) -> bool {
        ffi::IsAmbiguousMethodWord(address)
    }

    fn boot_image(&self) -> BootImage {
        let images = ffi::BootImages();
        BootImage::of(
            images
                .chunks_exact(3)
                .map(|image| [image[0], image[1], image[2]]),
        )
    }

    fn identity(&self) -> ProcessIdentity {
        let mut extra = vec![("art.release".into(), ffi::ArtRelease())];
        if ffi::LeavesOutTrivial() {
            extra.push(("trivial.methods".into(), "not recorded".into()));
        }
        let high_bytes = ffi::BytesOfHighArenas();
        if high_bytes != 0 {
            extra.push(("methods.above.4gib".into(), format!("{high_bytes} bytes")));
        }
        let version = ffi::AppVersion();
        if version > 0 {
            extra.push((APP_VERSION_FACT.into(), version.to_string()));
        }
        ProcessIdentity {
            name: ffi::ProcessName(),
            extra,
        }
    }

    fn request_stacks(&self, tids: &[u32], are_running: &mut [u8]) {
        ffi::RequestStacks(tids, are_running);
    }

    fn set_event_categories(&self, categories: u32) {
        ffi::SetEventCategories(categories);
    }

    fn set_message_limits(&self, limits: MessageLimits) {
        ffi::SetMessageLimits(limits.slow_ms, limits.stuck_ms, limits.quiet_ms);
    }

    fn set_rules(&self, rules: &[NumberedRule]) {
        let specs: Vec<_> = rules.iter().map(rule_spec).collect();
        ffi::SetRules(&specs);
    }

    fn rule_reports(&self) -> Vec<RuleReport> {
        let reports = ffi::RuleReports();
        reports.into_iter().map(rule_report).collect()
    }

    fn log(&self, severity: Severity, message: &str) {
        log(severity, message);
    }
}

fn rule_spec(rule: &NumberedRule) -> ffi::RuleSpec {
    let NumberedRule { rule, number } = rule;
    let mut spec = ffi::RuleSpec {
        is_method: true,
        class_descriptor: rule.class.clone(),
        member: rule.member.clone(),
        parameters: String::new(),
        argument: -1,
        with_this: false,
        reads: false,
        writes: false,
        value: false,
        branches: false,
        number: *number,
    };
    match &rule.target {
        Target::Method {
            parameters,
            identity,
            branches,
        } => {
            spec.branches = *branches;
            spec.parameters = parameters.clone().unwrap_or_default();
            (spec.argument, spec.with_this) = match identity {
                Identity::No => (-1, false),
                Identity::This => (0, false),
                Identity::Argument(n) => ((*n).into(), false),
                Identity::Result => (-2, false),
                Identity::ThisAndArgument(n) => ((*n).into(), true),
                Identity::ThisAndResult => (-2, true),
            };
        }
        Target::Field {
            reads,
            writes,
            value,
        } => {
            spec.is_method = false;
            (spec.reads, spec.writes, spec.value) = (*reads, *writes, *value);
        }
    }
    spec
}

fn rule_report(report: ffi::RuleReport) -> RuleReport {
    RuleReport {
        state: match report.state {
            ffi::RuleState::On => RuleState::On,
            ffi::RuleState::Waits => RuleState::Waits,
            _ => RuleState::Failed,
        },
        message: report.message,
    }
}

fn log(severity: Severity, message: &str) {
    let severity = match severity {
        Severity::Debug => 0,
        Severity::Info => 1,
        Severity::Warning => 2,
        Severity::Error => 3,
    };
    ffi::Log(severity, message);
}

fn start(configuration: &[u8], stubs: &ffi::StubTable, obstacle: &str) -> bool {
    let stubs_of = |stubs: &ffi::Stubs| hindsight_runtime::Stubs {
        exit: stubs.exit,
        leaf_entry: stubs.leaf_entry,
        entry: stubs.entry,
    };
    let table = hindsight_runtime::StubTable {
        recording: stubs_of(&stubs.recording),
        slow_path: stubs_of(&stubs.slow_path),
        entry_slot: stubs.entry_slot,
    };
    control::start(configuration, table, obstacle, Box::new(Art), log)
}

fn emit_trace_point(spec: &ffi::TracePointSpec) -> ffi::EmittedCode {
    let panicked = Err("internal error in emit_trace_point; please report it".to_owned());
    let emitted = guarded("emit_trace_point", panicked, || {
        request(spec).and_then(|request| match spec.isa {
            ffi::Isa::X86_64 => emit::<X86_64>(&request),
            ffi::Isa::Aarch64 => emit::<Aarch64>(&request),
            ffi::Isa::Thumb2 => emit::<Thumb2>(&request),
            isa => Err(format!("there is no instruction set {}", isa.repr)),
        })
    });
    match emitted {
        Ok(Emitted { bytes, shared_exit }) => ffi::EmittedCode {
            bytes,
            shared_exit: shared_exit
                .and_then(|offset| i32::try_from(offset).ok())
                .unwrap_or(-1),
            error: String::new(),
        },
        Err(error) => ffi::EmittedCode {
            bytes: Vec::new(),
            shared_exit: -1,
            error,
        },
    }
}

fn request(spec: &ffi::TracePointSpec) -> Result<emitter::Request, String> {
    let site = match spec.site {
        ffi::Site::InlineEntry => emitter::Site::InlineEntry {
            method_register: spec.method_register,
        },
        ffi::Site::InlineExit => emitter::Site::InlineExit {
            returns_core_value: spec.returns_core_value,
        },
        ffi::Site::LeafEntry => emitter::Site::Stub(StubSite::LeafEntry),
        ffi::Site::TailExit => emitter::Site::Stub(StubSite::TailExit),
        ffi::Site::LaterExit => emitter::Site::Stub(StubSite::LaterExit {
            shared_exit: spec.shared_exit,
        }),
        ffi::Site::FramedExit => emitter::Site::Stub(StubSite::FramedExit),
        site => return Err(format!("there is no trace point of kind {}", site.repr)),
    };
    Ok(emitter::Request {
        site,
        cursor_offset: spec.cursor_offset,
        stub_offset: spec.stub_offset,
    })
}
