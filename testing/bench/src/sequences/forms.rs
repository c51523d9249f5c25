// SPDX-License-Identifier: Apache-2.0
//! Every form of a trace point, as a request to the code generators.

use anyhow::Result;
use hindsight_codegen_check::Isa;
use hindsight_codegen_core::Form as Layout;
use hindsight_codegen_thumb2 as thumb2;
use hindsight_codegen_x86_64 as x86_64;
use {hindsight_codegen_aarch64 as aarch64, hindsight_codegen_aarch64::Reg as A64};

/// Offsets of the made-up thread's words, in bytes.
pub(super) mod words {
    pub(crate) const CURSOR: i32 = 0x58;
    pub(crate) const POLL: i32 = 0x98;
    pub(crate) const EXIT_STUB: i32 = 0xa0;
    pub(crate) const ENTRY_STUB: i32 = 0xa8;
    pub(crate) const START: i32 = 0xb0;
    pub(crate) const END: i32 = 0xb8;
    pub(crate) const STOP: i32 = 0xc0;
}

/// The default size of a ring.
pub(super) const RING_BYTES: u32 = 32 << 20;

/// The test of a form for whether tracing is on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Test {
    /// The cursor, which is 0 while tracing is off.
    Cursor,
    /// A byte is.
    Byte,
    /// The word with the stub's address is.
    Pointer,
    /// None: the stub does nothing while tracing is off.
    None,
}

/// One form. An entry or exit that is the same as another form's is left out.
#[derive(Clone, Debug)]
pub(super) struct Form {
    /// Its name in metrics.
    pub(super) name: &'static str,
    pub(super) test: Test,
    pub(super) entry: Option<Vec<u8>>,
    pub(super) exit: Option<Vec<u8>>,
    /// Bytes of the return instruction that the exit replaces, or 0.
    pub(super) exit_replaces: usize,
}

/// The name of the instruction set in metrics.
pub(super) fn isa_name(isa: Isa) -> &'static str {
    match isa {
        Isa::Aarch64 => "aarch64",
        Isa::Thumb2 => "thumb2",
        Isa::X86_64 => "x86_64",
    }
}

/// Every form of an instruction set, the default one first.
pub(super) fn all(isa: Isa) -> Result<Vec<Form>> {
    match isa {
        Isa::Aarch64 => all_aarch64(),
        Isa::Thumb2 => all_thumb2(),
        Isa::X86_64 => all_x86_64(),
    }
}

/// The inline forms: name, layout, whether pointers may be wide.
const INLINE: [(&str, Layout, bool); 5] = [
    ("inline", Layout::Inline, false),
    ("inline_wide", Layout::Inline, true),
    (
        "masked",
        Layout::Masked {
            ring_bytes: RING_BYTES,
        },
        false,
    ),
    (
        "hubble",
        Layout::Hubble {
            stop_offset: words::STOP,
            start_offset: words::START,
            end_offset: words::END,
        },
        true,
    ),
    ("nanoscope", Layout::Nanoscope, false),
];

fn inline(name: &'static str, entry: Vec<u8>, exit: Vec<u8>) -> Form {
    Form {
        name,
        test: Test::Cursor,
        entry: Some(entry),
        exit: Some(exit),
        exit_replaces: 0,
    }
}

fn all_aarch64() -> Result<Vec<Form>> {
    use aarch64::{emit, emit_stub_call, Kind, StubCall, StubSite, TracePoint};
    let mut forms = Vec::new();
    for (name, form, wide_pointers) in INLINE {
        let code = |kind| {
            let point = TracePoint::new(kind, words::CURSOR);
            emit(&TracePoint {
                form,
                wide_pointers,
                ..point
            })
        };
        let entry = code(Kind::Entry { method: A64::X0 })?.bytes;
        forms.push(inline(name, entry, code(Kind::Exit)?.bytes));
    }
    let call = |site, stub_offset| -> Result<Vec<u8>> {
        let call = StubCall {
            site,
            poll_offset: words::POLL,
            stub_offset,
        };
        Ok(emit_stub_call(&call)?.bytes)
    };
    let exit = |site| call(site, words::EXIT_STUB);
    for (name, test, entry, exit) in [
        ("poll_stub", Test::Byte, None, exit(StubSite::PollTailExit)?),
        (
            "pointer_stub",
            Test::Pointer,
            Some(call(StubSite::LeafEntry, words::ENTRY_STUB)?),
            exit(StubSite::TailExit)?,
        ),
        ("jump_stub", Test::None, None, exit(StubSite::JumpExit)?),
    ] {
        forms.push(Form {
            name,
            test,
            entry,
            exit: Some(exit),
            exit_replaces: 4,
        });
    }
    Ok(forms)
}

