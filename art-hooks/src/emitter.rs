// SPDX-License-Identifier: Apache-2.0
//! Machine code for ART's code generators.

use hindsight_codegen_aarch64::{self as aarch64, Aarch64};
use hindsight_codegen_core::{Encoder, Kind, Register, StubCall, StubSite, TracePoint};
use hindsight_codegen_thumb2::{self as thumb2, Thumb2};
use hindsight_codegen_x86_64::{self as x86_64, X86_64};

/// Whether `ArtMethod`s may lie above 4 GiB.
const WIDE_METHOD_POINTERS: bool = cfg!(feature = "wide-method-pointers");

/// Where in a method a trace point stands.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Site {
    /// The method's entry; records in place.
    InlineEntry {
        /// The number of the register that holds the method.
        method_register: u8,
    },
    /// A method exit; records in place.
    InlineExit {
        /// Whether a core register holds the value that is about to be returned.
        returns_core_value: bool,
    },
    /// A call of the stub.
    Stub(StubSite),
}

/// A trace point's place, and the offsets of the words that it uses in the thread, in bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Request {
    pub(crate) site: Site,
    pub(crate) cursor_offset: i32,
    pub(crate) stub_offset: i32,
}

/// Machine code, and the offset in it that later exits may branch to.
pub(crate) struct Emitted {
    pub(crate) bytes: Vec<u8>,
    pub(crate) shared_exit: Option<usize>,
}

/// The registers that ART's code generators keep free for trace points that record in place (their visitors of
/// HTraceStart and HTraceEnd).
pub(crate) trait FreeInArt: Encoder {
    /// At an entry.
    fn at_entry() -> Self::RegSet;

    /// At an exit, where a core register may hold the value that is about to be returned.
    fn at_exit(returns_core_value: bool) -> Self::RegSet;
}

impl FreeInArt for X86_64 {
    fn at_entry() -> x86_64::RegSet {
        x86_64::RegSet::of(&[x86_64::Reg::Rax, x86_64::Reg::R10])
    }

    fn at_exit(returns_core_value: bool) -> x86_64::RegSet {
        let free = x86_64::RegSet::of(&[x86_64::Reg::Rdx, x86_64::Reg::R10]);
        if returns_core_value {
            free
        } else {
            free.with(x86_64::Reg::Rax)
        }
    }
}

impl FreeInArt for Aarch64 {
    fn at_entry() -> aarch64::RegSet {
        aarch64::RegSet::EMPTY
    }

    fn at_exit(_returns_core_value: bool) -> aarch64::RegSet {
        aarch64::RegSet::EMPTY
    }
}

impl FreeInArt for Thumb2 {
    /// The frame has lr.
    fn at_entry() -> thumb2::RegSet {
        thumb2::RegSet::of(&[thumb2::Reg::R4, thumb2::Reg::Ip, thumb2::Reg::Lr])
    }

    fn at_exit(_returns_core_value: bool) -> thumb2::RegSet {
        thumb2::RegSet::of(&[thumb2::Reg::R2, thumb2::Reg::R3, thumb2::Reg::Ip])
    }
}

/// The code of a trace point, or the reason why there is none.
pub(crate) fn emit<I: FreeInArt>(request: &Request) -> Result<Emitted, String> {
    let (kind, free) = match request.site {
        Site::InlineEntry { method_register } => {
            let method = I::Reg::from_number(method_register)
                .ok_or_else(|| format!("{} has no register {method_register}", I::NAME))?;
            (Kind::Entry { method }, I::at_entry())
        }
        Site::InlineExit { returns_core_value } => (Kind::Exit, I::at_exit(returns_core_value)),
        Site::Stub(site) => return emit_stub_call::<I>(site, request.stub_offset),
    };
    let point = TracePoint {
        wide_pointers: WIDE_METHOD_POINTERS,
        free,
        ..TracePoint::new(kind, request.cursor_offset)
    };
    let code = I::emit(&point).map_err(|e| e.to_string())?;
    Ok(Emitted {
        bytes: code.bytes,
        shared_exit: None,
    })
}

fn emit_stub_call<I: Encoder>(site: StubSite, stub_offset: i32) -> Result<Emitted, String> {
    // A 32-bit pointer is never wide.
    if WIDE_METHOD_POINTERS && I::WORD_BYTES == 8 {
        return Err(
            "the stubs record 32 bits of a method's address, and this build allows wide ones: compile with \
             HINDSIGHT_TRACE_POINTS=inline"
                .to_owned(),
        );
    }
    let code = I::emit_stub_call(&StubCall::new(site, stub_offset)).map_err(|e| e.to_string())?;
    Ok(Emitted {
        bytes: code.bytes,
        shared_exit: code.shared_exit,
    })
}
