// SPDX-License-Identifier: Apache-2.0
//! The calls between ART's hooks (C++, in `cc/`) and Hindsight that have types on both sides.
//!
//! Calls at every event, and from signal handlers, are in [`crate::recorder`] instead.

use crate::{control, emitter};
use control::{SafepointRequest, SymbolSink};

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
        /// What is wrong with the specification, or nothing.
        error: String,
    }

    /// See `hindsight_trace_format::container::Symbol`.
    struct MethodName<'a> {
        address: u64,
        class_name: &'a str,
        name: &'a str,
        signature: &'a str,
        source_file: &'a str,
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

    extern "Rust" {
        type SafepointRequest<'a>;
        /// Does what was asked for; called at most once.
        unsafe fn run<'a>(self: &mut SafepointRequest<'a>);

        type SymbolSink<'a>;
        /// Passes a method's name on.
        unsafe fn add<'a>(self: &mut SymbolSink<'a>, method: &MethodName);

        fn start(configuration: &str, stubs: &StubTable) -> bool;
        fn shutdown();
        /// `words`: address of the calling thread's `ThreadWords`.
        fn thread_started(tid: u32, name: &str, words: usize);
        fn thread_exiting(words: usize);
        fn thread_renamed(tid: u32, name: &str);
        /// `loader`: address of an `UnloadingLoader`, for `NameMethodsOfLoader`.
        fn class_loader_unloading(loader: usize);
        /// The thread `tid`, which waits, is woken by the thread `waker`.
        fn thread_woken(tid: u32, waker: u32);
        /// The main thread came to the foreground.
        fn thread_in_foreground(tid: u32);
        /// Whether the name was a command to trace the thread, in Nanoscope's way. Waits until it is done.
        fn thread_name_command(tid: u32, name: &str) -> bool;
        /// Writes the rings of all threads to a file; returns its path, or an empty string.
        fn snapshot(reason: String, tid: u32) -> String;
        /// Starts or stops tracing the thread, and waits for that; false if it cannot be done.
        fn trace_thread(tid: u32, trace: bool) -> bool;

        fn emit_trace_point(spec: &TracePointSpec) -> EmittedCode;
    }

    #[namespace = "art::hindsight"]
    unsafe extern "C++" {
        include!("hindsight/runtime/art_services.h");

        fn AttachControlThread() -> bool;
        fn DetachControlThread();
        fn RunAtSafepoint<'a>(tid: u32, request: &mut SafepointRequest<'a>) -> bool;
        fn RunsManagedCode(words: usize) -> bool;
        fn ObstacleToLockFree() -> &'static str;
        fn Symbolize<'a>(addresses: &[u64], sink: &mut SymbolSink<'a>);
        fn NameMethodsOfLoader<'a>(loader: usize, sink: &mut SymbolSink<'a>);
        fn Log(severity: u8, message: &str);
        fn ProcessName() -> String;
        fn ArtRelease() -> String;
    }
}

use control::{
    class_loader_unloading, shutdown, snapshot, start, thread_exiting, thread_in_foreground,
    thread_name_command, thread_renamed, thread_started, thread_woken, trace_thread,
};
use emitter::emit_trace_point;