fn all_thumb2() -> Result<Vec<Form>> {
    use thumb2::{emit, emit_stub_call, Kind, Reg, RegSet, StubCall, StubSite, TracePoint};
    let mut forms = Vec::new();
    for (name, form, wide) in INLINE {
        if wide && form == Layout::Inline {
            // Pointers have 32 bits.
            continue;
        }
        let code = |kind, free: &[Reg]| {
            let point = TracePoint::new(kind, words::CURSOR);
            let free = RegSet::of(free);
            emit(&TracePoint {
                form,
                free,
                ..point
            })
        };
        let entry = Kind::Entry { method: Reg::R0 };
        let entry = code(entry, &[Reg::R4, Reg::Ip, Reg::Lr])?.bytes;
        let exit = code(Kind::Exit, &[Reg::R2, Reg::R3, Reg::Ip])?.bytes;
        forms.push(inline(name, entry, exit));
    }
    let call = |site, stub_offset| -> Result<Vec<u8>> {
        let call = StubCall {
            site,
            poll_offset: words::POLL,
            stub_offset,
        };
        Ok(emit_stub_call(&call)?.bytes)
    };
    let entry = |site| call(site, words::ENTRY_STUB).map(Some);
    let exit = |site| call(site, words::EXIT_STUB);
    for (name, test, entry, exit, exit_replaces) in [
        (
            "poll_stub",
            Test::Byte,
            entry(StubSite::PollLeafEntry)?,
            exit(StubSite::PollFramedExit)?,
            0,
        ),
        (
            "poll_stub_frameless",
            Test::Byte,
            None,
            exit(StubSite::PollTailExit)?,
            2,
        ),
        (
            "pointer_stub",
            Test::Pointer,
            entry(StubSite::LeafEntry)?,
            exit(StubSite::FramedExit)?,
            0,
        ),
        (
            "pointer_stub_frameless",
            Test::Pointer,
            None,
            exit(StubSite::TailExit)?,
            2,
        ),
        ("jump_stub", Test::None, None, exit(StubSite::JumpExit)?, 2),
    ] {
        forms.push(Form {
            name,
            test,
            entry,
            exit: Some(exit),
            exit_replaces,
        });
    }
    Ok(forms)
}

fn all_x86_64() -> Result<Vec<Form>> {
    use x86_64::{emit, emit_stub_call, Kind, Reg, RegSet, StubCall, StubSite, TracePoint};
    let mut forms = Vec::new();
    for (name, form, wide_pointers) in INLINE {
        let code = |kind, free: &[Reg]| {
            emit(&TracePoint {
                form,
                wide_pointers,
                free: RegSet::of(free),
                ..TracePoint::new(kind, words::CURSOR)
            })
        };
        let entry = Kind::Entry { method: Reg::Rdi };
        let entry = code(entry, &[Reg::Rax, Reg::R10])?.bytes;
        let exit = code(Kind::Exit, &[Reg::Rdx, Reg::R10])?.bytes;
        forms.push(inline(name, entry, exit));
    }
    let call = |site, stub_offset| -> Result<Vec<u8>> {
        let call = StubCall {
            site,
            poll_offset: words::POLL,
            stub_offset,
        };
        Ok(emit_stub_call(&call)?.bytes)
    };
    let entry = |site| call(site, words::ENTRY_STUB).map(Some);
    let exit = |site| call(site, words::EXIT_STUB);
    for (name, test, entry, exit) in [
        (
            "poll_stub",
            Test::Byte,
            entry(StubSite::PollLeafEntry)?,
            exit(StubSite::PollTailExit)?,
        ),
        (
            "pointer_stub",
            Test::Pointer,
            entry(StubSite::LeafEntry)?,
            exit(StubSite::TailExit)?,
        ),
        (
            "pointer_stub_jrcxz",
            Test::Pointer,
            None,
            exit(StubSite::ShortExit)?,
        ),
        (
            "jump_stub",
            Test::None,
            entry(StubSite::CallEntry)?,
            exit(StubSite::JumpExit)?,
        ),
    ] {
        forms.push(Form {
            name,
            test,
            entry,
            exit: Some(exit),
            exit_replaces: 1,
        });
    }
    Ok(forms)
}

/// The stub of an x86-64 thread: the inline form and a return. At an entry it keeps all registers except r11.
pub(super) fn x86_64_stubs() -> Result<[Vec<u8>; 2]> {
    use x86_64::{emit, Kind, Reg, RegSet, TracePoint};
    let entry = TracePoint::new(Kind::Entry { method: Reg::Rdi }, words::CURSOR);
    let exit = TracePoint {
        free: RegSet::of(&[Reg::Rdx, Reg::R10]),
        ..TracePoint::new(Kind::Exit, words::CURSOR)
    };
    let mut stubs = [emit(&entry)?.bytes, emit(&exit)?.bytes];
    for stub in &mut stubs {
        stub.push(0xc3);
    }
    Ok(stubs)
}
